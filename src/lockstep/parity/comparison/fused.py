"""How the results of several layers lie inside the result of the one layer that they were fused into."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from ..trace.container import Array


@dataclass(frozen=True)
class Fusion:
    """The parts in some order, once as a whole or over and over in groups, such as one per head."""

    order: tuple[int, ...]
    groups: int = 1

    def fits(self, sizes: Sequence[int]) -> bool:
        return len(sizes) == len(self.order) and all(size % self.groups == 0 for size in sizes)

    def places(self, sizes: Sequence[int]) -> list[Array]:
        """Where the numbers of each part stand in the whole."""
        found: list[list[int]] = [[] for _ in sizes]
        at = 0
        for _ in range(self.groups):
            for part in self.order:
                count = sizes[part] // self.groups
                found[part] += range(at, at + count)
                at += count
        return [np.asarray(one, dtype=np.int64) for one in found]

    def part(self, whole: Array, sizes: Sequence[int], index: int, axis: int) -> Array:
        return np.take(whole, self.places(sizes)[index], axis=axis)

    def join(self, parts: Sequence[Array], axis: int) -> Array:
        places = np.concatenate(self.places([part.shape[axis] for part in parts]))
        return np.take(np.concatenate(parts, axis=axis), np.argsort(places), axis=axis)

    def named(self, sizes: Sequence[int], index: int) -> str:
        """One part, as it is told."""
        places = self.places(sizes)[index]
        span = f"{places[0]}:{places[-1] + 1}"
        return span if self.groups == 1 else f"{span} in {self.groups} groups"


class Fusions:
    """The fusions that were recognised by their values, one for each fused layer."""

    def __init__(self, recognised: float, certain: float) -> None:
        self._recognised, self._certain = recognised, certain
        self._of: dict[str, Fusion] = {}

    def find(self, whole: str, sizes: Sequence[int], error: Callable[[Fusion], float]) -> Fusion:
        """The one that fits the values; where none does, that of the other layers, or else the parts side by side."""
        if whole in self._of:
            return self._of[whole]
        others = [one for one in dict.fromkeys(self._of.values()) if one.fits(sizes)]
        best, least = None, math.inf
        for fusion in dict.fromkeys([*others, *_fusions(sizes)]):
            found = error(fusion)
            if found < least:
                best, least = fusion, found
            if found <= self._certain:
                break
        if best is None or least > self._recognised:
            return others[-1] if others else Fusion(tuple(range(len(sizes))))
        self._of[whole] = best
        return best


def _fusions(sizes: Sequence[int]) -> Iterator[Fusion]:
    """Every way to fuse parts of these sizes: as a whole first, then in groups."""
    common = math.gcd(*sizes)
    for groups in [n for n in range(1, common + 1) if common % n == 0]:
        yield from (Fusion(order, groups) for order in permutations(range(len(sizes))))
