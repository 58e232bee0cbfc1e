"""Attention processors written for the reference, on our models: called with its arguments, the same numbers."""

import logging

import diffusers
import pytest
import torch
from diffusers.models import attention_processor as theirs

import lockstep
from lockstep import notes
from lockstep.errors import ConfigError, InputError, UnsupportedError
from pipelines import tiny

SAMPLE = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
TEXT = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(1))
MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def close(a, b):
    return torch.linalg.norm(a - b) <= 1e-5 * torch.linalg.norm(b)


@torch.no_grad()
def predict(model, **more):
    return model(SAMPLE, 7, TEXT[..., : model.config.cross_attention_dim], **more).sample


class Counted:
    """A processor in the field's manner: it reads everything that one may read, and takes a keyword of its own."""

    def __init__(self):
        self.calls = 0

    def __call__(
        self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None, strength=1.0, **kwargs
    ):
        self.calls += 1
        residual = hidden_states
        assert attn.spatial_norm is None
        assert attn.norm_q is None
        assert attn.norm_k is None
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        attention_mask = attn.prepare_attention_mask(attention_mask, source.shape[1], source.shape[0])
        if attn.group_norm is not None:
            hidden_states = attn.group_norm(hidden_states.transpose(1, 2)).transpose(1, 2)
        if encoder_hidden_states is not None and attn.norm_cross:
            source = attn.norm_encoder_hidden_states(source)
        query, key, value = (
            attn.head_to_batch_dim(projected)
            for projected in (attn.to_q(hidden_states), attn.to_k(source), attn.to_v(source))
        )
        mixed = attn.batch_to_head_dim(torch.bmm(attn.get_attention_scores(query, key, attention_mask), value))
        mixed = attn.to_out[1](attn.to_out[0](mixed)) * strength
        return ((mixed + residual) if attn.residual_connection else mixed) / attn.rescale_output_factor


@pytest.mark.parametrize("kind", [theirs.AttnProcessor, theirs.AttnProcessor2_0, Counted])
@pytest.mark.parametrize("masked", [False, True])
def test_a_processor_of_theirs_computes_what_ours_does(kind, masked):
    model = tiny.unet(4).eval()
    more = {"encoder_attention_mask": MASK} if masked else {}
    wanted = predict(model, **more)
    model.set_attn_processor(kind())
    assert close(predict(model, **more), wanted)
    if kind is Counted:
        assert next(iter(model.attn_processors.values())).calls == len(model.attn_processors)
        assert not close(predict(model, cross_attention_kwargs={"strength": 0.5}, **more), wanted)
    model.set_default_attn_processor()
    assert torch.equal(predict(model, **more), wanted)


@pytest.mark.parametrize("kind", [theirs.AttnProcessor, theirs.AttnProcessor2_0])
def test_in_the_autoencoder_too(kind):
    model = tiny.vae().eval()
    latents = torch.randn(1, model.config.latent_channels, 4, 4, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        wanted = model.decode(latents).sample
        model.set_attn_processor(kind())
        assert close(model.decode(latents).sample, wanted)


def test_a_mask_reaches_the_processor_as_published(tmp_path):
    ours = tiny.unet(4).eval()
    ours.save_pretrained(tmp_path)
    other = diffusers.UNet2DConditionModel.from_pretrained(tmp_path).eval()
    seen = {}

    class Watching(theirs.AttnProcessor):
        def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, temb=None):
            seen.setdefault(id(self), []).append(None if attention_mask is None else attention_mask.clone())
            return super().__call__(attn, hidden_states, encoder_hidden_states, attention_mask, temb)

    watchers = [Watching(), Watching()]
    for model, watcher in zip((ours, other), watchers, strict=True):
        model.set_attn_processor(watcher)
        predict(model, encoder_attention_mask=MASK)
    mine, reference = (seen[id(watcher)] for watcher in watchers)
    assert len(mine) == len(reference)
    assert all((a is None and b is None) or torch.equal(a, b) for a, b in zip(mine, reference, strict=True))


def test_a_level_without_attention_need_not_divide_by_the_heads():
    config = {
        "block_out_channels": (8, 12),
        "norm_num_groups": 4,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "mid_block_type": None,
        "attention_head_dim": 8,
        "cross_attention_dim": 16,
        "layers_per_block": 1,
    }
    torch.manual_seed(0)
    ours = lockstep.UNet2DConditionModel(**config).eval()
    other = diffusers.UNet2DConditionModel(**config).eval()
    other.load_state_dict(ours.state_dict())
    assert close(predict(ours), predict(other))
    with pytest.raises(ConfigError, match="12 cannot be divided into 8 heads"):
        lockstep.UNet2DConditionModel(**config | {"mid_block_type": "UNetMidBlock2DCrossAttn"})


def test_switches_without_effect_say_so_once_and_those_that_cannot_be_had_raise(caplog):
    model = tiny.unet(4).eval()
    notes.say_once.cache_clear()
    before = predict(model)
    with caplog.at_level(logging.WARNING, "lockstep"):
        for size in ("auto", "max", 1, None):
            model.set_attention_slice(size)
    assert [record.message for record in caplog.records] == [
        "set_attention_slice changes nothing: the kernels bound the memory of attention themselves."
    ]
    assert torch.equal(predict(model), before)
    with pytest.raises(InputError, match="heads"):
        model.set_attention_slice(10**6)
    with pytest.raises(InputError, match="number of processors"):
        model.set_attn_processor({"one.processor": Counted()})
    with pytest.raises(UnsupportedError, match="attention_op"):
        model.enable_xformers_memory_efficient_attention(attention_op=object())
    model.fuse_qkv_projections()
    assert close(predict(model), before)
    model.unfuse_qkv_projections()
    assert torch.equal(predict(model), before)
    assert model.num_parameters() == sum(p.numel() for p in model.parameters())


def test_weights_are_kept_small_and_cast_while_a_layer_runs():
    model = tiny.unet(4).eval()
    wanted = predict(model)
    model.enable_layerwise_casting(torch.bfloat16, torch.float32)
    assert model.dtype is torch.float32
    got = predict(model)
    assert not torch.equal(got, wanted)
    assert torch.linalg.norm(got - wanted) < 0.05 * torch.linalg.norm(wanted)
    kept = {name: parameter.dtype for name, parameter in model.named_parameters()}
    assert kept["conv_in.weight"] is kept["time_embedding.linear_1.weight"] is torch.bfloat16
    assert kept["conv_norm_out.weight"] is torch.float32
