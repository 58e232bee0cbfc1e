"""AutoencoderKLWan (2.1 and 2.2) beside diffusers' with the same weights: modules, parts, gradients, tiles, files."""

import json
from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKLWan as Reference

from helpers import assert_close
from lockstep.errors import ConfigError, InputError
from lockstep.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from models.testing import BaseModelTesterConfig, MemoryTesterMixin, ModelTesterMixin, TorchCompileTesterMixin

TINY = {"base_dim": 4, "z_dim": 6, "num_res_blocks": 1, "latents_mean": [0.1] * 6, "latents_std": [2.0] * 6}
CONFIGS = {
    "2.1": TINY,
    "2.2": {
        **TINY,
        "decoder_base_dim": 6,
        "is_residual": True,
        "in_channels": 12,
        "out_channels": 12,
        "patch_size": 2,
        "scale_factor_spatial": 16,
    },
    "widths that change, two layers": {**TINY, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2, "z_dim": 6},
}
CONFIGS["2.1"] = {**TINY, "dim_mult": [1, 1, 1, 1]}


PUBLISHED = Path(__file__).parents[2] / "fixtures" / "autoencoder_configs"


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.json")), ids=lambda path: path.stem)
def test_names_and_shapes_of_published_configs(path):
    config = json.loads(path.read_text())
    with torch.device("meta"):
        theirs = Reference.from_config(config)
    shapes = [
        {name: tuple(t.shape) for name, t in side.state_dict().items()}
        for side in (AutoencoderKLWan.on_meta(config), theirs)
    ]
    assert shapes[0] == shapes[1]


class WanConfig(BaseModelTesterConfig):
    model_class = AutoencoderKLWan
    reference_class = Reference

    def init_dict(self):
        return CONFIGS["2.1"]

    def inputs(self):
        return {"sample": video(AutoencoderKLWan(**self.init_dict()), frames=5)}


class TestWan21(WanConfig, ModelTesterMixin, MemoryTesterMixin, TorchCompileTesterMixin):
    pass


class TestWan22(WanConfig, ModelTesterMixin, MemoryTesterMixin, TorchCompileTesterMixin):
    def init_dict(self):
        return CONFIGS["2.2"]


def video(model, frames=9, height=32, width=16, batch=2):
    draw = torch.rand(batch, 3, frames, height, width, generator=torch.Generator().manual_seed(2))
    return draw * 2 - 1


def latents(model, frames=3, height=3, width=2, batch=2):
    shape = (batch, model.config.z_dim, frames, height, width)
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def make_pair(config):
    torch.manual_seed(5)
    reference = Reference(**config).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            if parameter.ndim == 1 or parameter[0].numel() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    ours = AutoencoderKLWan(**config).eval()
    ours.load_state_dict(reference.state_dict())
    return ours, reference


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS.keys())
def pair(request):
    return make_pair(request.param)


def outputs_by_name(model, run):
    """The tensor that each module gives, in the order of the calls."""
    seen = []

    def watch(name):
        def hook(_module, _inputs, output):
            seen.append((name, output[0] if isinstance(output, tuple) else output))

        return hook

    handles = [module.register_forward_hook(watch(name)) for name, module in model.named_modules() if name]
    with torch.no_grad():
        run(model)
    for handle in handles:
        handle.remove()
    return sorted(seen, key=lambda pair: pair[0])


def test_every_module(pair):
    """Shortcuts run in another order; per module the order of calls is the same. quant_conv runs once for all there."""
    got, wanted = (
        [
            one
            for one in outputs_by_name(m, lambda m: (m.encode(video(m)), m.decode(latents(m))))
            if not one[0].endswith("quant_conv")
        ]
        for m in pair
    )
    assert [name for name, _ in got] == [name for name, _ in wanted]
    assert len(got) > 100
    for (name, a), (_, b) in zip(got, wanted, strict=True):
        assert_close(a, b, what=name)


@pytest.mark.parametrize("frames", [1, 5, 9, 11])
def test_encode_decode_forward(pair, frames):
    ours, reference = pair
    x, z = video(ours, frames), latents(ours, frames // 4 + 1)
    with torch.no_grad():
        assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
        assert_close(ours.decode(z).sample, reference.decode(z).sample)
        drawn = [m(x, sample_posterior=True, generator=torch.Generator().manual_seed(4)).sample for m in pair]
        assert_close(*drawn)
        ours.enable_slicing()
        assert_close(ours.decode(z).sample, reference.decode(z).sample)


def test_parts_are_handed_over_as_they_are_ready(pair):
    ours, _ = pair
    z = latents(ours, frames=4)
    with torch.no_grad():
        whole = ours.decode(z).sample
        parts = list(ours.decode_stream(z))
    assert [part.shape[2] for part in parts] == [1, 4, 4, 4]
    assert torch.equal(torch.cat(parts, dim=2), whole)


def test_tiles(pair):
    ours, reference = pair
    factor = ours.spatial_scale_factor
    sizes = dict(zip(("tile_sample_min_height", "tile_sample_min_width"), (4 * factor, 3 * factor), strict=True))
    sizes |= {"tile_sample_stride_height": 3 * factor, "tile_sample_stride_width": 2 * factor}
    for model in pair:
        model.enable_tiling(**sizes)
    x, z = video(ours, 5, 10 * factor, 7 * factor, batch=1), latents(ours, 2, 10, 7)
    with torch.no_grad():
        assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
        assert_close(ours.decode(z).sample, reference.decode(z).sample)
        tiled = ours.decode(z).sample
        ours.disable_tiling()
        plain = ours.decode(z).sample
    assert tiled.shape == plain.shape
    small = latents(ours, 2, 3, 3)
    with torch.no_grad():
        untiled = ours.decode(small).sample
        ours.enable_tiling(**sizes)
        assert torch.equal(ours.decode(small).sample, untiled)  # one tile is the whole


def test_latents_are_scaled_as_the_reference_pipelines_do_it():
    model = AutoencoderKLWan(base_dim=4, num_res_blocks=1)
    z = latents(model)
    mean = torch.tensor(model.config.latents_mean).view(1, 16, 1, 1, 1)
    std = 1.0 / torch.tensor(model.config.latents_std).view(1, 16, 1, 1, 1)
    assert torch.equal(model.denormalize_latents(z), z / std + mean)
    assert torch.equal(model.normalize_latents(z), (z - mean) * std)


def test_errors_before_compute():
    model = AutoencoderKLWan(**TINY)
    with pytest.raises(InputError, match="divisible by 8"):
        model.encode(torch.zeros(1, 3, 1, 12, 16))
    with pytest.raises(InputError, match="frames"):
        model.decode(torch.zeros(1, 6, 2, 2))
    with pytest.raises(InputError, match="stride"):
        model.enable_tiling(64, 64, 72, 64)
    with pytest.raises(ConfigError, match="latents_mean"):
        AutoencoderKLWan(z_dim=4)
    with pytest.raises(ConfigError, match="temperal_downsample"):
        AutoencoderKLWan(temperal_downsample=(True,))


def test_a_video_of_nothing_is_told_as_one():
    model = AutoencoderKLWan(**TINY)
    with pytest.raises(InputError, match="no frames"):
        model.encode(torch.zeros(1, 3, 0, 16, 16))
    with pytest.raises(InputError, match="no frames"):
        model.decode(torch.zeros(1, 6, 0, 2, 2))
    with pytest.raises(InputError, match="no rows"):
        model.decode(torch.zeros(1, 6, 1, 0, 2))


def test_half_precision_stays_near_fp32(pair):
    ours, reference = pair
    z = latents(ours)
    with torch.no_grad():
        wanted = reference.to(torch.bfloat16).decode(z.bfloat16()).sample
        assert_close(ours.to(torch.bfloat16).decode(z.bfloat16()).sample, wanted, 0.02)
