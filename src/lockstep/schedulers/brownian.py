"""Brownian motion between two times: the same path for the same seed, whatever is asked of it and in which order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

DIGITS = 6  # times are told apart to this many decimals
POOL_SIZE = 24  # of the seed sequence; with DIGITS and the numbering of the halves it makes the paths those of torchsde


class Interval(NamedTuple):
    """One of the halves of halves: those of the k-th at one depth are the 2k-th and 2k+1-th at the next."""

    start: float
    end: float
    number: int = 0
    depth: int = 0

    def halves(self) -> tuple[Interval, Interval]:
        middle, number, depth = round(0.5 * (self.end + self.start), DIGITS), 2 * self.number, self.depth + 1
        return Interval(self.start, middle, number, depth), Interval(middle, self.end, number + 1, depth)


@dataclass
class BrownianPath:
    """Lévy's construction: the increment over an interval, halved again and again, each half with noise of its own."""

    start: float
    end: float
    shape: torch.Size
    dtype: torch.dtype
    device: torch.device
    seed: int

    def increment(self, start: float, end: float) -> Tensor:
        """W(end) - W(start)"""
        start, end = (round(min(max(time, self.start), self.end), DIGITS) for time in (start, end))
        if start == end:
            return torch.zeros(self.shape, dtype=self.dtype, device=self.device)
        root = Interval(round(self.start, DIGITS), round(self.end, DIGITS))
        whole = self._draw() * math.sqrt(self.end - self.start)
        first, *rest = self._pieces(root, whole, start, end)
        return sum(rest, first)

    def _pieces(self, interval: Interval, whole: Tensor, start: float, end: float) -> Iterator[Tensor]:
        """The increments over the largest halves of halves that make up what is asked for, in order."""
        if (start, end) == (interval.start, interval.end):
            yield whole
            return
        left, right = interval.halves()
        before, after, per_length = left.end - left.start, right.end - right.start, 1 / (interval.end - interval.start)
        noise = self._draw(interval.number, interval.depth)
        first_half = before * whole * per_length + math.sqrt(before * after * per_length) * noise
        if start < left.end:
            yield from self._pieces(left, first_half, start, min(end, left.end))
        if end > left.end:
            yield from self._pieces(right, whole - first_half, max(start, left.end), end)

    def _draw(self, *key: int) -> Tensor:
        state = np.random.SeedSequence(entropy=self.seed, spawn_key=key, pool_size=POOL_SIZE).generate_state(1)
        generator = torch.Generator(self.device).manual_seed(int(state[0]))
        return torch.randn(self.shape, dtype=self.dtype, device=self.device, generator=generator)


class BrownianNoise:
    """Noise for steps between sigmas: one path for the batch, or one for each of its rows."""

    def __init__(self, sample: Tensor, lowest: float, highest: float, seed: int | list[int]) -> None:
        self.one_per_row = isinstance(seed, list)
        shape = sample.shape[1:] if isinstance(seed, list) else sample.shape
        seeds = seed if isinstance(seed, list) else [seed]
        self.paths = [BrownianPath(lowest, highest, shape, sample.dtype, sample.device, one) for one in seeds]

    def __call__(self, sigma: Tensor, sigma_next: Tensor) -> Tensor:
        """The increment from one sigma down to a lower one, scaled to unit variance."""
        increments = torch.stack([-path.increment(sigma_next.item(), sigma.item()) for path in self.paths])
        return (increments if self.one_per_row else increments[0]) / (sigma_next - sigma).abs().sqrt()
