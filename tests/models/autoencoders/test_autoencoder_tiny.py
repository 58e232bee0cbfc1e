"""AutoencoderTiny by itself: the common model tests, compiling encode and decode, and what is refused."""

import diffusers
import pytest
import torch

from helpers import assert_close
from lockstep.errors import ConfigError, InputError, UnsupportedError
from lockstep.models.autoencoders.autoencoder_tiny import AutoencoderTiny
from models.testing import (
    BaseModelTesterConfig,
    MemoryTesterMixin,
    ModelTesterMixin,
    TorchCompileTesterMixin,
    TrainingTesterMixin,
)

TINY = {"encoder_block_out_channels": (24,) * 4, "decoder_block_out_channels": (24,) * 4}


class AutoencoderTinyConfig(BaseModelTesterConfig):
    model_class = AutoencoderTiny
    reference_class = diffusers.AutoencoderTiny

    def init_dict(self):
        return dict(TINY)

    def inputs(self):
        return {"sample": torch.rand(2, 3, 16, 24, generator=torch.Generator().manual_seed(1)) * 2 - 1}


class TestAutoencoderTiny(
    AutoencoderTinyConfig, ModelTesterMixin, MemoryTesterMixin, TrainingTesterMixin, TorchCompileTesterMixin
):
    def test_gradients_against_reference(self, tmp_path):
        """As for every model, but without the bytes between encode and decode, which cut the reference's off."""
        model = self.model()
        reference = self.reference(tmp_path, model)
        for side in (model, reference):
            decoded = side.decode(side.encode(self.inputs()["sample"]).latents).sample
            (decoded * torch.linspace(-1, 1, decoded.numel()).view_as(decoded)).sum().backward()
        theirs = dict(reference.named_parameters())
        for name, parameter in model.named_parameters():
            assert_close(parameter.grad, theirs[name].grad, 1e-4, f"gradient of {name}")


@pytest.mark.parametrize("part", ["encode", "decode"])
def test_encode_and_decode_compile_without_a_graph_break(part):
    torch.compiler.reset()
    model = AutoencoderTinyConfig().model()
    given = torch.randn(2, 3, 16, 24) if part == "encode" else torch.randn(2, 4, 2, 3)
    compiled = torch.compile(getattr(model, part), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        assert_close(compiled(given, return_dict=False)[0], getattr(model, part)(given)[0])


def test_the_gradient_passes_the_bytes_unchanged():
    """Forward rounds the latents to bytes; backward sees them as if it did not."""
    model = AutoencoderTinyConfig().model()
    x = AutoencoderTinyConfig().inputs()["sample"]
    (latents,) = model.encode(x, return_dict=False)
    stored = model.unscale_latents((model.scale_latents(latents) * 255).round() / 255).detach().requires_grad_()
    model.decode(stored).sample.square().sum().backward()
    model.zero_grad()
    latents.backward(stored.grad)
    wanted = {name: p.grad.clone() for name, p in model.encoder.named_parameters()}
    model.zero_grad()
    model(x).sample.square().sum().backward()
    for name, parameter in model.encoder.named_parameters():
        assert_close(parameter.grad, wanted[name], what=name)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"encoder_block_out_channels": (24, 24)}, "encoder_block_out_channels wants one width for each"),
        ({"decoder_block_out_channels": (24, 24, 24, 32)}, "decoder_block_out_channels wants equal widths"),
        ({"act_fn": "rellu"}, "got 'rellu'"),
        ({"upsample_fn": "lanczos"}, "got 'lanczos'"),
        ({"upsampling_scaling_factor": 0}, "at least 1, got 0"),
        ({"latent_magnitude": 0}, "positive"),
        ({"in_channels": 3.5}, "in_channels"),
    ],
)
def test_impossible_configs(changed, message):
    with pytest.raises(ConfigError, match=message):
        AutoencoderTiny(**{**TINY, **changed})


def test_inputs_that_do_not_fit():
    model = AutoencoderTiny(**TINY)
    with pytest.raises(InputError, match="with 3 channels .* got 1"):
        model.encode(torch.zeros(1, 1, 16, 16))
    with pytest.raises(InputError, match="divisible by 8, got 60x64.*56x64"):
        model.encode(torch.zeros(1, 3, 60, 64))
    with pytest.raises(InputError, match="with 4 channels .* got 16"):
        model.decode(torch.zeros(1, 16, 8, 8))
    with pytest.raises(InputError, match="multiple of 8 pixels, got 60"):
        model.enable_tiling(60)
    with pytest.raises(UnsupportedError):
        model.fuse_qkv_projections()


def test_small_pictures_and_a_single_line_of_overlap_tile_well():
    """Blending over one position has no way from old to new; the result must still be finite and whole."""
    model = AutoencoderTinyConfig().model()
    model.enable_tiling(64, 0.125)
    with torch.no_grad():
        for size in ((1, 1), (8, 8), (9, 17)):
            picture = model.decode(torch.randn(1, 4, *size)).sample
            assert picture.shape[-2:] == (8 * size[0], 8 * size[1])
            assert torch.isfinite(picture).all()
            assert torch.isfinite(model.encode(picture.clamp(-1, 1)).latents).all()


def test_float16_with_force_upcast_computes_in_float32():
    model = AutoencoderTinyConfig().model()
    upcast = AutoencoderTiny(**TINY, force_upcast=True)
    upcast.load_state_dict(model.state_dict())
    exact, upcast = model.half().float(), upcast.half()
    z = torch.randn(1, 4, 4, 4).half()
    with torch.no_grad():
        got = upcast.decode(z).sample
        assert got.dtype == torch.float32
        assert_close(got, exact.decode(z.float()).sample)
