"""Pictures to tensors and back, bit for bit as diffusers' VaeImageProcessor."""

import numpy as np
import pytest
import torch
from diffusers.image_processor import VaeImageProcessor as Reference
from PIL import Image

from lockstep.images import VaeImageProcessor


def photograph(height=61, width=90, mode="RGB", seed=0):
    """Smooth colours with noise: something that every filter changes."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = np.stack([np.sin(x / 7 + k) * np.cos(y / (5 + k)) for k in range(3)], -1)
    pixels = np.clip(127.5 + 90 * waves + rng.normal(0, 20, (height, width, 3)), 0, 255).astype("uint8")
    return Image.fromarray(pixels).convert(mode)


def both(method, options, *args, **kwargs):
    return (getattr(side(**options), method)(*args, **kwargs) for side in (VaeImageProcessor, Reference))


@pytest.mark.parametrize("resample", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(None, None), (64, 48), (32, None)], ids=str)
def test_pil_to_tensor(resample, size):
    got, wanted = both("preprocess", {"resample": resample}, photograph(), *size)
    assert torch.equal(got, wanted)
    assert got.dtype == wanted.dtype


@pytest.mark.parametrize("mode", ["fill", "crop"])
@pytest.mark.parametrize("size", [(64, 64), (128, 32), (32, 128), (122, 180)], ids=str)
def test_resize_that_keeps_proportions(mode, size):
    options = {"vae_scale_factor": 2}
    got, wanted = both("preprocess", options, photograph(), *size, resize_mode=mode)
    assert torch.equal(got, wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"do_convert_rgb": True},
        {"do_convert_grayscale": True},
        {"do_normalize": False},
        {"do_resize": False},
        {"vae_scale_factor": 16},
        {"reducing_gap": 2},
    ],
    ids=str,
)
def test_options(options):
    pictures = [photograph(seed=seed, mode="RGBA") for seed in range(3)]
    got, wanted = both("preprocess", options, pictures)
    assert torch.equal(got, wanted)
    assert got.shape[0] == 3


def test_pictures_of_several_sizes_take_the_size_of_the_first():
    got, wanted = both("preprocess", {}, [photograph(61, 90), photograph(40, 40)])
    assert torch.equal(got, wanted)


def test_crop():
    got, wanted = both("preprocess", {}, photograph(), crops_coords=(10, 5, 58, 53))
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(61, 90, 3), (2, 61, 90, 3), (61, 90)], ids=str)
def test_numpy_to_tensor(dtype, shape):
    array = np.random.default_rng(0).random(shape).astype(dtype)
    got, wanted = both("preprocess", {}, array)
    assert torch.equal(got, wanted)
    if array.ndim < 4:
        got, wanted = both("preprocess", {}, [array, array / 2])
        assert torch.equal(got, wanted)


@pytest.mark.parametrize("shape", [(3, 61, 90), (2, 3, 61, 90)], ids=str)
@pytest.mark.parametrize("size", [(None, None), (48, 64)], ids=str)
def test_torch_to_tensor(shape, size):
    tensor = torch.rand(shape)
    got, wanted = both("preprocess", {}, tensor, *size)
    assert torch.equal(got, wanted)
    listed, wanted = both("preprocess", {}, list(tensor) if tensor.ndim == 4 else [tensor], *size)
    assert torch.equal(listed, wanted)


def test_latents_pass_through():
    latents = torch.randn(2, 4, 8, 8)
    assert VaeImageProcessor().preprocess(latents) is not None
    got, wanted = both("preprocess", {}, latents)
    assert torch.equal(got, wanted)
    assert torch.equal(got, latents)


MASK = {"do_normalize": False, "do_binarize": True, "do_convert_grayscale": True}


@pytest.mark.parametrize("kind", ["pil", "numpy", "torch", "torch batch"])
def test_masks(kind):
    grey = photograph(64, 88, "L")
    array = np.asarray(grey).astype("float32") / 255
    given = {
        "pil": grey,
        "numpy": array[None],
        "torch": torch.from_numpy(array)[None],
        "torch batch": torch.from_numpy(array)[None, None],
    }[kind]
    got = VaeImageProcessor(**MASK).preprocess(given, 32, 48)
    assert np.array_equal(array, np.asarray(grey).astype("float32") / 255), "the caller's mask was changed"
    wanted = Reference(**MASK).preprocess(given, 32, 48)
    assert torch.equal(got, wanted)
    assert set(got.unique().tolist()) == {0.0, 1.0}
    assert got.shape == (1, 1, 32, 48)


@pytest.mark.parametrize("output_type", ["pil", "np", "pt", "latent"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.filterwarnings("ignore:.*mode.*parameter is deprecated:DeprecationWarning")
def test_tensor_to_pictures(output_type, channels):
    tensor = torch.randn(2, channels, 16, 24)
    got, wanted = both("postprocess", {}, tensor, output_type)
    for a, b in zip(got, wanted, strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))
        assert type(a) is type(b)
    if output_type == "pil":
        assert [p.mode for p in got] == [p.mode for p in wanted] == ["L" if channels == 1 else "RGB"] * 2


def test_denormalize_by_picture():
    got, wanted = both("postprocess", {}, torch.rand(2, 3, 8, 8), "pt", do_denormalize=[True, False])
    assert torch.equal(got, wanted)


@pytest.mark.parametrize("pad", [0, 5, 40])
@pytest.mark.parametrize("box", [(10, 20, 30, 25), (0, 0, 5, 60), (70, 40, 90, 61), (0, 0, 90, 61)], ids=str)
@pytest.mark.parametrize("size", [(64, 64), (128, 32), (32, 128)], ids=str)
def test_region_around_a_mask(box, size, pad):
    mask = Image.new("L", (90, 61))
    mask.paste(255, box)
    got, wanted = both("get_crop_region", {}, mask, *size, pad=pad)
    assert got == wanted


@pytest.mark.parametrize("crop", [None, (10, 5, 58, 53)])
def test_overlay(crop):
    mask = photograph(61, 90, "L", seed=3)
    new = photograph(61, 90, seed=4) if crop is None else photograph(32, 32, seed=4)
    got, wanted = both("apply_overlay", {}, mask, photograph(), new, crop)
    assert np.array_equal(np.asarray(got), np.asarray(wanted))


def test_blur():
    got, wanted = both("blur", {}, photograph(mode="L"), 3)
    assert np.array_equal(np.asarray(got), np.asarray(wanted))
