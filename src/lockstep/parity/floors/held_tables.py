"""Tables that were made before the run and nobody makes again: moved by the rounding that went into them.

A running product or sum carries the rounding of all its steps, so a right port that makes it in another order or
precision differs by more than the last bit the further on in the table one looks. What has settings is made again in
float64 (wide_tables.py); what a sampler, or a model, made of its own is moved here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from .wide_tables import is_built_again

LEAST = 16  # numbers of a schedule that is trained on; fewer are no running product
SMALL = (torch.float32, torch.float16, torch.bfloat16)


@contextmanager
def held_tables_moved(owners: Iterable[Any], models: Iterable[nn.Module], generator: torch.Generator) -> Iterator[None]:
    """For a while every such table is another right one."""
    swapped: list[tuple[dict[str, Any], str, Any]] = []
    tables = [vars(owner) for owner in owners if hasattr(owner, "__dict__") and not is_built_again(owner)]
    tables += [model._buffers for model in models]
    try:
        for held in tables:
            for name, table in list(held.items()):
                if (moved := _moved(table, generator)) is not None:
                    swapped.append((held, name, table))
                    held[name] = moved
        yield
    finally:
        for held, name, table in swapped:
            held[name] = table


def _moved(table: Any, generator: torch.Generator) -> Any:
    """None for what is no table of growing or falling numbers in a small float."""
    if isinstance(table, np.ndarray) and table.dtype == np.float32:
        made = _moved(torch.from_numpy(table.copy()), generator)
        return None if made is None else made.numpy()
    if not isinstance(table, torch.Tensor) or table.dtype not in SMALL or table.ndim != 1 or table.numel() < LEAST:
        return None
    with torch._C.DisableTorchFunction(), torch.no_grad():
        values = table.detach().double().cpu()
        steps = values.diff()
        one_way = bool((steps >= 0).all()) or bool((steps <= 0).all())
        if not one_way or not bool(values.isfinite().all()) or bool((steps == 0).all()) or _is_whole(values):
            return None
        signs = torch.randint(0, 2, values.shape, generator=generator).mul(2).sub(1)
        walk = signs.cumsum(0) * (torch.finfo(table.dtype).eps / 2)
        return (values * (1 + walk)).to(table.dtype).to(table.device)


def _is_whole(values: torch.Tensor) -> bool:
    """True for timesteps: they are what they are."""
    return bool((values == values.round()).all())
