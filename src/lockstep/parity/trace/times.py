"""The times that models are given in a loop."""

from __future__ import annotations

from collections import defaultdict

from .names import TIME_NAMES
from .reader import Trace


def largest_times(trace: Trace) -> dict[tuple[str, str], float]:
    """By model and slot the largest time of the loop: all of them are rounded as that is, since a schedule is made of
    sums and differences."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for entry in trace.entries:
        key = entry.key
        if key.is_input and key.slot.partition(".")[2] in TIME_NAMES and entry.is_float:
            stats = trace.stats(entry)
            size = max(abs(stats.min), abs(stats.max)) if stats.n else 0.0
            found[key.path, key.slot] = max(found[key.path, key.slot], size)
    return dict(found)
