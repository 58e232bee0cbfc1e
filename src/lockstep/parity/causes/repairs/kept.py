"""What lines written otherwise may leave behind, and how it is given back."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

MOST_NUMBERS = 1 << 26  # of weights that are kept
MOST_HELD = 4096  # entries of a list or a table


class Kept:
    """Weights of both sides, and what the port's modules and its own object hold in lists and tables."""

    def __init__(self, searches: Iterable[Any], files: Iterable[str], target: Any) -> None:
        weights = [t for search in searches for t in search.live.weights().values() if not t.is_inference()]
        few = sum(t.numel() for t in weights) <= MOST_NUMBERS
        self._weights = [(t, t._version, t.clone()) for t in weights] if few else []
        wanted = set(files)
        modules = [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) in wanted]
        names = [vars(module) for module in modules]
        if not isinstance(target, torch.nn.Module | dict) and hasattr(target, "__dict__"):
            names.append(vars(target))
        self._names = [(held, dict(held)) for held in names]
        values = [value for _, before in self._names for value in before.values()]
        self._lists = [(v, list(v)) for v in values if type(v) is list and len(v) <= MOST_HELD]
        self._tables = [(v, dict(v)) for v in values if type(v) is dict and len(v) <= MOST_HELD]
        self._sets = [(v, set(v)) for v in values if type(v) is set and len(v) <= MOST_HELD]

    def give_back(self) -> None:
        for tensor, version, content in self._weights:
            if tensor._version != version:
                with torch.no_grad():
                    tensor.copy_(content)
        for held, before in self._names:
            for name in [name for name in held if name not in before]:
                del held[name]
            held.update(before)
        for one, entries in self._lists:
            one[:] = entries
        for table, items in self._tables:
            table.clear()
            table.update(items)
        for group, members in self._sets:
            group.clear()
            group.update(members)


@contextmanager
def kept(searches: Iterable[Any], files: Iterable[str], target: Any) -> Iterator[Kept]:
    found = Kept(searches, files, target)
    try:
        yield found
    finally:
        found.give_back()
