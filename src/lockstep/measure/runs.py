"""Sides in turn: time, distance to the first side, memory; a side that cannot run is told with its reason."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

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
        before, started = resident(), time.perf_counter()
        try:
            run = side.make()
            result = run()
        except Absent as reason:
            one.absent = str(reason)
            continue
        one.ready_seconds = time.perf_counter() - started
        exact = exact or (side.name, result.double())
        one.error = float((result.double() - exact[1]).norm() / exact[1].norm().clamp_min(1e-30))
        one.held_mib = max(0.0, resident() - before)
        runs[side.name] = run
    for turn in range(rounds):
        for one in found:
            if one.absent is None:
                tell(f"round {turn + 1} of {rounds}: {one.name}")
                time_once(one, runs[one.name])
    name = exact[0] if exact else ""
    against = reference if reference in runs else name
    return Table(title, against or name, name, tuple(found))


def time_once(one: Measured, run: Run) -> None:
    """One more call of a side."""
    before = resident()
    forget_peak()
    started = time.perf_counter()
    run()
    one.seconds.append(time.perf_counter() - started)
    one.peak_mib = max(one.peak_mib, peak() - before)


def resident() -> float:
    """Memory of this process now, MiB; 0 where the system does not say."""
    return _status("VmRSS")


def peak() -> float:
    """The most since `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Count the most from now on, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _status(name: str) -> float:
    return next((float(size) / 1024 for found, size in _lines() if found == name), 0.0)


def _lines() -> Iterator[tuple[str, str]]:
    path = Path(f"/proc/{os.getpid()}/status")
    for line in path.read_text().splitlines() if path.exists() else ():
        words = line.split()
        if len(words) > 1:
            yield words[0].rstrip(":"), words[1]
