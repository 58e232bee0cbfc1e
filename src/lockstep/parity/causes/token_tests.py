"""Ids of prompts that are not the reference's: padded on the other side, or cut at another length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..trace.container import Array
from .value_tests import ValueFinding


def token_findings(x: Array, y: Array) -> Iterator[ValueFinding]:
    """`x` are the reference's, a row each."""
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y):
        return
    rows = list(zip(x, y, strict=True))
    if x.shape == y.shape:
        for behind, before, words in ((0, 1, "left instead of the right"), (1, 0, "right instead of the left")):
            moved = [_moved(row[behind], row[before]) for row in rows]
            if None not in moved and max(count or 0 for count in moved) > 1:  # one alone may be anything
                proof = f"each row holds the same ids, moved by {', '.join(map(str, moved[:8]))}"
                yield ValueFinding("padding_side", f"padded on the {words}", 0.0, 0, proof)
                return
    else:
        least = min(x.shape[1], y.shape[1]) - 1  # the last of a row that is cut may be the mark of its end
        if least > 0 and all(np.array_equal(a[:least], b[:least]) for a, b in rows):
            words = f"{y.shape[1]} ids a row instead of {x.shape[1]}: prompts are cut or padded at another length"
            proof = f"the first {least} of every row are the same"
            yield ValueFinding("max_length", words, 0.0, 0, proof, f"{x.shape[1]} ids a row in the port")


def _moved(behind: Array, before: Array) -> int | None:
    """How many ids that only fill a row stand before it in the one, and behind it in the other; None if it is no such
    row."""
    for count in range(len(behind)):
        if np.array_equal(np.roll(behind, count), before):
            return count if len(np.unique(before[:count])) <= 1 else None
    return None
