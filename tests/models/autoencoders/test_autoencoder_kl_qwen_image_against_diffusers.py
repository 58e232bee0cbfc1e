"""AutoencoderKLQwenImage beside diffusers' with the same weights: pictures, videos, gradients, tiles, config."""

import diffusers
import pytest
import torch

from helpers import assert_close
from lockstep import AutoencoderKLQwenImage
from lockstep.errors import ConfigError, InputError
from models.testing import BaseModelTesterConfig, ModelTesterMixin

TINY = {
    "base_dim": 4, "z_dim": 6, "dim_mult": [1, 2, 2, 2], "num_res_blocks": 1, "latents_mean": [0.1] * 6,
    "latents_std": [2.0] * 6,
}  # fmt: skip


class QwenImageAutoencoderConfig(BaseModelTesterConfig):
    model_class, reference_class = AutoencoderKLQwenImage, diffusers.AutoencoderKLQwenImage

    def init_dict(self):
        return TINY

    def inputs(self):
        return {"sample": pictures()[:, :, None]}


class TestAutoencoderKLQwenImage(QwenImageAutoencoderConfig, ModelTesterMixin):
    """What Wan's, whose layers they are, is asked besides (memory, compilation), it is asked in its own tests."""

    def gradient_is_zero(self, name):
        """Layers over time do not run on a single frame."""
        return "time_conv" in name


def pictures(height=16, width=24, frames=()):
    draw = torch.rand(2, 3, *frames, height, width, generator=torch.Generator().manual_seed(2))
    return draw * 2 - 1


@pytest.fixture(scope="module")
def pair():
    ours = QwenImageAutoencoderConfig().model()
    theirs = diffusers.AutoencoderKLQwenImage(**TINY).eval()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def test_pictures_with_and_without_an_axis_of_frames(pair):
    ours, theirs = pair
    with torch.no_grad():
        wanted = theirs.encode(pictures()[:, :, None]).latent_dist
        got = ours.encode(pictures()).latent_dist
        assert_close(got.mode(), wanted.mode()[:, :, 0], 1e-5)
        assert_close(got.logvar, wanted.logvar[:, :, 0], 1e-5)
        assert torch.equal(ours.encode(pictures()[:, :, None]).latent_dist.mode()[:, :, 0], got.mode())
        draws = [one.sample(torch.Generator().manual_seed(3)) for one in (got, wanted)]
        assert_close(draws[0], draws[1][:, :, 0], 1e-5)
        back = ours.decode(draws[0]).sample
        assert back.shape == pictures().shape
        assert_close(back, theirs.decode(draws[1]).sample[:, :, 0], 1e-5)


def test_videos(pair):
    given = pictures(frames=(5,))
    with torch.no_grad():
        got, wanted = (side.encode(given).latent_dist.mode() for side in pair)
        assert_close(got, wanted, 1e-5)
        assert_close(*(side.decode(got).sample for side in pair), 1e-5)


def test_scales_of_latents(pair):
    ours, _ = pair
    latents = torch.randn(1, 6, 4, 4, generator=torch.Generator().manual_seed(1))
    assert_close(ours.denormalize_latents(ours.normalize_latents(latents)), latents, 1e-6)
    assert torch.equal(ours.normalize_latents(latents[:, :, None])[:, :, 0], ours.normalize_latents(latents))
    assert (ours.spatial_scale_factor, ours.latent_channels) == (8, 6)


def test_tiles_and_slices(pair):
    given = pictures(48, 40)[:, :, None]
    for side in pair:
        side.enable_tiling(32, 32, 16, 16)
    with torch.no_grad():
        got, wanted = (side.encode(given).latent_dist.mode() for side in pair)
        assert_close(got, wanted, 1e-5)
        tiled, theirs = (side.decode(got).sample for side in pair)
        assert_close(tiled, theirs.clamp(-1, 1), 1e-5)  # theirs keeps whatever is outside, in tiles alone
    for side in pair:
        side.disable_tiling()
    ours, _ = pair
    with torch.no_grad():
        whole = ours.encode(pictures()).latent_dist.mode()
        ours.enable_slicing()
        assert_close(ours.encode(pictures()).latent_dist.mode(), whole, 1e-6)
        ours.disable_slicing()


def test_names_and_shapes_of_the_published_config():
    ours = AutoencoderKLQwenImage.on_meta({})  # the defaults are the published values
    with torch.device("meta"):
        theirs = diffusers.AutoencoderKLQwenImage()
    shapes = [{name: tuple(t.shape) for name, t in side.state_dict().items()} for side in (ours, theirs)]
    assert shapes[0] == shapes[1]
    for name in ours.config:
        assert list(ours.config[name] if isinstance(ours.config[name], (tuple, list)) else [ours.config[name]]) == list(
            theirs.config[name] if isinstance(theirs.config[name], (tuple, list)) else [theirs.config[name]]
        ), name


def test_what_does_not_fit_is_refused():
    model = AutoencoderKLQwenImage(**TINY)
    with pytest.raises(InputError, match="AutoencoderKLQwenImage.encode wants height and width divisible by 8"):
        model.encode(torch.zeros(1, 3, 12, 16))
    with pytest.raises(InputError, match="AutoencoderKLQwenImage wants latents with 6 channels"):
        model.decode(torch.zeros(1, 5, 2, 2))
    with pytest.raises(InputError, match="3 axes"):
        model.encode(torch.zeros(3, 16, 16))
    with pytest.raises(ConfigError, match="AutoencoderKLQwenImage: latents_mean"):
        AutoencoderKLQwenImage(**{**TINY, "latents_mean": [0.0]})
