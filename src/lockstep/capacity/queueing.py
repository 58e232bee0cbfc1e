"""Formulas: how long work waits that comes at random and is done by several workers, whoever is free first.

Erlang's formula for exponential services, corrected for others as Allen and Cunneen do (M/G/c): the wait is as many
times longer or shorter as the mean of the squared variations of arrivals and services says. A diffusion service is
nearly constant, so its wait is about half of the exponential one's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True)
class Line:
    """So many arrivals a second, so many workers, each with so many seconds a piece."""

    rate: float
    seconds: float
    workers: int
    spread: float = 0.0  # of the services: standard deviation over mean; 1 is exponential, 0 constant
    arrivals: float = 1.0  # of the times between arrivals, likewise; 1 is Poisson

    def __post_init__(self) -> None:
        if self.rate < 0 or self.seconds <= 0 or self.workers < 1:
            raise InputError(
                f"A line wants arrivals, seconds a piece and workers; got {self.rate}, {self.seconds}, {self.workers}."
            )

    @property
    def load(self) -> float:
        """The share of their time that workers work; from 1 on the line grows for ever."""
        return self.rate * self.seconds / self.workers

    @property
    def delayed(self) -> float:
        """The share of arrivals that find all workers at work (Erlang C)."""
        if self.load >= 1:
            return 1.0
        offered, blocked = self.rate * self.seconds, 1.0
        for workers in range(1, self.workers + 1):  # Erlang B, one worker after the other
            blocked = offered * blocked / (workers + offered * blocked)
        return blocked / (1 - self.load * (1 - blocked))

    @property
    def wait(self) -> float:
        """Mean seconds until a worker begins."""
        if self.load >= 1:
            return math.inf
        exponential = self.delayed * self.seconds / (self.workers * (1 - self.load))
        return exponential * (self.arrivals**2 + self.spread**2) / 2

    @property
    def time(self) -> float:
        """Mean seconds from the arrival to the end."""
        return self.wait + self.seconds

    def wait_quantile(self, share: float) -> float:
        """Seconds within which a worker begins for this share of arrivals: those who wait, wait exponentially."""
        if self.load >= 1:
            return math.inf
        if self.delayed <= 1 - share:
            return 0.0
        return math.log(self.delayed / (1 - share)) * self.wait / self.delayed
