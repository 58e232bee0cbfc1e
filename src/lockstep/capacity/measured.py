"""What was measured of a model on a machine: seconds of a step, of the rest, of loading; by size of the batch."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ..errors import FileFormatError, InputError, NotFoundError
from ..files import json_object, write_text

VERSION = 1


@dataclass(frozen=True)
class Run:
    """One run of a pipeline: seconds of a step, and of all that is done once (texts, decoding, writing)."""

    step: float
    fixed: float

    def seconds(self, steps: int) -> float:
        return self.fixed + steps * self.step


@dataclass(frozen=True)
class Link:
    """The way between two machines: bytes a second, and seconds until the first arrives."""

    bandwidth: float = math.inf
    latency: float = 0.0

    def seconds(self, bytes: float, messages: float = 1.0) -> float:
        return messages * self.latency + bytes / self.bandwidth


@dataclass(frozen=True)
class Split:
    """One picture over several ranks: what they send each other at every step, and how unequal their shares are."""

    ranks: int = 1
    messages: float = 0.0  # a step
    bytes: float = 0.0  # a step
    imbalance: float = 0.0  # 0.1: the slowest rank has a tenth more than its share

    def step(self, alone: float, link: Link) -> float:
        """A step that takes so long on one rank."""
        if self.ranks == 1:
            return alone
        return alone / self.ranks * (1 + self.imbalance) + link.seconds(self.bytes, self.messages)


@dataclass(frozen=True)
class Measured:
    """A model on a machine, in numbers."""

    steps: int
    runs: Mapping[int, Run]  # pictures at once -> their run
    load: float = 0.0  # seconds until a worker has its model
    spread: float = 0.0  # of the seconds of equal runs: standard deviation over mean
    crowding: Mapping[int, float] = field(default_factory=dict)  # workers on one machine -> how much slower each is
    result_bytes: float = 0.0  # of one picture, on its way from the worker
    model: str = ""
    machine: str = ""

    def __post_init__(self) -> None:
        if 1 not in self.runs:
            raise InputError("A measurement wants the run of one picture; larger batches come besides.")
        numbers = [self.load, self.spread, self.result_bytes, *self.crowding.values()]
        numbers += [number for run in self.runs.values() for number in (run.step, run.fixed)]
        if self.steps < 1 or any(not math.isfinite(number) or number < 0 for number in numbers):
            raise InputError("A measurement has at least one step, and no time that is negative or not finite.")
        if self.seconds(1) <= 0:
            raise InputError("A measurement says how long a picture takes: step or fixed seconds above 0.")

    def seconds(
        self, pictures: int = 1, neighbours: int = 1, split: Split | None = None, link: Link | None = None
    ) -> float:
        """A run of so many pictures at once, beside so many workers of one machine; its way to whoever waits added."""
        link, split = link or Link(), split or Split()
        run = self._run(pictures)
        step = split.step(run.step, link)
        slower = self._slower(neighbours)
        return slower * Run(step, run.fixed).seconds(self.steps) + pictures * link.seconds(self.result_bytes)

    def _run(self, pictures: int) -> Run:
        """As measured, or on the line between the two sizes around it; beyond the largest nothing is known."""
        sizes = sorted(self.runs)
        if pictures in self.runs:
            return self.runs[pictures]
        if not 1 <= pictures <= sizes[-1]:
            raise InputError(
                f"Batches of {pictures} were not measured, those of {', '.join(map(str, sizes))} were, and how it goes "
                f"on is not foretold. Measure them (`lockstep capacity measure --batch 1,{pictures}`), or ask for at "
                f"most {sizes[-1]}."
            )
        above = next(size for size in sizes if size > pictures)
        below = sizes[sizes.index(above) - 1]
        share = (pictures - below) / (above - below)
        one, other = self.runs[below], self.runs[above]
        return Run(one.step + share * (other.step - one.step), one.fixed + share * (other.fixed - one.fixed))

    def _slower(self, neighbours: int) -> float:
        """What was measured of so many neighbours, or of the next larger number; beyond them nothing is."""
        known = {1: 1.0, **self.crowding}
        if neighbours > max(known):
            raise InputError(
                f"{neighbours} workers on one machine were not measured, at the most {max(known)}, and each would be "
                f"slower. Measure them (`lockstep capacity measure --beside {neighbours}`), or ask for at most "
                f"{max(known)} a machine."
            )
        return known[min(count for count in known if count >= neighbours)]

    @classmethod
    def of_seconds(cls, seconds: Sequence[float]) -> Self:
        """Of the times of whole runs, where nobody has looked into them."""
        mean = statistics.fmean(seconds)
        spread = statistics.stdev(seconds) / mean if len(seconds) > 1 and mean else 0.0
        return cls(1, {1: Run(mean, 0.0)}, spread=spread)

    def to_dict(self) -> dict[str, Any]:
        return {"lockstep_capacity": VERSION, **dataclasses.asdict(self)}

    def write(self, path: Path) -> None:
        write_text(path, json.dumps(self.to_dict(), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """A measurement as it was written, or edited."""
        if not path.is_file():
            raise NotFoundError(f"There is no measurement {path}: `lockstep capacity measure -o {path}` makes one.")
        found = json_object(path.read_text(encoding="utf-8"), str(path))
        if found.pop("lockstep_capacity", None) != VERSION:
            raise FileFormatError(f"{path} is no measurement of `lockstep capacity measure`, or of another version.")
        try:
            found["runs"] = {int(size): Run(**run) for size, run in found["runs"].items()}
            found["crowding"] = {int(count): float(slower) for count, slower in found.get("crowding", {}).items()}
            return cls(**found)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise FileFormatError(f"{path} is damaged: {problem}.") from None
