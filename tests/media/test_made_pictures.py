"""The pictures that a pipeline returns are PIL images that keep their manifest."""

import copy
import io
import pickle

import numpy as np
import pytest
from PIL import Image

from lockstep import media
from lockstep.media import MadePicture
from lockstep.media.pixels import PixelHash, pixels_of
from media.clips import RECORD, clip


@pytest.fixture
def made():
    return MadePicture.of(clip()[2], lambda folder: {**RECORD, "folder": folder.name})


@pytest.mark.parametrize("suffix", [".png", ".webp", ".jpg", ".jpeg"])
def test_its_own_save_keeps_the_manifest(made, tmp_path, suffix):
    made.save(tmp_path / f"a{suffix}")
    record = media.read_manifest(tmp_path / f"a{suffix}")
    assert record | RECORD == record
    assert record["pixels"] == PixelHash([pixels_of(clip()[2])]).text
    assert record["folder"] == tmp_path.name


def test_its_own_save_into_memory_and_other_formats(made, tmp_path):
    file = io.BytesIO()
    made.save(file, format="png")
    (tmp_path / "a.png").write_bytes(file.getvalue())
    assert media.read_manifest(tmp_path / "a.png")["seed"] == [3]
    made.save(tmp_path / "a.bmp")
    with Image.open(tmp_path / "a.bmp") as file:
        assert np.array_equal(np.asarray(file), np.asarray(made))
    from PIL.PngImagePlugin import PngInfo

    mine = PngInfo()
    mine.add_text("mine", "yes")
    made.save(tmp_path / "b.png", pnginfo=mine)
    with Image.open(tmp_path / "b.png") as file:
        assert file.info == {"mine": "yes"}


def test_it_is_a_picture_like_any_other(made, tmp_path):
    plain = clip()[2]
    assert isinstance(made, Image.Image)
    assert made == plain
    assert plain == made
    assert made != clip()[3]
    assert np.array_equal(np.asarray(made), np.asarray(plain))
    assert type(made.resize((8, 8))) is type(made.convert("L")) is type(made.crop((0, 0, 4, 4))) is Image.Image
    for same in (made.copy(), copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert same == plain
        same.save(tmp_path / "same.png")
        assert media.read_manifest(tmp_path / "same.png")["seed"] == [3]
    assert made.getpixel((3, 3)) == plain.getpixel((3, 3))
    assert made._repr_png_() == plain._repr_png_()


def test_a_picture_that_is_drawn_on_keeps_the_hash_of_what_was_made(made, tmp_path):
    other = made.copy()
    other.putpixel((0, 0), (255, 255, 255))
    assert made == clip()[2]
    other.save(tmp_path / "a.png")
    record = media.read_manifest(tmp_path / "a.png")
    assert record["pixels"] == made.pixel_hash != PixelHash([pixels_of(other)]).text
