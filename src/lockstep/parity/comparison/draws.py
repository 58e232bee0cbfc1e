"""Random numbers that were drawn in another order are the same draws: they are known by their values."""

from __future__ import annotations

from collections import defaultdict

from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error

SAME = 1e-6  # relative: two draws of one stream are as far apart as any two


def same_draws(a: Trace, b: Trace) -> list[tuple[Entry, Entry]]:
    """Every draw of A with the one of B that holds its numbers; then those that are left, in order, by their shape."""
    mine, theirs = ([e for e in trace.entries if e.key.slot == "rng"] for trace in (a, b))
    found: list[tuple[Entry, Entry]] = []
    free = {entry.seq: entry for entry in theirs}
    left: list[Entry] = []
    for entry in mine:
        alike = [other for other in free.values() if other.shape == entry.shape and _same(a, b, entry, other)]
        partner = min(alike, key=lambda other: (other.key != entry.key, other.seq), default=None)
        if partner is None:
            left.append(entry)
        else:
            found.append((entry, free.pop(partner.seq)))
    if not found:
        return []  # nothing is known by its values: draws are told apart by their number
    by_shape: dict[tuple[int, ...], list[Entry]] = defaultdict(list)
    for other in free.values():
        by_shape[other.shape].append(other)
    for entry in left:
        if by_shape[entry.shape]:
            found.append((entry, by_shape[entry.shape].pop(0)))
    return found


def _same(a: Trace, b: Trace, left: Entry, right: Entry) -> bool:
    return sketch_error(a.sketch(left), b.sketch(right), a.stats(left).l2) <= SAME
