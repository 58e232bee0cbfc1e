"""Values that both sides have though nothing says that they belong together: a port that is one function has no module
whose result could be named, but the operation that makes it is recorded."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error

SAME = 2e-6  # relative: made by another kernel at most
LEAST = 16  # numbers from which two values are alike by no chance
_DIGITS = 3  # of the length by which candidates are looked up

Length = tuple[tuple[int, ...], int, int]


def same_values(a: Trace, b: Trace, left: Iterable[Entry], right: Iterable[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """What modules of the reference are given and give, each with an operation of the candidate that makes the same
    numbers; several values of the reference may be one tensor, and so one operation's."""
    known: dict[Length, list[Entry]] = defaultdict(list)
    for entry in right:
        if entry.key.is_operation and _tells(entry):
            for length in _lengths(entry, b.stats(entry).l2):
                known[length].append(entry)
    for entry in left:
        if entry.key.is_operation or entry.key.path.startswith("@") or not _tells(entry):
            continue
        norm = a.stats(entry).l2
        for other in known[_lengths(entry, norm)[0]]:
            if sketch_error(a.sketch(entry), b.sketch(other), norm) <= SAME:
                yield entry, other
                break


def _tells(entry: Entry) -> bool:
    return entry.is_float and math.prod(entry.shape) >= LEAST


def _lengths(entry: Entry, norm: float) -> list[Length]:
    """The extents and the length in steps of a thousandth, and the neighbouring steps."""
    if not norm > 0 or not math.isfinite(norm):
        return [(entry.shape, 0, 0)]
    step = math.log10(norm) * 10**_DIGITS
    return [(entry.shape, 1, math.floor(step) + near) for near in (0, -1, 1)]
