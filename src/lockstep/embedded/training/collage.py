"""Latents of scenes: tiles encoded once by the teacher, put together anew for every step of a training.

A latent depends on little more than its own 8 x 8 pixels, so a picture of several things can be put together from the
latents of each. `tiles.safetensors` has the latents of every tile by its name, as the teacher gives them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ... import files
from ...errors import NotFoundError
from ...training.pixels import to_pixels
from ...training.progress import Reporter
from .data import load_items, load_pictures
from .data.colours import compose
from .data.scenes import CELLS, MARGIN, PIXELS, Scene, SceneDrawer, Tile, render_tile
from .latents import Normal, encode_pixels, load_teacher

WHITE = "white"
SAVED_EVERY = 16  # batches: what was encoded before a stop is kept


def tiles_path(work: Path) -> Path:
    return work / "latents" / "tiles.safetensors"


def name_of(tile: Tile) -> str:
    return f"{tile.picture}/{tile.cells}/{tile.colour or ''}/{tile.edge}/{tile.accessory}"


@torch.inference_mode()
def encode_tiles(work: Path, teacher_folder: Path, batch_size: int = 32) -> int:
    """Encode the tiles that are not encoded yet; how many that were."""
    path = tiles_path(work)
    known = load_file(path) if path.is_file() else {}
    rgba, _ = load_pictures(work)
    tiles = {name_of(tile): tile for tile in SceneDrawer(load_items(work)).tiles()}
    todo = sorted((tile for name, tile in tiles.items() if name not in known), key=lambda tile: tile.cells)
    teacher = load_teacher(teacher_folder)
    if WHITE not in known:
        blank = teacher.encode(torch.ones(1, 3, CELLS * PIXELS, CELLS * PIXELS), return_dict=False)[0]
        known[WHITE] = blank[0].to(torch.float16).contiguous()
    with Reporter("latents of tiles", len(todo)) as reporter:
        done = 0
        for number, batch in enumerate(batches(todo, batch_size), start=1):
            known |= encode_batch(teacher, batch, rgba)
            reporter.advance(done := done + len(batch))
            if number % SAVED_EVERY == 0 or done == len(todo):
                with files.atomic(path) as temporary:
                    save_file(known, temporary)
    return len(todo)


def batches(tiles: Iterable[Tile], size: int) -> Iterable[list[Tile]]:
    """Tiles of one size together."""
    for _, group in groupby(tiles, key=lambda tile: tile.cells):
        same = list(group)
        yield from (same[start : start + size] for start in range(0, len(same), size))


def encode_batch(teacher: torch.nn.Module, tiles: list[Tile], rgba: np.ndarray) -> dict[str, Tensor]:
    """The latents of tiles of one size, each with a white margin that is cut off again."""
    margin = 0 if tiles[0].cells == CELLS else MARGIN
    border = ((margin * PIXELS,) * 2, (margin * PIXELS,) * 2, (0, 0))
    pictures = [np.pad(compose(render_tile(tile, rgba), tile.colour), border, constant_values=255) for tile in tiles]
    latents = encode_pixels(teacher, to_pixels(np.stack(pictures))).to(torch.float16)
    inner = slice(margin, latents.shape[-1] - margin)
    return {name_of(tile): value.contiguous() for tile, value in zip(tiles, latents[..., inner, inner], strict=True)}


class Collage:
    """Draws scenes and puts their latents together."""

    def __init__(self, work: Path, drawer: SceneDrawer, normal: Normal) -> None:
        path = tiles_path(work)
        if not path.is_file():
            raise NotFoundError(f"Wanted the tiles of scenes in {path}, and they are not there. Run the `tiles` stage.")
        self.drawer = drawer
        self.tiles = {name: normal.normalise(value.float()) for name, value in load_file(path).items()}

    def draw(self, rng: random.Random) -> tuple[Tensor, str]:
        """The normalised latents of a new scene, and its caption."""
        scene = self.drawer.draw(rng)
        return self.paste(scene), scene.caption

    def paste(self, scene: Scene) -> Tensor:
        latents = self.tiles[WHITE].clone()
        for placement in scene.placements:
            tile, row, column = self.tiles[name_of(placement.tile)], placement.row, placement.column
            latents[:, row : row + tile.shape[1], column : column + tile.shape[2]] = tile
        return latents
