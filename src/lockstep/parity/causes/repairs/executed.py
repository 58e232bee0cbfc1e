"""Which lines of the port run, what they make, and whether the reference has that anywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import torch

from ..hypotheses.written_tables import is_own

_LOCKSTEP = str(Path(__file__).resolve().parents[3])
MOST_NUMBERS = 1 << 22  # of one value
MOST_VISITS = 64  # of one line whose values are looked at
SAME = 2e-5  # relative
MOST_TABLE, MOST_HELD = 4096, 64
RETURNED = "return"
Features = tuple[float, ...]


class Having(Enum):
    """Whether the reference has a value."""

    SAME = 1
    REARRANGED = 2  # the same numbers in another order
    STRANGE = 3


def features_of(value: Any) -> tuple[int, Features] | None:
    """How many numbers, three that do not depend on their order, and one that does; None for what holds no
    floating-point numbers."""
    if isinstance(value, torch.Tensor):
        if not value.is_floating_point() or not 0 < value.numel() <= MOST_NUMBERS or value.is_meta:
            return None
        with torch._C.DisableTorchFunction():
            many = value.detach().reshape(-1).to("cpu", torch.float64).numpy()
    elif isinstance(value, np.ndarray):
        if value.dtype.kind != "f" or not 0 < value.size <= MOST_NUMBERS:
            return None
        many = value.reshape(-1).astype(np.float64)
    elif isinstance(value, float | np.floating) and np.isfinite(value):
        many = np.array([float(value)])
    else:
        return None
    found = np.linalg.norm(many), many.sum(), (many * many * many).sum(), many @ _weights(many.size)
    return many.size, tuple(float(number) for number in found)


@lru_cache(maxsize=64)
def _weights(size: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(size).standard_normal(size)


class KnownValues:
    """What the reference has in one run, by how much it is."""

    def __init__(self) -> None:
        self._held: dict[int, list[Features]] = {}
        self._sorted: dict[int, np.ndarray[Any, Any]] = {}

    def add(self, value: Any) -> None:
        found = features_of(value)
        if found is not None:
            self._held.setdefault(found[0], []).append(found[1])
            self._sorted.pop(found[0], None)
        if isinstance(value, list | tuple):
            for item in value[:MOST_TABLE]:
                self.add(item)
        elif isinstance(value, torch.Tensor | np.ndarray) and found is not None and value.ndim == 1:
            for item in value.tolist() if 1 < found[0] <= MOST_TABLE else ():
                self.add(item)

    def has(self, value: Any) -> Having | None:
        """None for what can not be known by its numbers."""
        found = features_of(value)
        if found is None or not any(found[1]):
            return None
        size, wanted = found
        if size not in self._sorted:
            self._sorted[size] = np.array(sorted(self._held.get(size, ())), dtype=np.float64).reshape(-1, len(wanted))
        rows, scale = self._sorted[size], wanted[0]
        first, last = np.searchsorted(rows[:, 0], [scale * (1 - SAME), scale * (1 + SAME)])
        near = rows[first:last]
        near = near[np.abs(near[:, 1] - wanted[1]) <= SAME * scale * size**0.5]
        near = near[np.abs(near[:, 2] - wanted[2]) <= 10 * SAME * scale**3]
        if not len(near):
            return Having.STRANGE
        same = np.abs(near[:, 3] - wanted[3]) <= 10 * SAME * scale
        return Having.SAME if same.any() else Having.REARRANGED


@dataclass(eq=False)
class RunLine:
    """One line of the port, in one run."""

    file: str
    number: int
    first: int  # the how-manieth event of the run
    times: int = 0
    known: int = 0  # values that the reference has
    rearranged: int = 0  # those of them that it has in another order
    behind: int = 0  # times that it was given something that the reference has not
    suspect: int | None = None  # the event at which it made something strange of what was not
    values: dict[str, Any] = field(default_factory=dict)  # visible names when it was run first
    code: str = ""  # the function
    built: bool = False  # runs when a side is made, not when it is called


class LineWatch:
    """Follows the port's own code line by line."""

    def __init__(self, known: KnownValues, reads: Any) -> None:
        self.known, self._reads = known, reads  # `reads(file, line)`: names that a line reads
        self.lines: dict[tuple[str, int], RunLine] = {}
        self._own: dict[CodeType, bool] = {}
        self._events = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if code not in self._own:
            self._own[code] = is_own(code.co_filename) and not code.co_filename.startswith(_LOCKSTEP)
        if not self._own[code]:
            return None
        state = _FrameState(self, frame)
        return state.line


class _FrameState:
    """The variables of one running function: which hold something that the reference has not."""

    def __init__(self, watch: LineWatch, frame: FrameType) -> None:
        self.watch = watch
        self.seen: dict[str, tuple[int, int]] = {}
        self.strange: dict[str, bool] = {}
        self.last: RunLine | None = None
        for name, value in frame.f_locals.items():
            self.seen[name] = _identity(value)
            self.strange[name] = self._is_strange(value)

    def _is_strange(self, value: Any) -> bool:
        return _known(self.watch.known, value) is Having.STRANGE

    def line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event in ("line", "return") and self.last is not None:
            self._note(frame, self.last, argument if event == "return" else None)
        if event == "line":
            self.last = self._begun(frame)
        return self.line

    def _begun(self, frame: FrameType) -> RunLine:
        watch, key = self.watch, (frame.f_code.co_filename, frame.f_lineno)
        watch._events += 1
        line = watch.lines.get(key)
        if line is None:
            line = watch.lines[key] = RunLine(*key, watch._events, code=frame.f_code.co_qualname)
        if line.times < 2:  # the second time round a loop all names are there
            line.values = dict(frame.f_locals)
        line.times += 1
        return line

    def _note(self, frame: FrameType, line: RunLine, returned: Any) -> None:
        if line.times > MOST_VISITS:
            return
        made: list[Having] = []
        before = dict(self.strange)
        for name, value in [*frame.f_locals.items(), (RETURNED, returned)]:
            now = _identity(value)
            if self.seen.get(name) != now:
                self.seen[name] = now
                known = _known(self.watch.known, value)
                made += [known] if known is not None else []
                self.strange[name] = known is Having.STRANGE
        if any(before.get(name) for name in self.watch._reads(line.file, line.number)):
            line.behind += 1  # what it makes of something wrong says nothing of it
            return
        strange = made.count(Having.STRANGE)
        line.known += len(made) - strange
        line.rearranged += made.count(Having.REARRANGED)
        if strange and line.suspect is None:
            line.suspect = self.watch._events


def _identity(value: Any) -> tuple[int, int]:
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return id(value), 0 if value.is_inference() else int(value._version)
    if isinstance(value, list | dict):
        return id(value), len(value)
    return id(value), hash(value) if isinstance(value, int | float) else 0


def _known(known: KnownValues, value: Any) -> Having | None:
    """Of what holds several values: the strangest of them."""
    if isinstance(value, dict) and len(value) <= MOST_HELD:
        value = list(value.values())
    if isinstance(value, list | tuple) and len(value) <= MOST_TABLE:
        found = [having for item in value if (having := _known(known, item)) is not None]
        return max(found, key=lambda having: having.value, default=None)
    return known.has(value)
