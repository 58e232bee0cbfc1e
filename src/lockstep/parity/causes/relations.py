"""What one table of numbers is to another: its transpose, its rows in another order, a multiple, a rounding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import torch

MOST = 1 << 20  # numbers that are looked at
NEAR = 1e-5
LEAST_WHOLE = 2.0  # a smaller number has a whole one beside it by chance
FEW = 6  # indices that are told one by one


def relation(ours: torch.Tensor, theirs: torch.Tensor) -> str:
    """In words what `theirs` is, beside the reference's; empty where nothing simple fits."""
    if ours.numel() != theirs.numel() or not 1 < ours.numel() <= MOST or ours.is_complex() or theirs.is_complex():
        return ""
    with torch._C.DisableTorchFunction():
        a, b = ours.detach().double(), theirs.detach().double()
        if a.shape != b.shape:  # a table with or without an axis for the rows of a batch
            a, b = a.squeeze(), b.squeeze()
        if a.shape != b.shape:
            return ""
        if same(a, b):
            return ""
        return next((words for words, moved in _moved(a) if same(moved, b)), "") or _of_rows(a, b) or _of_numbers(a, b)


def as_whole_number(ours: torch.Tensor, theirs: torch.Tensor) -> str:
    """In words that one number was made a whole one; empty where it is another, or too small to say how."""
    if ours.numel() != 1 or theirs.numel() != 1 or ours.is_complex() or theirs.is_complex():
        return ""
    right, wrong = float(ours), float(theirs)
    if not math.isfinite(right) or abs(right) < LEAST_WHOLE or not wrong.is_integer() or right.is_integer():
        return ""
    ways = (("rounded", round(right)), ("cut", math.trunc(right)), ("rounded up", math.ceil(right)))
    way = next((words for words, value in ways if value == wrong), "")
    return f"{way} to a whole number: {wrong:.0f} for {right:.6g}" if way else ""


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal up to rounding; what is infinite has to be so on both sides."""
    finite = a.isfinite()
    if a.shape != b.shape or not torch.equal(finite, b.isfinite()) or not torch.equal(a[~finite], b[~finite]):
        return False
    return float((a - b)[finite].norm()) <= NEAR * float(a[finite].norm())


def _moved(a: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    axes = [axis for axis in range(a.ndim) if a.shape[axis] > 1]
    yield "negated", -a
    for order in permutations(range(a.ndim)) if a.ndim <= 4 else ():
        moved = a.permute(order)
        if list(order) != sorted(order) and moved.shape == a.shape:
            swapped = [i for i, axis in enumerate(order) if i != axis]
            yield f"with the axes {', '.join(map(str, swapped))} exchanged (transposed)", moved
    for first in axes[:-1]:  # two neighbouring axes read in the other order, as rows and columns of one list of tokens
        rows, columns = a.shape[first], a.shape[first + 1]
        read = a.flatten(first, first + 1).unflatten(first, (columns, rows)).transpose(first, first + 1)
        yield f"read as {columns} x {rows} in the place of {rows} x {columns}: height and width exchanged", read
        turned = a.transpose(first, first + 1).flatten(first, first + 1).unflatten(first, (rows, columns))
        yield f"read as {columns} x {rows} in the place of {rows} x {columns}: height and width exchanged", turned
    for axis in axes:
        size = a.shape[axis]
        yield f"mirrored along axis {axis}", a.flip(axis)
        for parts in {2, 3, 4, size // 2, size // 4} - {0, 1}:
            if size % parts == 0 and size > parts:
                dealt = a.unflatten(axis, (-1, parts)).transpose(axis, axis + 1).flatten(axis, axis + 1)
                grid = f" (rows and columns of a grid of {parts} x {parts} exchanged)" if parts * parts == size else ""
                yield f"dealt into {parts} along axis {axis}{grid}", dealt
        for step in {1, size - 1, size // 2, size // 4} - {0}:
            halves = " (its two halves exchanged)" if 2 * step == size > 2 else ""
            yield f"moved by {step} along axis {axis}{halves}", a.roll(step, axis)


def _of_rows(a: torch.Tensor, b: torch.Tensor) -> str:
    """Some rows are others, or all are there in another order."""
    for axis in range(a.ndim):
        if a.shape[axis] < 2:
            continue
        x, y = (v.movedim(axis, 0).reshape(v.shape[axis], -1) for v in (a, b))
        wrong = [i for i in range(len(x)) if not same(x[i], y[i])]
        order = _order(x, y)
        if order is not None:
            return f"in another order along axis {axis}: {_changed(order)}"
        if 2 * len(wrong) <= len(x) and a.ndim > 1:
            zero = all(float(y[i].abs().max()) == 0 for i in wrong)
            shown = ", ".join(map(str, wrong[:FEW])) + ("…" if len(wrong) > FEW else "")
            which = f"{len(wrong)} of {len(x)} along axis {axis}, at {shown}"
            return f"{'zero' if zero else 'different'} in {which}, and equal in all others"
    return ""


def _order(x: torch.Tensor, y: torch.Tensor) -> list[int] | None:
    """Where every row of y stands in x, if all of them do."""
    if len(x) > 4096:
        return None
    order: list[int] = []
    for row in y:
        near = ((x - row).norm(dim=1) <= NEAR * row.norm()).nonzero().flatten().tolist()
        free = [i for i in near if i not in order[-FEW:]] or near
        if not free:
            return None
        order.append(free[0])
    return order if sorted(order) == list(range(len(x))) else None


def _changed(order: list[int]) -> str:
    moved = [(i, source) for i, source in enumerate(order) if i != source]
    shown = ", ".join(f"{i} holds {source}" for i, source in moved[:FEW])
    return shown + (f" … ({len(moved)} of {len(order)})" if len(moved) > FEW else "")


def _of_numbers(a: torch.Tensor, b: torch.Tensor) -> str:
    for words, rounded in (
        ("rounded to bfloat16", a.float().bfloat16().double()), ("rounded to float16", a.half().double()),
        ("cut to integers", a.trunc()), ("rounded to integers", a.round()),
    ):  # fmt: skip
        if torch.equal(rounded, b) or (words.endswith("integers") and same(rounded, b)):
            return words
    finite = a.isfinite() & b.isfinite()
    x, y = a[finite], b[finite]
    if x.numel() < 4 or not bool(finite.all()) or float(x.norm()) == 0:
        return ""
    factor, offset = float(x @ y) / float(x @ x), float((y - x).mean())
    if same(x * factor, y) and not math.isclose(factor, 1, rel_tol=NEAR):
        return f"multiplied by {factor:.6g}"
    return f"with {offset:.6g} added" if same(x + offset, y) else ""
