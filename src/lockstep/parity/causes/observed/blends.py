"""A border that is blended into what lies before it, as tiles of a picture are: which weights and which rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch

from .graph import FrameValue
from .matching import Matching, Parting

JOINS = ("setitem", "cat", "where")
MOST_ROWS = 128  # of a border
LEAST = 3  # axes of a value that has borders
Rows = list[tuple[int, float, float]]  # the row of what lies before, counted from its end; its weight, and the own one


def blend_words(matching: Matching, ours: FrameValue, theirs: FrameValue) -> str:
    """How the candidate blends instead of how the reference does; empty where that is not all that differs."""
    if not any(v.step is not None and v.step.name in JOINS for v in (ours, theirs)):
        return ""
    if ours.content.ndim < LEAST or matching.is_leaf(ours) or matching.is_leaf(theirs):
        return ""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        made = matching.as_there(Parting(ours, theirs), theirs.content)
        if made.shape != ours.content.shape:
            return ""
        results = [value.double() for value in (ours.content, made)]
        for before, own in product(_shared(matching, ours, theirs), repeat=2):
            if before is own or own.shape != ours.content.shape or before.ndim != own.ndim:
                continue
            for axis in range(1, own.ndim):
                right, wrong = (_rows(x, before.double(), own.double(), axis, matching.tolerance) for x in results)
                if right and wrong and right != wrong:
                    return _told(wrong, right, axis)
    return ""


def _shared(matching: Matching, ours: FrameValue, theirs: FrameValue) -> list[torch.Tensor]:
    """Values of either expression that both sides have, with the reference's axes."""
    found: dict[int, torch.Tensor] = {}
    for side in (ours, theirs):
        for step in matching.until_shared(side, most=None):
            for value in step.operands():
                partner = matching.partner(value) if matching.is_leaf(value) else None
                if partner is not None:
                    mine = value if side is ours else partner
                    found[id(mine)] = mine.content
    return [content for content in found.values() if content.is_floating_point()]


def _rows(made: torch.Tensor, before: torch.Tensor, own: torch.Tensor, axis: int, tolerance: float) -> Rows:
    """For each row of the border what it is made of; none where it is anything else."""
    sizes = [[extent for i, extent in enumerate(x.shape) if i != axis] for x in (before, own)]
    if sizes[0] != sizes[1]:
        return []
    other = (made - own).movedim(axis, 0).flatten(1).norm(dim=1) > tolerance * made.norm()
    count = int(other.nonzero().max()) + 1 if other.any() else 0
    if not 0 < count <= min(MOST_ROWS, before.shape[axis]) or count == made.shape[axis]:
        return []
    found: Rows = []
    for row in range(count):
        fitting = _row(made.select(axis, row), before, own.select(axis, row), axis, count - row, tolerance)
        if fitting is None:
            return []
        found.append(fitting)
    return found


def _row(
    made: torch.Tensor, before: torch.Tensor, own: torch.Tensor, axis: int, expected: int, tolerance: float
) -> tuple[int, float, float] | None:
    for back in _likely(expected, before.shape[axis]):
        pair = torch.stack([before.select(axis, before.shape[axis] - back).reshape(-1), own.reshape(-1)], 1)
        weights = torch.linalg.lstsq(pair, made.reshape(-1, 1)).solution
        if (pair @ weights - made.reshape(-1, 1)).norm() <= 10 * tolerance * made.norm():
            return back, float(weights[0]), float(weights[1])
    return None


def _likely(expected: int, most: int) -> Iterator[int]:
    yield expected
    yield from (back for back in range(1, most + 1) if back != expected)


def _told(wrong: Rows, right: Rows, axis: int) -> str:
    rows = [", ".join(str(-row[0]) for row in side) for side in (wrong, right)]
    what = f"weights {_weights(wrong)} instead of {_weights(right)}"
    if rows[0] != rows[1]:
        what = f"rows {rows[0]} of it instead of {rows[1]}" + (f", {what}" if _differ(wrong, right) else "")
    return f"the border along axis {axis} is blended into what lies before with {what}"


def _differ(wrong: Rows, right: Rows) -> bool:
    return _weights(wrong) != _weights(right)


def _weights(rows: Rows) -> str:
    """Those of what lies before, and the own ones where these are not the rest of one."""
    told = ", ".join(f"{abs(a):.3g}" if abs(a) < 1e-6 else f"{a:.3g}" for _, a, _ in rows)
    own = [b for _, a, b in rows if abs(a + b - 1) > 1e-3]
    return told if not own else f"{told} (and {', '.join(f'{b:.3g}' for _, _, b in rows)} of its own)"
