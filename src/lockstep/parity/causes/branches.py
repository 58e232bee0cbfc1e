"""Values of guidance's two branches that stand in each other's place: exchanged in a batch, or from call to call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..comparison.results import NodeResult
from ..trace.container import Array
from ..trace.reader import Entry, Trace
from ..trace.sketch import relative_l2
from .value_tests import ValueFinding

WORDS = "the branches of the guidance are exchanged: what belongs to the prompt stands where there should be none"


def exchanged_branches(node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry) -> Iterator[ValueFinding]:
    """What a whole model is given is that of the other branch, and the other branch has this one's."""
    if not node.key.is_input or "." in node.key.path or node.key.path.startswith("@"):
        return
    x, y = np.asarray(a.array(left)), np.asarray(b.array(right))
    if x.shape != y.shape or x.ndim < 2:
        return
    half = x.shape[0] // 2
    if x.shape[0] == 2 * half and left.is_float and node.key.step != "-":
        rest = _error(np.roll(x, half, axis=0), y)
        yield ValueFinding("guidance", f"{WORDS} (rows {half} to {2 * half - 1} of the batch come first)", rest, 0)
    for other in a.entries:
        same = (other.key.step, other.key.path, other.key.slot) == (left.key.step, left.key.path, left.key.slot)
        twin = b.get(other.key)
        if not same or other.key.call == left.key.call or other.shape != left.shape or twin is None:
            continue
        if not (other.has_data and twin.has_data):
            continue
        rest = max(_error(np.asarray(a.array(other)), y), _error(x, np.asarray(b.array(twin))))
        words = f"{WORDS} (calls {left.key.call} and {other.key.call} of `{node.key.path}`)"
        yield ValueFinding("guidance", words, rest, 0)


def _error(wanted: Array, found: Array) -> float:
    """Relative; of whole numbers all or nothing."""
    if wanted.shape != found.shape:
        return float("inf")
    if wanted.dtype.kind in "iu":
        return 0.0 if np.array_equal(wanted, found) else float("inf")
    return relative_l2(wanted, found)
