"""AutoencoderKL beside Candle's, from the traces in tests/fixtures/candle.

What differs is rounding alone. To show it, every suspicion is made a variant of the model and computed in float64,
where nothing but the suspicion remains; if Candle computed that way, its difference from us would point along it.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from fixtures.candle.make_weights import values
from helpers import assert_close, relative_l2
from lockstep.models.autoencoders.autoencoder_kl import AttnProcessor, AutoencoderKL

CANDLE = Path(__file__).parents[2] / "fixtures" / "candle"
WANTED = 5e-6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Candle's weights as a folder in the published layout."""
    folder = tmp_path_factory.mktemp("vae_tiny")
    manifest = json.loads((CANDLE / "manifest_vae_tiny.json").read_text())
    tensors = {name: torch.from_numpy(values(name, shape)) for name, shape in manifest.items()}
    save_file(tensors, folder / "diffusion_pytorch_model.safetensors")
    config = json.loads((CANDLE / "configs.json").read_text())["vae_tiny"]
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture
def model(folder):
    return AutoencoderKL.from_pretrained(folder)  # refuses what is missing or left over


@pytest.fixture(scope="module")
def trace():
    return {name.split("|", 2)[2]: value for name, value in load_file(CANDLE / "vae_tiny.trace.safetensors").items()}


def decoded(model, latents):
    with torch.no_grad():
        return model.decode(latents.to(model.dtype)).sample


class SplitScale(AttnProcessor):
    """As Candle computes it: the fourth root of the scale on both sides, then a plain softmax."""

    def __call__(self, attn, hidden):
        hidden_NLC = attn.group_norm(hidden).flatten(2).transpose(1, 2)
        query, key, value = attn.to_q(hidden_NLC), attn.to_k(hidden_NLC), attn.to_v(hidden_NLC)
        scale = query.shape[-1] ** -0.25
        weights = ((query * scale) @ (key * scale).transpose(1, 2)).softmax(dim=-1)
        return attn.to_out[0](weights @ value).transpose(1, 2).unflatten(2, hidden.shape[-2:]) + hidden


class CandleGroupNorm(torch.nn.Module):
    """As Candle computes it: mean and variance by sums, one division by a square root, weight and bias afterwards."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def forward(self, hidden):
        grouped = hidden.reshape(hidden.shape[0], self.norm.num_groups, -1)
        count = grouped.shape[-1]
        centred = grouped - grouped.sum(2, keepdim=True) / count
        scaled = centred / (centred.square().sum(2, keepdim=True) / count + self.norm.eps).sqrt()
        return scaled.reshape(hidden.shape) * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]


def imitate_candle(model):
    """Candle's operations in Candle's order, as far as torch can do them."""
    model.set_attn_processor(SplitScale())
    for owner in list(model.modules()):
        for name, child in list(owner.named_children()):
            if isinstance(child, torch.nn.GroupNorm):
                setattr(owner, name, CandleGroupNorm(child))
    return model


def with_eps(model, part, eps):
    norms = [m for name, m in model.named_modules() if isinstance(m, torch.nn.GroupNorm) and part in name]
    assert norms, part
    for norm in norms:
        norm.eps = eps
    return model


def test_the_trace_has_the_points_that_are_compared(trace):
    assert set(trace) == {"vae|in.latents", "vae|out.image"}
    assert torch.equal(trace["vae|in.latents"], load_file(CANDLE / "inputs_vae_tiny.safetensors")["latents"])


def test_the_picture(model, trace):
    assert_close(decoded(model, trace["vae|in.latents"]), trace["vae|out.image"], WANTED)


def test_the_picture_with_candles_operations(model, trace):
    assert_close(decoded(imitate_candle(model), trace["vae|in.latents"]), trace["vae|out.image"], WANTED)


def test_the_picture_after_a_guided_loop(model):
    loop = load_file(CANDLE / "loop_tiny.trace.safetensors")
    last = max(name for name in loop if name.endswith("|@latents|out"))
    (image,) = (value for name, value in loop.items() if name.endswith("|vae|out.image"))
    assert_close(decoded(model, loop[last] / 0.18215), image, WANTED)


def test_the_difference_is_the_floor_of_float32(folder, trace):
    """Candle is as near to the float64 result as we are, and as near to us as we are to ourselves in another order."""
    latents, candle = trace["vae|in.latents"], trace["vae|out.image"]
    exact = decoded(AutoencoderKL.from_pretrained(folder, dtype=torch.float64), latents)
    ours = decoded(AutoencoderKL.from_pretrained(folder), latents)
    reordered = decoded(imitate_candle(AutoencoderKL.from_pretrained(folder)), latents)
    floor = max(relative_l2(ours, exact), relative_l2(reordered, exact))
    assert 1e-7 < floor < 2e-6
    assert relative_l2(candle, exact) < 2 * floor
    assert relative_l2(candle, ours) < 3 * floor


SUSPICIONS = {
    "eps 1e-5 in the norm of the attention": lambda m: with_eps(m, "group_norm", 1e-5),
    "eps 1e-5 in the residual blocks": lambda m: with_eps(m, "resnets", 1e-5),
    "eps 1e-5 in the norm before the end": lambda m: with_eps(m, "conv_norm_out", 1e-5),
}


@pytest.mark.parametrize("suspicion", SUSPICIONS)
def test_suspicions_are_not_the_cause(folder, trace, suspicion):
    """How much of a suspicion's effect is in Candle's difference: 1 if it computes that way, 0 if it does not."""
    latents, candle = trace["vae|in.latents"], trace["vae|out.image"].double()
    exact = decoded(AutoencoderKL.from_pretrained(folder, dtype=torch.float64), latents)
    variant = SUSPICIONS[suspicion](AutoencoderKL.from_pretrained(folder, dtype=torch.float64))
    effect = decoded(variant, latents) - exact
    share = float(((candle - exact) * effect).sum() / effect.square().sum())
    assert abs(share) < 0.1, f"{suspicion}: {share:.3f} of its effect is in the trace"
    # The same measure finds the suspicion where it is there, in float32 as well.
    guilty = decoded(SUSPICIONS[suspicion](AutoencoderKL.from_pretrained(folder)), latents).double()
    found = float(((guilty - exact) * effect).sum() / effect.square().sum())
    assert abs(found - 1) < 0.1, f"{suspicion}: the measure gives {found:.3f} where 1 is right"
