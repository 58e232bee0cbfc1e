"""What pictures are refused, and why."""

import numpy as np
import pytest
import torch
from PIL import Image

from lockstep.errors import ConfigError, FileFormatError, InputError, NonFiniteError, NotFoundError, UnknownNameError
from lockstep.images import VaeImageProcessor, load_image, mask_processor

RED = Image.new("RGB", (32, 24), (255, 0, 0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("cat.png", "got str"),
        ([], "empty"),
        ([RED, torch.rand(3, 8, 8)], "one kind; got Image, Tensor"),
        (torch.rand(2, 1, 3, 8, 8), "got 5 axes"),
        (torch.rand(3, 16, 16) * 4 - 2, "got -.* to .*Divide by 255"),
        (torch.rand(3, 16, 16) * 255, "Divide by 255"),
        (torch.full((3, 16, 16), torch.nan), "got nan"),
        (torch.ones(3, 16, 16, dtype=torch.int64), "got torch.int64"),
        ([torch.rand(3, 16, 16), torch.rand(3, 16, 24)], "alike"),
        (Image.new("F", (16, 16)), "mode 'F'"),
        (Image.new("RGB", (7, 32)), "smaller than one latent"),
        ([RED, RED.convert("RGBA")], "alike, got RGB 24x32 and RGBA 24x32"),
    ],
)
def test_refused(given, message):
    with pytest.raises(InputError, match=message):
        VaeImageProcessor().preprocess(given)


def test_sizes_and_modes_are_checked():
    processor = VaeImageProcessor()
    with pytest.raises(InputError, match="height wants a positive multiple of 8, got 20"):
        processor.preprocess(RED, height=20)
    with pytest.raises(UnknownNameError, match="did you mean 'fill'"):
        processor.preprocess(RED, resize_mode="filll")
    with pytest.raises(InputError, match="want PIL images, got Tensor"):
        processor.preprocess(torch.rand(3, 16, 16), resize_mode="crop")
    with pytest.raises(UnknownNameError, match="output_type"):
        processor.postprocess(torch.rand(1, 3, 8, 8), "jpeg")
    with pytest.raises(InputError, match="got \\(3, 8, 8\\)"):
        processor.postprocess(torch.rand(3, 8, 8))
    with pytest.raises(NonFiniteError, match="192 of 192"):
        processor.postprocess(torch.full((1, 3, 8, 8), torch.nan))
    with pytest.raises(InputError, match="one channel, got 3"):
        mask_processor().preprocess(torch.rand(1, 3, 8, 8))
    with pytest.raises(InputError, match="all black"):
        processor.get_crop_region(Image.new("L", (16, 16)), 8, 8)


def test_impossible_options():
    for options in (
        {"resample": "cubic"},
        {"vae_scale_factor": 0},
        {"do_convert_rgb": True, "do_convert_grayscale": True},
    ):
        with pytest.raises(ConfigError):
            VaeImageProcessor(**options)


def test_bytes_are_from_0_to_255():
    array = np.asarray(RED)
    wanted = VaeImageProcessor().preprocess(RED)
    assert torch.equal(VaeImageProcessor().preprocess(array), wanted)
    assert torch.equal(VaeImageProcessor().preprocess(torch.from_numpy(array.copy()).permute(2, 0, 1)), wanted)


@pytest.mark.parametrize("mode", ["P", "CMYK", "1"])
def test_modes_whose_bytes_are_not_values(mode):
    got = VaeImageProcessor(do_resize=False).preprocess(RED.convert(mode))
    plain = RED.convert(mode).convert("L" if mode == "1" else "RGB")
    assert torch.equal(got, VaeImageProcessor(do_resize=False).preprocess(plain))


def test_config_goes_to_a_file_and_back(tmp_path):
    VaeImageProcessor(vae_scale_factor=16, do_convert_rgb=True).save_config(tmp_path)
    assert VaeImageProcessor.from_config(tmp_path).config.vae_scale_factor == 16


def test_load_image(tmp_path):
    RED.convert("RGBA").save(tmp_path / "red.png")
    assert load_image(tmp_path / "red.png").mode == "RGB"
    turned = Image.Exif()
    turned[0x0112] = 6
    RED.save(tmp_path / "turned.jpg", exif=turned)
    assert load_image(tmp_path / "turned.jpg").size == (24, 32)
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(FileFormatError, match="text.png"):
        load_image(tmp_path / "text.png")
    with pytest.raises(NotFoundError):
        load_image(tmp_path / "nowhere.png")


def test_a_control_tensor_may_mark_holes_outside_of_0_to_1_as_published():
    from diffusers.image_processor import VaeImageProcessor as Theirs

    control = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    control[:, :, 4:8, 4:8] = -1.0  # the published inpainting ControlNet reads a hole there
    ours = VaeImageProcessor(do_normalize=False, do_convert_rgb=True)
    theirs = Theirs(do_normalize=False, do_convert_rgb=True)
    assert torch.equal(ours.preprocess(control), theirs.preprocess(control))
    assert torch.equal(VaeImageProcessor().preprocess(control), control)  # from -1 to 1: said, and taken as it is
    array = control.permute(0, 2, 3, 1).numpy()
    assert torch.equal(ours.preprocess(array), theirs.preprocess(array))
    with pytest.raises(InputError, match="Divide by 255"):
        ours.preprocess(abs(array) * 255)
    control[0, 0, 0, 0] = float("nan")
    with pytest.raises(InputError, match="finite"):
        ours.preprocess(control)
