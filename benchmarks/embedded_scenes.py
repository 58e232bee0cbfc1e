"""Counts and pairs of the embedded model in numbers, judged without a person.

Counts: how many separate patches stand in the picture of "three apples"? Pairs: in the picture of "a dog and a cat",
is the
left half nearest to a small dog and the right half to a small cat, among the small pictures of all countable things?
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Draw = Callable[[Sequence[str], str], list[np.ndarray]]
THINGS = [
    "dog", "cat", "apple", "banana", "star", "heart", "car", "house", "tree", "penguin", "pig", "rocket",
    "strawberry", "frog",
    "tulip", "soccer ball",
]  # fmt: skip
NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five"}
SIDE = 16  # halves are compared at 32 x 16


def measure_counts(draw: Draw, table: Any, rgba: np.ndarray, most: int) -> dict[str, Any]:
    """The share of pictures with as many patches as asked for; beside it, what the measure says of the true scenes."""
    from lockstep.embedded.training.data.scenes import SceneDrawer, plural_of

    drawer = SceneDrawer(table, tiers=(1,))
    asked = [(number, thing) for thing in THINGS for number in NUMBERS][:most]
    pictures = draw([f"{NUMBERS[number]} {plural_of(thing, drawer.plurals)}" for number, thing in asked], "counts")
    true = [true_count(drawer, thing, number, rgba) for number, thing in asked]
    wanted = [number for number, _ in asked]
    return {
        "count_prompts": len(asked),
        "counts_right": agreement(pictures, wanted),
        "counts_of_true_scenes": agreement(true, wanted),
    }


def true_count(drawer: Any, thing: str, number: int, rgba: np.ndarray) -> np.ndarray:
    from lockstep.embedded.training.data.scenes import COUNT_PLACES, HALF, SMALL, Placement, Scene, Tile, render_scene

    item = drawer.by_name["3d"][thing]
    tile = Tile(item.picture, SMALL if number == 5 else HALF, item.colour)
    return render_scene(Scene("", tuple(Placement(tile, *place) for place in COUNT_PLACES[number])), rgba)


def agreement(pictures: Sequence[np.ndarray], numbers: Sequence[int]) -> float:
    return sum(patches(picture) == number for picture, number in zip(pictures, numbers, strict=True)) / len(numbers)


def patches(picture: np.ndarray, cell: int = 4, least: int = 6) -> int:
    """How many separate things stand on white: groups of connected 4 x 4 cells, without specks."""
    drawn = (255 - picture.min(-1).astype(int)) > 40
    side = len(drawn) // cell
    cells = {(int(r), int(c)) for r, c in np.argwhere(drawn.reshape(side, cell, side, cell).mean((1, 3)) > 0.25)}
    count = 0
    while cells:
        size, waiting = 0, [cells.pop()]
        while waiting:
            row, column = waiting.pop()
            size += 1
            beside = {(row + down, column + across) for down in (-1, 0, 1) for across in (-1, 0, 1)} & cells
            cells -= beside
            waiting += beside
        count += size >= least
    return count


def measure_pairs(draw: Draw, table: Any, rgba: np.ndarray, most: int) -> dict[str, Any]:
    """The share of pictures whose halves are both nearest to what was asked for there, within the five nearest."""
    import torch

    from lockstep.embedded.training.data.scenes import Placement, Scene, SceneDrawer, Tile, render_scene
    from lockstep.embedded.training.evaluation import retrieval_ranks

    drawer = SceneDrawer(table, tiers=(1,))
    couples = [(one, THINGS[(5 * index + 3) % len(THINGS)]) for index, one in enumerate(THINGS)][:most]
    items = drawer.things["3d"]
    small = [render_scene(Scene("", (Placement(Tile(i.picture, colour=i.colour), 4, 0),)), rgba)[:, :64] for i in items]
    gallery = torch.from_numpy(np.stack([shrink_half(picture) for picture in small]))
    names = [table.concepts[item.concept].name for item in items]
    pictures = draw([f"a {one} and a {other}" for one, other in couples], "pairs")
    ranks = []
    for half, wanted in enumerate(zip(*couples, strict=True)):
        parts = torch.from_numpy(np.stack([shrink_half(p[:, 64 * half : 64 * half + 64]) for p in pictures]))
        ranks.append(retrieval_ranks(parts, wanted, gallery, names))
    return {
        "pair_prompts": len(couples),
        "pairs_both_in_top5": sum(a < 5 and b < 5 for a, b in zip(*ranks, strict=True)) / len(couples),
        "halves_in_top5": sum(rank < 5 for row in ranks for rank in row) / (2 * len(couples)),
    }


def shrink_half(picture: np.ndarray) -> np.ndarray:
    """uint8 [128, 64, 3] to float [32, 16, 3] by averaging."""
    return picture.reshape(2 * SIDE, 4, SIDE, 4, 3).astype(np.float32).mean((1, 3)) / 255
