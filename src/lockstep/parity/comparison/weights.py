"""Which parameter is which: matched by values, also where they were transposed, permuted, fused or split."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ..trace.reader import Entry, Trace
from ..trace.sketch import Stats

ROUNDED = 2.0**-8  # of a parameter's norm
_HALF = {"F16": 2.0**-11, "BF16": 2.0**-8, "F8_E4M3": 2.0**-4, "F8_E5M2": 2.0**-3}


@dataclass(frozen=True)
class WeightMatch:
    """One parameter (or several, fused) of A beside its partner of B."""

    # same, permuted, transposed, fused (several of A in one of B), split (one of A in several of B), rounded, different
    kind: str
    a: tuple[str, ...]
    b: tuple[str, ...]

    @property
    def owners(self) -> list[tuple[str, str]]:
        return [(owner(x), owner(y)) for x in self.a for y in self.b]


def owner(path: str) -> str:
    """The module that a parameter belongs to."""
    return path.rpartition(".")[0]


def match_weights(a: Trace, b: Trace) -> list[WeightMatch]:
    """Same path first, then equal values anywhere, then sums of siblings; the rest at equal paths differs."""
    left_a, left_b = _measured(a), _measured(b)
    found: list[WeightMatch] = []

    def take(kind: str, paths_a: tuple[str, ...], paths_b: tuple[str, ...]) -> None:
        found.append(WeightMatch(kind, paths_a, paths_b))
        for path in paths_a:
            left_a.pop(path)
        for path in paths_b:
            left_b.pop(path)

    for path in [p for p in left_a if p in left_b]:
        if same_values(left_a[path], left_b[path]):
            take(_relation(a, left_a[path], b, left_b[path]), (path,), (path,))
    for path_a, path_b in _equal_elsewhere(left_a, left_b):
        take(_relation(a, left_a[path_a], b, left_b[path_b]), (path_a,), (path_b,))
    for whole, parts in _sums(left_a, left_b):
        take("split", (whole,), parts)
    for whole, parts in _sums(left_b, left_a):
        take("fused", parts, (whole,))
    for path in [p for p in left_a if p in left_b]:
        take("rounded" if _is_near(a, left_a[path], b, left_b[path]) else "different", (path,), (path,))
    return found


def _measured(trace: Trace) -> dict[str, Entry]:
    """Parameters with their statistics: written beside them, or taken from the data of a file that has no more."""
    return {
        path: entry if entry.stats is not None else replace(entry, stats=trace.stats(entry))
        for path, entry in trace.params.items()
    }


def _is_near(trace_a: Trace, a: Entry, trace_b: Trace, b: Entry) -> bool:
    """Other numbers, but no further away than a rounding to 16 bits takes them."""
    if a.shape != b.shape or a.stats is None or not a.stats.l2:
        return False
    apart = float(np.linalg.norm(trace_a.sketch(a) - trace_b.sketch(b)))
    return apart <= ROUNDED * a.stats.l2


def tolerance(a: Entry, b: Entry) -> float:
    """Rounding to storage that the two may differ by."""
    worst = max(_HALF.get(a.dtype, 0.0), _HALF.get(b.dtype, 0.0))
    return 1e-6 if a.dtype == b.dtype else max(worst, 1e-6)  # statistics may have been summed in float32


def same_values(a: Entry, b: Entry) -> bool:
    """Equal count, norm, sum and extremes: invariant under any reordering of the elements."""
    if a.stats is None or b.stats is None:
        return False
    return _same_stats(a.stats, b.stats, tolerance(a, b))


def _same_stats(a: Stats, b: Stats, tol: float) -> bool:
    if a.n != b.n:
        return False
    scale = max(abs(a.min), abs(a.max), 1e-300)
    return (
        abs(a.l2 - b.l2) <= tol * max(a.l2, 1e-300)
        and abs(a.mean - b.mean) * a.n <= 4 * tol * a.l2 * a.n**0.5 + 1e-300
        and abs(a.min - b.min) <= tol * scale
        and abs(a.max - b.max) <= tol * scale
    )


def _is_constant(entry: Entry) -> bool:
    return entry.stats is None or entry.stats.min == entry.stats.max


def _relation(trace_a: Trace, a: Entry, trace_b: Trace, b: Entry) -> str:
    sketch_a, sketch_b = trace_a.sketch(a), trace_b.sketch(b)
    norm = a.stats.l2 if a.stats is not None else 0.0
    in_order = float(np.linalg.norm(sketch_a - sketch_b)) <= 4 * tolerance(a, b) * max(norm, 1e-300)
    if a.shape == b.shape:
        return "same" if in_order else "permuted"
    if in_order:
        return "same"  # another view of the same numbers, such as a 1x1 convolution and a linear layer
    return "transposed" if sorted(a.shape) == sorted(b.shape) else "permuted"


def _equal_elsewhere(left_a: dict[str, Entry], left_b: dict[str, Entry]) -> list[tuple[str, str]]:
    """Pairs with equal values under other names; constants prove nothing and stay out."""
    by_size: dict[int, list[str]] = defaultdict(list)
    for path, entry in left_b.items():
        if not _is_constant(entry):
            by_size[int(np.prod(entry.shape))].append(path)
    pairs = []
    for path, entry in left_a.items():
        if _is_constant(entry):
            continue
        candidates = [p for p in by_size[int(np.prod(entry.shape))] if same_values(entry, left_b[p])]
        if candidates:
            best = max(candidates, key=lambda p: _common_suffix(path, p))
            by_size[int(np.prod(entry.shape))].remove(best)
            pairs.append((path, best))
    return pairs


def _common_suffix(a: str, b: str) -> int:
    count = 0
    for x, y in zip(reversed(a.split(".")), reversed(b.split(".")), strict=False):
        if x != y:
            break
        count += 1
    return count


def _sums(wholes: dict[str, Entry], parts: dict[str, Entry]) -> list[tuple[str, tuple[str, ...]]]:
    """Parameters whose values are those of two to four siblings of the other side taken together."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, entry in parts.items():
        if not _is_constant(entry):
            families[owner(owner(path)), path.rpartition(".")[2]].append(path)
    found: list[tuple[str, tuple[str, ...]]] = []
    used: set[str] = set()
    for whole, entry in wholes.items():
        if entry.stats is None or _is_constant(entry):
            continue
        for members in families.values():
            combination = _summing(entry.stats, members, parts, used)
            if combination:
                used.update(combination)
                found.append((whole, combination))
                break
    return found


def _summing(whole: Stats, members: list[str], parts: dict[str, Entry], used: set[str]) -> tuple[str, ...]:
    free = [m for m in members if m not in used and parts[m].stats is not None and parts[m].stats.n < whole.n]  # type: ignore[union-attr]
    for count in (2, 3, 4):
        for combination in combinations(free, count):
            stats = [parts[m].stats for m in combination]
            if sum(s.n for s in stats if s) == whole.n and _same_stats(whole, _joined([s for s in stats if s]), 1e-6):
                return combination
    return ()


def _joined(stats: list[Stats]) -> Stats:
    n = sum(s.n for s in stats)
    return Stats(
        n,
        sum(s.l2**2 for s in stats) ** 0.5,
        sum(s.mean * s.n for s in stats) / n,
        min(s.min for s in stats),
        max(s.max for s in stats),
    )
