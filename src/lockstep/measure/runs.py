"""Sides in turn: time, distance to the first side, memory; a side that cannot run is told with its reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from .. import memory

Tensor = torch.Tensor
Run = Callable[[], Tensor]
MIB = 2**20


class Absent(Exception):
    """Why a side cannot be measured here."""


@dataclass(frozen=True)
class Way:
    """A way to compute; `make` loads and prepares it, or raises Absent."""

    name: str
    make: Callable[[], Run]


@dataclass
class Measured:
    """What was found of a side."""

    name: str
    seconds: list[float] = field(default_factory=list)
    ready_seconds: float = 0.0  # to load, compile, prepare, and for the first call
    error: float | None = None  # relative L2 to the side that errors are measured against
    held_mib: float = 0.0  # memory that it keeps
    peak_mib: float = 0.0  # memory that a call takes on top
    absent: str | None = None

    @property
    def best(self) -> float:
        return min(self.seconds)


@dataclass(frozen=True)
class Table:
    """What was found of all sides; ratios are against `reference`, errors against `exact`."""

    title: str
    reference: str
    exact: str
    sides: tuple[Measured, ...]

    @property
    def present(self) -> list[Measured]:
        return [side for side in self.sides if side.seconds]

    def ratio(self, side: Measured) -> float:
        """How many times as fast as the reference."""
        reference = next((one for one in self.present if one.name == self.reference), self.present[0])
        return reference.best / side.best

    def as_json(self) -> dict[str, Any]:
        rows = [{**asdict(side), "ratio": self.ratio(side) if side.seconds else None} for side in self.sides]
        return {"title": self.title, "reference": self.reference, "exact": self.exact, "sides": rows}


@torch.no_grad()
def measured(
    title: str,
    sides: Iterable[Way],
    rounds: int,
    tell: Callable[[str], object] = lambda text: None,
    reference: str | None = None,
) -> Table:
    """Each side once a round, in turn, so that a slow moment of the machine hits all of them.

    Errors are against the first side, ratios against `reference`, if it can be measured, or the first one, too.
    """
    found, runs = [], {}
    exact: tuple[str, Tensor] | None = None
    for side in sides:
        tell(f"preparing {side.name}")
        one = Measured(side.name)
        found.append(one)
        before, started = memory.resident(), time.perf_counter()
        try:
            run = side.make()
            result, one.peak_mib = memory_of(run)
        except Absent as reason:
            one.absent = str(reason)
            continue
        one.ready_seconds = time.perf_counter() - started
        exact = exact or (side.name, result.double())
        one.error = float((result.double() - exact[1]).norm() / exact[1].norm().clamp_min(1e-30))
        one.held_mib = max(0.0, (memory.resident() - before) / MIB)
        runs[side.name] = run
    for turn in range(rounds):
        for one in found:
            if one.absent is None:
                tell(f"round {turn + 1} of {rounds}: {one.name}")
                time_once(one, runs[one.name])
    name = exact[0] if exact else ""
    against = reference if reference in runs else name
    return Table(title, against or name, name, tuple(found))


def time_once(one: Measured, run: Run) -> Tensor:
    """One more call of a side."""
    started = time.perf_counter()
    result = run()
    one.seconds.append(time.perf_counter() - started)
    return result


def memory_of(run: Run) -> tuple[Tensor, float]:
    """The result of a call, and the MiB that it took on top, with every freed buffer given back at once."""
    memory.give_back_freed_memory()
    memory.trim()
    before = memory.resident()
    memory.forget_peak()
    try:
        return run(), max(0.0, (memory.peak() - before) / MIB)
    finally:
        memory.keep_freed_memory()
