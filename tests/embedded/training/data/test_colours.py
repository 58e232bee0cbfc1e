import numpy as np
import pytest

from lockstep.embedded.training.data.colours import (
    BACKGROUNDS,
    COLOURS,
    LUMINANCE,
    compose,
    name_colour,
    natural_colour,
    to_oklab,
)
from lockstep.errors import InputError, UnknownNameError


def disc(colour=(200, 60, 60)):
    """A shaded disc on nothing: a highlight on the left, a shadow on the right."""
    rows, columns = np.mgrid[:64, :64]
    picture = np.zeros((64, 64, 4), np.uint8)
    shade = np.clip(1.2 - columns / 80, 0, 1.2)[..., None]
    picture[..., :3] = np.clip(np.array(colour) * shade, 0, 255)
    picture[..., 3] = np.where((rows - 32) ** 2 + (columns - 32) ** 2 < 26**2, 255, 0)
    return picture


def test_nothing_asked_means_the_picture_on_white():
    picture = disc()
    out = compose(picture)
    visible = picture[..., 3] == 255
    assert out.dtype == np.uint8
    assert out.shape == (64, 64, 3)
    assert (out[visible] == picture[visible][:, :3]).all()
    assert (out[~visible] == 255).all()


def test_half_transparent_pixels_mix_with_the_background():
    picture = np.full((2, 2, 4), (200, 100, 0, 128), np.uint8)
    wanted = np.array([200, 100, 0]) * 128 / 255 + np.array(BACKGROUNDS["blue"]) * 127 / 255
    assert np.abs(compose(picture, background="blue")[0, 0] - wanted).max() <= 0.51


def test_mirror_is_the_picture_from_the_other_side():
    assert (compose(disc(), "blue", "yellow", mirror=True) == compose(disc(), "blue", "yellow")[:, ::-1]).all()


def test_recolouring_keeps_the_order_of_light_and_dark():
    picture = disc()
    row = slice(8, 56)
    before = compose(picture)[32, row] @ LUMINANCE
    for colour in COLOURS:
        after = compose(picture, colour)[32, row] @ LUMINANCE
        assert (np.diff(after[np.argsort(before)]) >= -1.5).all(), colour  # a step of rounding


@pytest.mark.parametrize("background", [None, "turquoise", "black"])
@pytest.mark.parametrize("colour", COLOURS)
def test_a_recoloured_object_is_named_by_its_colour(colour, background):
    if colour != background:
        assert name_colour(compose(disc((90, 150, 210)), colour, background), background) == colour


def test_white_and_black_art_takes_the_colour_too():
    for art in ((250, 250, 250), (12, 12, 12)):
        assert name_colour(compose(disc(art), "purple")) == "purple"


def test_natural_colours_are_named_only_beyond_doubt():
    assert natural_colour(disc((252, 208, 36))) == "yellow"
    assert natural_colour(disc((150, 150, 60))) is None  # olive
    half = disc((222, 36, 40))
    half[:32, :, :3] = (40, 104, 222)
    assert natural_colour(half) is None
    assert natural_colour(np.zeros((8, 8, 4), np.uint8)) is None


def test_unknown_words_and_wrong_arrays_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'purple'"):
        compose(disc(), "purpel")
    with pytest.raises(UnknownNameError, match="background"):
        compose(disc(), background="beige")
    with pytest.raises(InputError, match="float32"):
        compose(disc().astype(np.float32))


def test_oklab_of_known_colours():
    # From the author's page: white is (1, 0, 0), sRGB red has L 0.62796, a 0.22486, b 0.12585.
    assert np.abs(to_oklab(np.array([1.0, 1.0, 1.0])) - [1, 0, 0]).max() < 1e-3
    assert np.abs(to_oklab(np.array([1.0, 0.0, 0.0])) - [0.62796, 0.22486, 0.12585]).max() < 1e-3
