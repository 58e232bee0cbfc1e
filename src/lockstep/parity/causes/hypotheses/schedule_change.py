"""A scheduler's tables, put right behind its own `set_timesteps`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class TableChange:
    """Other numbers as one table (`timesteps`, `sigmas`) of a scheduler."""

    part: str
    name: str
    values: tuple[float, ...]


def put_tables(instance: Any, changes: Iterable[TableChange]) -> None:
    """In the kind that the scheduler keeps: a tensor, an array or a list."""
    for change in changes:
        old = getattr(instance, change.name, None)
        if isinstance(old, torch.Tensor) and old.numel() == len(change.values):
            new = torch.tensor(change.values, dtype=torch.float64).to(old.dtype).to(old.device).reshape(old.shape)
            setattr(instance, change.name, new)
        elif isinstance(old, np.ndarray) and old.size == len(change.values):
            setattr(instance, change.name, np.asarray(change.values).astype(old.dtype).reshape(old.shape))
        elif isinstance(old, list) and len(old) == len(change.values):
            setattr(instance, change.name, [type(o)(v) for o, v in zip(old, change.values, strict=True)])
