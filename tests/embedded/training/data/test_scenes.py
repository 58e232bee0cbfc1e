"""Scenes: what the words say is what the picture shows."""

import random

import numpy as np
import pytest

from lockstep.embedded.training.data.scenes import (
    CELLS,
    COUNT_PLACES,
    KINDS,
    NUMBERS,
    PLACES,
    SceneDrawer,
    Tile,
    plural_of,
    render_scene,
    render_tile,
)


@pytest.fixture(scope="module")
def pictures():
    """One disc, off the middle."""
    picture = np.full((128, 128, 4), (255, 255, 255, 0), np.uint8)
    rows, columns = np.mgrid[:128, :128]
    picture[(rows - 60) ** 2 + (columns - 64) ** 2 < 40**2] = (200, 30, 30, 255)
    return picture[None]


def test_plurals():
    odd = {"mouse": "mice", "sheep": "sheep"}
    expected = {
        "dog": "dogs", "cherry": "cherries", "key": "keys", "fox": "foxes", "bus": "buses", "mouse": "mice",
        "sheep": "sheep",
        "slice of pizza": "slices of pizza", "palm tree": "palm trees", "couch": "couches",
        "face with sunglasses": "faces with sunglasses",
    }  # fmt: skip
    assert {name: plural_of(name, odd) for name in expected} == expected


def test_things_never_overlap_and_stay_in_the_picture():
    for number, places in COUNT_PLACES.items():
        assert len(places) == number
        taken = np.zeros((CELLS, CELLS), int)
        side = 5 if number == 5 else 8
        for row, column in places:
            taken[row : row + side, column : column + side] += 1
            assert row + side <= CELLS
            assert column + side <= CELLS
        assert taken.max() == 1
    assert all(row + 8 <= CELLS and column + 8 <= CELLS for row, column in PLACES)
    assert sum(KINDS.values()) == pytest.approx(1)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"worn"}))
def test_the_words_say_what_is_there(work, kind):
    from lockstep.embedded.training.data import load_items

    drawer = SceneDrawer(load_items(work), kinds={kind: 1.0})
    tiles = set(drawer.tiles())
    for seed in range(60):
        scene = drawer.draw(random.Random(seed))
        assert scene == drawer.draw(random.Random(seed))
        assert {placement.tile for placement in scene.placements} <= tiles
        shown = {placement.tile.picture for placement in scene.placements}
        concepts = [drawer.table.concepts[drawer.table.pictures[picture].concept] for picture in shown]
        for concept in concepts:
            assert any(name in scene.caption for name in (concept.name, plural_of(concept.name, drawer.plurals)))
        if kind == "count":
            said = [n for n, words in NUMBERS.items() if any(f"{word} " in scene.caption for word in words)]
            assert len(scene.placements) in said or not said


def test_a_tile_that_stands_on_something_touches_it(pictures):
    for edge, row in (("bottom", -1), ("top", 0)):
        alpha = render_tile(Tile(0, edge=edge), pictures)[..., 3]
        assert alpha[row].max() > 0, edge
    middle = render_tile(Tile(0), pictures)[..., 3]
    assert middle[0].max() == middle[-1].max() == 0


def test_two_things_make_two_patches(pictures):
    from lockstep.embedded.training.data.scenes import Placement, Scene

    tile = Tile(0)
    picture = render_scene(Scene("two", (Placement(tile, 4, 0), Placement(tile, 4, 8))), pictures)
    red = (picture[..., 1] < 128).any(0)
    starts = np.flatnonzero(np.diff(red.astype(int)) == 1)
    assert picture.shape == (128, 128, 3)
    assert len(starts) == 2
    assert np.array_equal(picture[:, :64], picture[:, 64:])
