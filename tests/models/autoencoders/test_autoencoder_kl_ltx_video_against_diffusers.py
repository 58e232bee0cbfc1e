"""LTX-Video's autoencoders beside diffusers' with the same weights: modules, gradients, noise, tiles, configs."""

import functools
import json
from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKLLTXVideo as Reference

from helpers import assert_close
from lockstep import AutoencoderKLLTXVideo
from lockstep.errors import ConfigError, InputError
from lockstep.models.autoencoders import autoencoder_kl_ltx_video_blocks as layers
from models.autoencoders.test_autoencoder_kl_wan_against_diffusers import outputs_by_name
from models.testing import BaseModelTesterConfig, MemoryTesterMixin, ModelTesterMixin, TorchCompileTesterMixin
from pipelines import tiny_ltx_video

VERSIONS = list(tiny_ltx_video.VAES)
PUBLISHED = Path(__file__).parents[2] / "fixtures" / "ltx_autoencoder_configs"


@functools.cache
def pair(version):
    ours = tiny_ltx_video.autoencoder(version)
    reference = Reference(**tiny_ltx_video.VAES[version]).eval()
    reference.load_state_dict(ours.state_dict())
    return ours, reference


def video(frames=9, height=32, width=64, batch=2):
    return torch.rand(batch, 3, frames, height, width, generator=torch.Generator().manual_seed(2)) * 2 - 1


def latents(frames=2, height=1, width=2, batch=2):
    return torch.randn(
        batch, tiny_ltx_video.CHANNELS, frames, height, width, generator=torch.Generator().manual_seed(3)
    )


def times(model, batch=2):
    return torch.linspace(0.05, 0.4, batch) if model.config.timestep_conditioning else None


def decoded(model, z, seed=4):
    torch.manual_seed(seed)  # theirs draws the noise of 0.9.1 from the global generator
    return model.decode(z, times(model, len(z))).sample


class LTXConfig(BaseModelTesterConfig):
    model_class, reference_class = AutoencoderKLLTXVideo, Reference
    version = "0.9.0"

    def init_dict(self):
        return tiny_ltx_video.VAES[self.version]

    def inputs(self):
        return {"sample": video(width=32)}


class TestLTX090(LTXConfig, ModelTesterMixin, MemoryTesterMixin):
    pass


class TestLTX095(LTXConfig, ModelTesterMixin, MemoryTesterMixin):
    version = "0.9.5"

    def inputs(self):
        return {**super().inputs(), "temb": torch.tensor([0.05, 0.2])}


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.json")), ids=lambda path: path.stem)
def test_names_and_shapes_of_published_configs(path):
    config = json.loads(path.read_text())
    with torch.device("meta"):
        theirs = Reference.from_config(config)
    ours = AutoencoderKLLTXVideo.on_meta(config)
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]
    factors = ours.spatial_scale_factor, ours.temporal_scale_factor
    assert factors == (theirs.spatial_compression_ratio, theirs.temporal_compression_ratio) == (32, 8)


def assert_every_module(version):
    got, wanted = (
        dict(outputs_by_name(model, lambda m: (m.encode(video()), decoded(m, latents())))) for model in pair(version)
    )
    shared = [name for name in got if name in wanted and isinstance(got[name], torch.Tensor)]
    assert len(shared) > 60
    for name in shared:
        assert_close(got[name].flatten(), wanted[name].flatten(), what=name)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_module(version):
    assert_every_module(version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("frames", "batch"), [(1, 1), (17, 2)])
def test_encode_decode_forward(version, frames, batch):
    ours, reference = pair(version)
    x, z = video(frames, 64, 32, batch), latents(frames // 8 + 1, 3, 1, batch)
    with torch.no_grad():
        assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
        assert_close(decoded(ours, z), decoded(reference, z))
        drawn = []
        for model in (ours, reference):
            torch.manual_seed(5)
            generator = torch.Generator().manual_seed(4)
            drawn.append(model(x, times(model, batch), sample_posterior=True, generator=generator).sample)
        assert_close(*drawn)


@pytest.mark.parametrize("version", VERSIONS)
def test_gradients(version):
    sides = pair(version)
    for model in sides:
        model.zero_grad()
        torch.manual_seed(1)
        made = model(video(), times(model)).sample
        (made * torch.linspace(-1, 1, made.numel()).view_as(made)).sum().backward()
    others = dict(sides[1].named_parameters())
    for name, parameter in sides[0].named_parameters():
        if float(others[name].grad.norm()) > 1e-3:
            assert_close(parameter.grad, others[name].grad, 5e-5, name)


def test_a_list_of_generators_gives_each_sample_what_it_has_alone():
    ours, _ = pair("0.9.1")
    z, seeds = latents(), (7, 8)
    with torch.no_grad():
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        whole = ours.decode(z, times(ours), generator=generators).sample
        for row, seed in enumerate(seeds):
            drawn = torch.Generator().manual_seed(seed)
            alone = ours.decode(z[row : row + 1], times(ours)[row : row + 1], generator=drawn).sample
            assert_close(whole[row : row + 1], alone)
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        ours.enable_slicing()
        assert_close(ours.decode(z, times(ours), generator=generators).sample, whole)
        ours.disable_slicing()


@pytest.mark.parametrize("version", ["0.9.0", "0.9.5"])
def test_tiles(version):
    ours, reference = (type(model).from_config(model.config) for model in pair(version))
    ours.load_state_dict(pair(version)[0].state_dict())
    reference.load_state_dict(ours.state_dict())
    for model in (ours, reference):
        model.enable_tiling(
            tile_sample_min_height=64,
            tile_sample_min_width=64,
            tile_sample_stride_height=32,
            tile_sample_stride_width=32,
        )
    with torch.no_grad():
        x, z = video(1, 96, 128), latents(1, 3, 4)
        assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
        assert_close(decoded(ours, z), decoded(reference, z))


@pytest.mark.parametrize(("version", "frames"), [("0.9.0", 25), ("0.9.5", 41)])
def test_parts_of_a_long_video(version, frames):
    ours, reference = (type(model).from_config(model.config) for model in pair(version))
    ours.load_state_dict(pair(version)[0].state_dict())
    reference.load_state_dict(ours.state_dict())
    sizes = {"height": (64, 32), "width": (64, 32), "num_frames": (24, 8)}
    told = {
        f"tile_sample_{part}_{name}": two[k] for k, part in enumerate(("min", "stride")) for name, two in sizes.items()
    }
    for model in (ours, reference):
        model.use_framewise_decoding = True
        model.enable_tiling(**told)
    with torch.no_grad():
        for width in (1, 3):  # whole, and in tiles
            x, z = video(frames, 32, 32 * width, 1), latents(frames // 8 + 1, 1, width, 1)
            assert_close(ours.encode(x).latent_dist.parameters, reference.encode(x).latent_dist.parameters)
            assert_close(decoded(ours, z), decoded(reference, z))
    with pytest.raises(InputError, match="multiple of 8 frames"):
        ours.enable_tiling(tile_sample_min_num_frames=12)


def test_latents_on_the_scale_of_the_denoiser():
    ours, _ = pair("0.9.0")
    z = latents()
    normed = ours.normalize_latents(z)
    assert_close(normed, (z - ours.latents_mean.view(1, -1, 1, 1, 1)) / ours.latents_std.view(1, -1, 1, 1, 1))
    assert_close(ours.denormalize_latents(normed), z)


PLANTED = {
    "the first frame is doubled": ("spread", lambda hidden: hidden.repeat(1, 1, 2, 2, 2)[:, ::8, 1:]),
    "no noise": ("with_noise", lambda hidden, *_: hidden),
    "shift and scale exchanged": ("modulation", lambda *given: layers_modulation(*given)[::-1]),
}
layers_modulation = layers.modulation


@pytest.mark.parametrize("error", list(PLANTED))
def test_a_planted_error_is_seen(monkeypatch, error):
    monkeypatch.setattr(layers, *PLANTED[error])
    with pytest.raises(AssertionError, match=r"relative L2|shapes differ"):
        assert_every_module("0.9.1")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"patch_size_t": 2}, "patch_size_t"),
        ({"layers_per_block": (1, 1)}, "layers_per_block"),
        ({"downsample_type": ("conv", "both", "conv", "conv")}, "downsample_type"),
        ({"down_block_types": ("LTXVideoDownBlock3D", "Other") * 2}, "down_block_types"),
        ({"timestep_conditioning": True}, "told a time"),
    ],
)
def test_configs_that_do_not_fit(changes, word):
    with pytest.raises(ConfigError, match=word):
        AutoencoderKLLTXVideo(**{**tiny_ltx_video.VAES["0.9.0"], **changes})


def test_inputs_that_do_not_fit():
    ours, _ = pair("0.9.5")
    for run, word in (
        (lambda: ours.encode(video(height=40)), "divisible by 32"),
        (lambda: ours.encode(video(8)), "one frame more"),
        (lambda: ours.encode(video()[:, :2]), "3 channels"),
        (lambda: ours.encode(video()[:0]), "at least one"),
        (lambda: ours.decode(latents()), "told a time"),
        (lambda: ours.decode(latents(), torch.zeros(3)), "2 samples"),
        (lambda: ours.enable_tiling(40), "multiples of 32"),
    ):
        with pytest.raises(InputError, match=word):
            run()


@pytest.mark.slow
class TestCompiled(LTXConfig, TorchCompileTesterMixin):
    """No graph break, with the parts of the latest version."""

    version = "0.9.5"

    def inputs(self):
        return {**super().inputs(), "temb": torch.tensor([0.05, 0.2])}
