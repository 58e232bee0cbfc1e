"""AutoencoderKL by itself: the common model tests, compiling encode and decode, and what is refused."""

import diffusers
import pytest
import torch

from helpers import assert_close
from lockstep.errors import ConfigError, InputError
from lockstep.models.autoencoders.autoencoder_kl import AutoencoderKL, DiagonalGaussianDistribution
from models.testing import (
    BaseModelTesterConfig,
    Everything,
)

TINY = {
    "block_out_channels": (16, 32),
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
    "layers_per_block": 1,
    "norm_num_groups": 8,
    "sample_size": 16,
}


class AutoencoderKLConfig(BaseModelTesterConfig):
    model_class = AutoencoderKL
    reference_class = diffusers.AutoencoderKL

    def init_dict(self):
        return dict(TINY)

    def inputs(self):
        return {"sample": torch.rand(2, 3, 16, 24, generator=torch.Generator().manual_seed(1)) * 2 - 1}

    def gradient_is_zero(self, name):
        return name.endswith("to_k.bias")


class TestAutoencoderKL(AutoencoderKLConfig, Everything):
    pass


@pytest.mark.parametrize("part", ["encode", "decode"])
def test_encode_and_decode_compile_without_a_graph_break(part):
    torch.compiler.reset()
    model = AutoencoderKLConfig().model()
    given = torch.randn(2, 3, 16, 24) if part == "encode" else torch.randn(2, 4, 8, 12)
    compiled = torch.compile(getattr(model, part), fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        got, wanted = compiled(given), getattr(model, part)(given)
    if part == "encode":
        got, wanted = got.latent_dist, wanted.latent_dist
        assert_close(got.sample(torch.Generator().manual_seed(0)), wanted.sample(torch.Generator().manual_seed(0)))
        got, wanted = got.parameters, wanted.parameters
    else:
        got, wanted = got.sample, wanted.sample
    assert_close(got, wanted)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"block_out_channels": (16, 30)}, "multiple of norm_num_groups, got 30 and 8"),
        ({"norm_num_groups": 0}, "norm_num_groups"),
        ({"down_block_types": ("DownEncoderBlock2D",)}, "one type for each of block_out_channels"),
        ({"up_block_types": ("UpDecoderBlock2D", "UpBlock2D")}, "got 'UpBlock2D'"),
        ({"block_out_channels": (), "down_block_types": (), "up_block_types": ()}, "block_out_channels"),
        ({"layers_per_block": 0}, "'layers_per_block' has to be at least 1, got 0"),
        ({"out_channels": -3}, "'out_channels' has to be at least 1, got -3"),
        ({"sample_size": []}, "sample_size wants a size in pixels"),
        ({"act_fn": "sillu"}, "got 'sillu'"),
        ({"latents_mean": (0.0,), "latents_std": (1.0,)}, "each of 4 latent_channels, got 1"),
        ({"latents_mean": (0.0,) * 4}, "together"),
        ({"latent_channels": "four"}, "latent_channels"),
    ],
)
def test_impossible_configs(changed, message):
    with pytest.raises(ConfigError, match=message):
        AutoencoderKL(**{**TINY, **changed})


def test_inputs_that_do_not_fit():
    model = AutoencoderKL(**TINY)
    with pytest.raises(InputError, match="with 3 channels .* got 4"):
        model.encode(torch.zeros(1, 4, 16, 16))
    with pytest.raises(InputError, match="divisible by 2, got 17x16.*16x16"):
        model.encode(torch.zeros(1, 3, 17, 16))
    with pytest.raises(InputError, match="got 3 axes"):
        model.encode(torch.zeros(3, 16, 16))
    with pytest.raises(InputError, match="with 4 channels .* got 16"):
        model.decode(torch.zeros(1, 16, 8, 8))
    with pytest.raises(InputError, match="as a tensor .* got ndarray"):
        model.decode(torch.zeros(1, 4, 8, 8).numpy())
    with pytest.raises(InputError, match="at least one row and column"):
        model.decode(torch.zeros(1, 4, 8, 0))
    with pytest.raises(InputError, match="torch.Generator or a list of them, got 5"):
        DiagonalGaussianDistribution(torch.zeros(2, 8, 2, 2)).sample(5)
    with pytest.raises(InputError, match="2 wanted, 1 given"):
        DiagonalGaussianDistribution(torch.zeros(2, 8, 2, 2)).sample([torch.Generator()])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((15,), "multiple of 2 pixels, got 15"),
        ((0,), "multiple of 2 pixels, got 0"),
        (("16",), "size in pixels .* got '16'"),
        ((16, 1.0), "got 1.0"),
        ((16, 0.2), "1.6 latents, which is not whole"),
    ],
)
def test_tiles_that_cannot_be_joined(arguments, message):
    model = AutoencoderKL(**TINY)
    with pytest.raises(InputError, match=message):
        model.enable_tiling(*arguments)
    assert not model.use_tiling


def test_slices_and_a_seed_for_each_picture():
    """A picture's latents and pixels do not depend on the batch around it."""
    model = AutoencoderKLConfig().model()
    x = torch.rand(3, 3, 16, 16) * 2 - 1
    with torch.no_grad():
        whole = model(x, sample_posterior=True, generator=[torch.Generator().manual_seed(k) for k in range(3)]).sample
        alone = model(x[1:2], sample_posterior=True, generator=[torch.Generator().manual_seed(1)]).sample
        assert_close(whole[1:2], alone)
        model.enable_slicing()
        calls = []
        model.encoder.register_forward_hook(lambda _, inputs, __: calls.append(inputs[0].shape[0]))
        assert_close(model(x).sample[1:2], model(x[1:2]).sample)
    assert calls == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "scales",
    [
        {"scaling_factor": 0.18215},
        {"scaling_factor": 0.3611, "shift_factor": 0.1159},
        {"scaling_factor": 0.5, "latents_mean": (0.1, -0.2, 0.3, 0.0), "latents_std": (1.0, 2.0, 0.5, 1.5)},
    ],
    ids=["scale", "scale and shift", "per channel"],
)
def test_latents_to_the_models_scale_and_back(scales):
    model = AutoencoderKL(**TINY, **scales)
    raw = torch.randn(2, 4, 5, 6)
    scaled = model.normalize_latents(raw)
    mean = torch.tensor(scales.get("latents_mean", [scales.get("shift_factor", 0.0)] * 4)).view(1, 4, 1, 1)
    std = torch.tensor(scales.get("latents_std", [1.0] * 4)).view(1, 4, 1, 1)
    assert_close(scaled, (raw - mean) / std * scales["scaling_factor"], 1e-6)
    assert_close(model.denormalize_latents(scaled), raw, 1e-6)


def test_bfloat16_computes_in_bfloat16():
    model = AutoencoderKLConfig().model().bfloat16()
    with torch.no_grad():
        assert model.decode(torch.randn(1, 4, 4, 4)).sample.dtype == torch.bfloat16
