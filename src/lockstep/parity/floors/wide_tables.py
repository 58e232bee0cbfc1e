"""Tables that a scheduler made when it was built, as they would be in float64.

A product of a thousand float32 numbers is off by dozens of last bits. A port that makes the same table in float64 is
right; so the run in float64 has to start from such a table, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

SAME_TABLE = 1e-3  # relative: what is farther apart was changed after the scheduler was built


@contextmanager
def tables_in_float64(schedulers: Iterable[Any]) -> Iterator[None]:
    """For a while every float table of a scheduler is the one that its own code makes in float64; to be entered where
    torch computes in that."""
    swapped: list[tuple[Any, str, torch.Tensor]] = []
    try:
        for scheduler in schedulers:
            for name, wide in _wide_tables(scheduler):
                swapped.append((scheduler, name, vars(scheduler)[name]))
                vars(scheduler)[name] = wide
        yield
    finally:
        for scheduler, name, table in swapped:
            vars(scheduler)[name] = table


def _wide_tables(scheduler: Any) -> list[tuple[str, torch.Tensor]]:
    twin = _built_again(scheduler)
    if twin is None:
        return []
    held = {name: table for name, table in vars(scheduler).items() if isinstance(table, torch.Tensor)}
    made = {name: vars(twin).get(name) for name in held}
    return [(name, made[name]) for name, table in held.items() if _is_same_table(table, made[name])]


def is_built_again(scheduler: Any) -> bool:
    """True for one whose tables are made anew in float64."""
    return _built_again(scheduler) is not None


def _built_again(scheduler: Any) -> Any:
    """Another one of the same settings; None where the settings are not known, or do not suffice."""
    config = getattr(scheduler, "config", None)
    if not isinstance(config, Mapping):
        return None
    known = inspect.signature(type(scheduler).__init__).parameters
    try:
        return type(scheduler)(**{name: value for name, value in config.items() if name in known})
    except Exception:  # a constructor of somebody else's: what it cannot be built from is left as it is
        return None


def _is_same_table(table: torch.Tensor, wide: Any) -> bool:
    if not isinstance(wide, torch.Tensor) or wide.dtype is not torch.float64 or wide.shape != table.shape:
        return False
    return table.dtype is not torch.float64 and torch.allclose(table.double(), wide, rtol=SAME_TABLE, atol=0.0)
