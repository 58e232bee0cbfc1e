"""What a training step of the embedded model sees: items drawn by shares, and their captions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from ...errors import ConfigError
from .data import DEFAULT_STYLE, Item, ItemTable
from .settings import Mixture

Value = TypeVar("Value")
UNSAID = 0.8  # of captions in the default style: as the reader of sentences hands them on, without the style


def plain_caption(table: ItemTable, item: Item, rng: random.Random) -> str:
    """The canonical caption, as the reader of sentences hands it to the model."""
    unsaid = item.style == DEFAULT_STYLE and rng.random() < UNSAID
    return table.prompt(item) if unsaid else table.caption(item)


def evenly(values: Sequence[Value], count: int) -> list[Value]:
    """`count` of the values, or all, evenly spaced."""
    count = min(count, len(values))
    return [values[k * len(values) // count] for k in range(count)]


def caption_random(seed: int, step: int, slot: int) -> random.Random:
    """The random numbers of one caption."""
    return random.Random(f"{seed}-{step}-{slot}")


def drawing_weights(items: Sequence[Item], mixture: Mixture) -> Tensor:
    """How likely each item is, so that styles, kinds, mirror images and rare concepts get their shares."""
    cells = [cell_of(item) for item in items]
    counts = Counter(cells)
    shares = [cell_share(cell, mixture) / counts[cell] for cell in cells]
    weights = torch.tensor(shares, dtype=torch.float64)
    if not weights.sum() > 0:
        raise ConfigError(
            f"The mixture draws nothing: no item has a style of {', '.join(mixture.styles)} and a kind of "
            f"{', '.join(mixture.kinds)}."
        )
    return weights / weights.sum()


def cell_of(item: Item) -> tuple[str, str, bool, bool]:
    return item.style, item.kind, item.mirror, item.core


def cell_share(cell: tuple[str, str, bool, bool], mixture: Mixture) -> float:
    """The share of all items of one style and kind, mirrored or not, in the core or not."""
    style, kind, mirror, core = cell
    share = mixture.styles.get(style, 0.0) * mixture.kinds.get(kind, 0.0)
    if kind == "base":  # the others are never mirrored
        share *= mixture.mirrored if mirror else 1 - mixture.mirrored
    return share * (1 - mixture.beyond_core if core else mixture.beyond_core)


def draw_rows(weights: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Rows by systematic sampling: every batch has close to its share of everything, in random order."""
    places = (
        torch.arange(count, dtype=torch.float64) + torch.rand((), dtype=torch.float64, generator=generator)
    ) / count
    order = torch.randperm(len(weights), generator=generator)
    rows = torch.searchsorted(weights[order].cumsum(0), places).clamp(max=len(weights) - 1)
    return order[rows][torch.randperm(count, generator=generator)]
