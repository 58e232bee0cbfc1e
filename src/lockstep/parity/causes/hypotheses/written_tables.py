"""Tables of numbers in a run's own code, as numpy or a list makes them: seen as they are made, and written over."""

from __future__ import annotations

import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from ...trace.container import Array

LEAST, MOST = 3, 4096  # numbers
MOST_TIMES = 3  # that one variable is given a table: a loop may do so in every step
RETURNED = "return"
_LIBRARY = ("site-packages", "dist-packages", "<frozen", "<string")
_OURS = str(Path(__file__).resolve().parents[2])
_STANDARD = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


@dataclass(frozen=True)
class TablePlace:
    """A variable, an attribute or a result of a function, and the how-manieth table that it is."""

    file: str
    function: str
    variable: str
    time: int


@dataclass(frozen=True, eq=False)
class SeenTable:
    place: TablePlace
    line: str
    numbers: Array


@dataclass(frozen=True, eq=False)
class TableWritten:
    """Other numbers in a table as soon as it is made."""

    place: TablePlace
    values: Array


@contextmanager
def tables_written(changes: Iterable[TableWritten]) -> Iterator[None]:
    wanted = {change.place: change.values for change in changes}

    before: list[tuple[Any, Array]] = []  # what an object keeps is its own again behind the run

    def write(seen: SeenTable, table: Any) -> None:
        if seen.place in wanted:
            before.append((table, seen.numbers))
            _write(table, wanted[seen.place])

    if not wanted:
        yield
        return
    try:
        with tables_seen(write):
            yield
    finally:
        for table, numbers in reversed(before):
            _write(table, numbers)


@contextmanager
def tables_seen(tell: Callable[[SeenTable, Any], None], also: frozenset[str] = frozenset()) -> Iterator[None]:
    """Every table that code outside of libraries makes, or that `also` in these files, when the line that makes it is
    done."""
    before = sys.gettrace()
    sys.settrace(_Lines(tell, also).called)
    try:
        yield
    finally:
        sys.settrace(before)


class _Lines:
    """Looks at the variables of running code line by line."""

    def __init__(self, tell: Callable[[SeenTable, Any], None], also: frozenset[str]) -> None:
        self._tell, self._also = tell, also
        self._times: Counter[tuple[str, str, str]] = Counter()
        self._own: dict[CodeType, bool] = {}
        self._kept: list[Any] = []  # so that no other table gets the identity of one that was seen

    def called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self._own:
            self._own[code] = code.co_filename in self._also or is_own(code.co_filename)
        if not self._own[code]:
            return None
        known: dict[str, int] = {}
        last = [frame.f_lineno]

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event in ("line", "return"):
                for name, value in _variables(frame):
                    if known.get(name) != id(value):
                        known[name] = id(value)
                        self._note(frame.f_code, name, last[0], value)
                if event == "return":
                    self._note(frame.f_code, RETURNED, frame.f_lineno, argument)
                last[0] = frame.f_lineno
            return line

        return line

    def _note(self, code: CodeType, name: str, line: int, value: Any) -> None:
        numbers = numbers_of(value)
        key = (code.co_filename, code.co_name, name)
        if numbers is not None and self._times[key] < MOST_TIMES:
            self._kept.append(value)
            seen = SeenTable(TablePlace(*key, self._times[key]), f"{Path(code.co_filename).name}:{line}", numbers)
            self._times[key] += 1
            self._tell(seen, value)


def is_own(file: str) -> bool:
    """True for code that is part of no library, nor of what watches it."""
    return not (any(part in file for part in _LIBRARY) or file.startswith((_OURS, *_STANDARD)))


def _variables(frame: FrameType) -> Iterator[tuple[str, Any]]:
    values = frame.f_locals
    for name, value in values.items():
        yield name, value
    owner = values.get("self")
    if hasattr(owner, "__dict__") and not isinstance(owner, torch.nn.Module):
        for name, value in vars(owner).items():
            yield f"self.{name}", value


def numbers_of(value: Any) -> Array | None:
    """Of a row of numbers; None for anything else."""
    if isinstance(value, torch.Tensor):
        if value.ndim != 1 or not LEAST <= value.numel() <= MOST or value.is_complex() or value.dtype is torch.bool:
            return None
        with torch._C.DisableTorchFunction():
            return value.detach().to("cpu", torch.float64).numpy().copy()
    if isinstance(value, np.ndarray):
        plain = value.ndim == 1 and LEAST <= value.size <= MOST and value.dtype.kind in "fiu"
        return value.astype(np.float64) if plain else None
    if type(value) is list and LEAST <= len(value) <= MOST and all(type(v) in (int, float) for v in value):
        return np.array(value, dtype=np.float64)
    return None


def _write(table: Any, values: Array) -> None:
    with torch._C.DisableTorchFunction():
        if isinstance(table, torch.Tensor):
            table.copy_(torch.from_numpy(values).to(table.dtype))
        elif isinstance(table, np.ndarray) and table.flags.writeable:
            table[...] = values
        elif isinstance(table, list):
            table[:] = [type(old)(new) for old, new in zip(table, values.tolist(), strict=True)]
