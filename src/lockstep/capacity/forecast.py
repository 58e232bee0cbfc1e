"""A service foretold: for each number of workers its load, waiting and cost, and the smallest that keeps a promise."""

from __future__ import annotations

import dataclasses
import math
import random
from dataclasses import dataclass, field

from ..errors import InputError
from .events import Played, play, poisson
from .measured import Link, Measured, Split
from .queueing import Line

ARRIVALS = 40_000  # that are played through for one number
FULL = 0.98  # a service that is busier than this is full: its waits say more of chance than of it


@dataclass(frozen=True)
class Service:
    """What is asked of workers, and how they are set up."""

    rate: float  # pictures a second, where it is busiest
    promise: float | None = None  # seconds within which a picture is there …
    share: float = 0.99  # … for this share of them
    batch: int = 1
    gather: float = 0.03
    price: float = 0.0  # of a worker's hour
    a_machine: int = 1  # workers on one machine
    deaths: float = 0.0  # of a worker, an hour
    link: Link = field(default_factory=Link)
    split: Split = field(default_factory=Split)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise InputError(f"A promise is kept for a share between 0 and 1, got {self.share}.")
        require_number("Pictures a second", self.rate, above=True)
        require_number("Seconds of a promise", 1.0 if self.promise is None else self.promise, above=True)
        for what, value in (
            ("Price of an hour", self.price),
            ("Deaths an hour", self.deaths),
            ("Latency", self.link.latency),
        ):
            require_number(what, value)
        require_number("Bytes that ranks send", self.split.bytes)
        require_number("Messages that ranks send", self.split.messages)
        if not self.link.bandwidth > 0:
            raise InputError(f"A bandwidth is above 0 bytes a second, got {self.link.bandwidth}.")


def require_number(what: str, value: float, *, above: bool = False) -> None:
    """Refuse what cannot be computed with: NaN, infinity, numbers below 0 (or at it)."""
    if not math.isfinite(value) or value < 0 or (above and value == 0):
        raise InputError(f"{what}: wanted a number {'above 0' if above else 'from 0 on'}, got {value}.")


@dataclass(frozen=True)
class Forecast:
    """One number of workers."""

    workers: int
    load: float
    most: float  # pictures a second, at the most
    mean: float
    by_formula: float  # the mean, as the formula has it; none where batches change their size
    median: float
    p99: float
    kept: float  # the share within the promise
    cost: float  # of 1000 pictures

    def to_dict(self) -> dict[str, float]:
        return dataclasses.asdict(self)


class Planner:
    """Forecasts of one service on what was measured."""

    def __init__(self, measured: Measured, service: Service, seed: int = 0) -> None:
        self.measured, self.service, self.seed = measured, service, seed
        if service.deaths and not measured.load:
            raise InputError(
                "Each death costs a loading, and this measurement has none (a batch's ledger has not). Take one of "
                "`lockstep capacity measure`."
            )

    def seconds(self, pictures: int, workers: int) -> float:
        """A run of so many pictures at once, with as many neighbours as a machine of this service has."""
        service = self.service
        neighbours = min(workers, service.a_machine)
        return self.measured.seconds(pictures, neighbours, service.split, service.link)

    def up(self, workers: int) -> float:
        """The share of its time that a worker is there: each death costs a loading, and half a run."""
        lost = self.measured.load + self.seconds(1, workers) / 2
        return 1 / (1 + self.service.deaths * lost / 3600)

    def most(self, workers: int) -> float:
        """Pictures a second of workers that are never idle: what a batch of rows gets."""
        best = max(size / self.seconds(size, workers) for size in self._sizes())
        return workers * self.up(workers) * best

    def _sizes(self) -> range:
        return range(1, self.service.batch + 1)

    def forecast(self, workers: int) -> Forecast:
        """What this many workers make of it; times are infinite where they cannot keep up."""
        service, most = self.service, self.most(workers)
        load = service.rate / most
        line = Line(service.rate, self.seconds(1, workers) / self.up(workers), workers, self.measured.spread)
        formula = line.time if service.batch == 1 else math.nan
        cost = workers * service.split.ranks * service.price / 3600 / min(service.rate, most) * 1000
        if load >= FULL:
            return Forecast(workers, load, most, math.inf, math.inf, math.inf, math.inf, 0.0, cost)
        played = self.play(workers)
        kept = played.within(service.promise) if service.promise is not None else 1.0
        return Forecast(
            workers, load, most, played.mean, formula, played.quantile(0.5), played.quantile(0.99), kept, cost
        )

    def play(self, workers: int) -> Played:
        """The service, arrival by arrival."""
        chance, service = random.Random(self.seed), self.service
        slower = 1 / self.up(workers)
        times = {size: self.seconds(size, workers) * slower for size in self._sizes()}
        return play(
            poisson(service.rate, ARRIVALS, chance), workers, times.__getitem__, most=service.batch,
            gather=service.gather, spread=self.measured.spread, chance=chance,
        )  # fmt: skip

    def fewest(self, limit: int = 100_000) -> Forecast:
        """The smallest number of workers that keeps the promise, or that keeps up where there is none."""
        service = self.service
        if service.promise is not None and self.seconds(1, 1) > service.promise:
            raise InputError(
                f"One picture alone takes {self.seconds(1, 1):.2f} s here, longer than the promised "
                f"{service.promise:g} s: no number of workers helps. Promise more, or take fewer steps."
            )
        low = next((n for n in range(1, limit) if service.rate / self.most(n) < FULL), limit)
        step, high = 1, low
        while not self._keeps(high):  # twice as far each time, then back between the last two
            low, high, step = high + 1, high + step, step * 2
            if high > limit:
                raise InputError(f"Not even {limit} workers keep this promise.")
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._keeps(middle) else (middle + 1, high)
        return self.forecast(high)

    def _keeps(self, workers: int) -> bool:
        found = self.forecast(workers)
        return math.isfinite(found.mean) and (self.service.promise is None or found.kept >= self.service.share)


def batch_seconds(measured: Measured, rows: int, workers: int, a_machine: int = 1) -> float:
    """How long `lockstep batch` takes for so many rows: loading, then every worker at work until the last row."""
    each = measured.seconds(1, min(workers, a_machine))
    return measured.load + math.ceil(rows / workers) * each
