"""A service played through, arrival by arrival: what formulas do not know of batches, percentiles and bursts."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import InputError

WARM_UP = 0.1  # of the arrivals, which find a service that is emptier than it will be


@dataclass(frozen=True)
class Played:
    """What came of it: the seconds that each arrival took from its coming to its end, sorted."""

    times: Sequence[float]
    runs: int
    busy: float  # share of their time that workers worked

    @property
    def mean(self) -> float:
        return math.fsum(self.times) / len(self.times)

    def quantile(self, share: float) -> float:
        return self.times[min(int(share * len(self.times)), len(self.times) - 1)]

    def within(self, seconds: float) -> float:
        """The share that took no longer."""
        import bisect

        return bisect.bisect_right(self.times, seconds) / len(self.times)


def poisson(rate: float, count: int, chance: random.Random) -> list[float]:
    """Moments of arrivals that know nothing of each other."""
    if rate <= 0:
        raise InputError(f"Arrivals come at a rate above 0, got {rate}.")
    moment, found = 0.0, []
    for _ in range(count):
        moment += chance.expovariate(rate)
        found.append(moment)
    return found


def play(
    arrivals: Sequence[float],
    workers: int,
    seconds: Callable[[int], float],
    *,
    most: int = 1,
    gather: float = 0.0,
    spread: float = 0.0,
    chance: random.Random | None = None,
) -> Played:
    """Arrivals in their order; who is free first takes up to `most` that wait, and one that was idle waits `gather`.

    `seconds` of a run by how many are in it, drawn from a gamma distribution with that `spread`.
    """
    draw, free = chance or random.Random(0), [0.0] * workers
    times: list[float] = []
    runs, busy, at, last = 0, 0.0, 0, 0.0
    while at < len(arrivals):
        idle_since = heapq.heappop(free)
        begin = idle_since if arrivals[at] <= idle_since else arrivals[at] + (gather if most > 1 else 0.0)
        end_of_batch = at + 1
        while end_of_batch < min(at + most, len(arrivals)) and arrivals[end_of_batch] <= begin:
            end_of_batch += 1
        takes = seconds(end_of_batch - at)
        if spread:
            shape = 1 / spread**2
            takes = draw.gammavariate(shape, takes / shape)
        end = begin + takes
        times += [end - moment for moment in arrivals[at:end_of_batch]]
        heapq.heappush(free, end)
        runs, busy, at, last = runs + 1, busy + takes, end_of_batch, max(last, end)
    kept = times[int(WARM_UP * len(times)) :]
    return Played(sorted(kept), runs, busy / (workers * last) if last else 0.0)
