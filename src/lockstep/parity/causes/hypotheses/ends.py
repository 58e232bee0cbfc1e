"""What is cut off or put on at the ends: another part of an axis kept, padding on other sides or of another kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from ..edits import Call, Edit, NotApplicable, Site
from ..examples import Example, edit

Sites = frozenset[Site]
Sides = tuple[int, ...]  # as `pad` takes them: before and after, the last axis first
_CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}


def end_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op == "getitem" and len(example.operands) > 1:
        yield from _other_parts(example, sites)
    elif example.op == "narrow" and len(example.operands) == 4:
        yield from _other_narrow(example, sites)
    elif example.op == "pad" and len(example.operands) > 1:
        yield from _other_sides(example, sites)
    elif example.op in _CONVOLUTIONS:
        yield from _padded_convolution(example, sites)


def _other_parts(example: Example, sites: Sites) -> Iterator[Edit]:
    """A slice of the same length from another place: the first kept instead of the last, one further, one less far."""
    whole, index = example.operands[0], example.operands[1]
    parts = list(index) if isinstance(index, tuple) else [index]
    if not isinstance(whole, tuple) or sum(p is Ellipsis for p in parts) > 1 or any(p is None for p in parts):
        return
    for position, part in enumerate(parts):
        if not isinstance(part, slice) or part.step not in (None, 1) or part == slice(None):
            continue
        axis = _axis(parts, position, len(whole))
        size = whole[axis]
        start, stop, _ = part.indices(size)
        length = stop - start
        for other in dict.fromkeys((0, size - length, start + 1, start - 1)):
            if length > 0 and other != start and 0 <= other <= size - length:
                words = f"[{_slice(other, length, size)}] instead of [{_slice(start, length, size)}] along axis {axis}"
                name = "slice_lanes" if axis == len(whole) - 1 else "slice_ends"
                yield edit(name, words, sites, _taken(position, start, other), rank=3)


def _axis(parts: list[Any], position: int, rank: int) -> int:
    return position if Ellipsis not in parts[:position] else rank - len(parts) + position


def _slice(start: int, length: int, size: int) -> str:
    """As a person writes it: `1:`, `:-1`, `2:5`."""
    if start == 0:
        return f":{length - size}" if 2 * length >= size else f":{length}"
    if start + length == size:
        return f"{start}:" if 2 * length >= size else f"{-length}:"
    return f"{start}:{start + length}"


def _taken(position: int, start: int, other: int) -> Callable[[Call], Any]:
    """At the same place of the code other lengths may come by: the move is what is the same."""

    def apply(call: Call) -> Any:
        whole, index = call.args[0], call.args[1]
        parts = list(index) if isinstance(index, tuple) else [index]
        if position >= len(parts) or not isinstance(parts[position], slice):
            raise NotApplicable("another kind of index")
        size = whole.shape[_axis(parts, position, whole.ndim)]
        begin, end, _ = parts[position].indices(size)
        moved = 0 if other == 0 else size - (end - begin) if begin == 0 and other != 1 else begin + other - start
        if moved < 0 or moved + end - begin > size:
            raise NotApplicable("beyond the end")
        parts[position] = slice(moved, moved + end - begin)
        return whole[tuple(parts)]

    return apply


def _other_narrow(example: Example, sites: Sites) -> Iterator[Edit]:
    whole, axis, start, length = example.operands
    if not isinstance(whole, tuple) or not all(isinstance(v, int) for v in (axis, start, length)):
        return
    size = whole[axis]
    for other in dict.fromkeys((0, size - length, start + 1, start - 1)):
        if other != start and 0 <= other <= size - length:
            words = f"[{_slice(other, length, size)}] instead of [{_slice(start, length, size)}] along axis {axis}"
            yield edit("slice_ends", words, sites, lambda c, o=other: c.operand(2, o), rank=3)


def _other_sides(example: Example, sites: Sites) -> Iterator[Edit]:
    sides = example.operands[1]
    if not isinstance(sides, (list, tuple)) or len(sides) % 2 or not all(isinstance(s, int) for s in sides):
        return
    for words, new in _moved_padding(tuple(sides)):
        change = _repadded(new) if len(new) == len(sides) else None
        if change is not None:
            yield edit("padding_sides", f"padding {words}", sites, change, rank=2)
    for axis in range(len(sides) // 2):
        before, after = sides[2 * axis : 2 * axis + 2]
        if before + after > 0 and example.settings.get("mode", "constant") == "constant":
            words = f"the ends of axis -{axis + 1} repeated instead of zeros"
            yield edit(
                "padding_mode", words, sites, lambda c, a=axis: _repeated(c.args[0], tuple(c.args[1]), a), rank=2
            )


def _moved_padding(sides: Sides) -> Iterator[tuple[str, Sides]]:
    """The same amount along each axis on the other side, on both sides, all of it before, all of it behind; for one
    axis and for all."""
    pairs = [sides[i : i + 2] for i in range(0, len(sides), 2)]
    changes: dict[str, Callable[[int, int], tuple[int, int]]] = {
        "before instead of behind": lambda a, b: (a + b, 0),
        "behind instead of before": lambda a, b: (0, a + b),
        "on both sides": lambda a, b: ((a + b) // 2, (a + b) - (a + b) // 2),
    }
    seen = {sides}
    for which in [*[(i,) for i in range(len(pairs))], tuple(range(len(pairs)))]:
        for words, change in changes.items():
            moved = tuple(v for i, (a, b) in enumerate(pairs) for v in (change(a, b) if i in which else (a, b)))
            if moved not in seen:
                seen.add(moved)
                where = f" along axis -{which[0] + 1}" if len(which) == 1 else ""
                yield f"{words}{where}: {moved} instead of {sides}", moved


def _repadded(sides: Sides) -> Callable[[Call], Any]:
    def apply(call: Call) -> Any:
        if len(call.args[1]) != len(sides):
            raise NotApplicable("another number of sides")
        return call.operand(1, sides)

    return apply


def _repeated(x: torch.Tensor, sides: Sides, axis: int) -> torch.Tensor:
    """Zeros along the other axes; along this one its first and last entry once more."""
    dim = x.ndim - 1 - axis
    before, after = sides[2 * axis : 2 * axis + 2]
    first, last = x.narrow(dim, 0, 1), x.narrow(dim, x.shape[dim] - 1, 1)
    whole = torch.cat([*[first] * before, x, *[last] * after], dim)
    return F.pad(whole, tuple(0 if i // 2 == axis else s for i, s in enumerate(sides)))


def _padded_convolution(example: Example, sites: Sites) -> Iterator[Edit]:
    """A convolution's own padding, the same on both sides, moved to one side of one axis: causal in time."""
    count = _CONVOLUTIONS[example.op]
    given = example.settings.get("padding", 0)
    if isinstance(given, str) or given is None:
        return
    amounts = (given,) * count if isinstance(given, int) else tuple(given)
    if len(amounts) == 1:
        amounts = amounts * count
    sides = tuple(v for amount in reversed(amounts) for v in (amount, amount))
    for words, new in _moved_padding(sides):
        if count != 2:  # two axes have hypotheses of their own
            yield edit("padding_sides", f"padding {words}", sites, lambda c, s=new: _convolved(c, s, None), rank=2)
    for axis in range(count):
        if amounts[count - 1 - axis] and count == 3:
            words = f"the ends of axis -{axis + 1} repeated instead of zeros"
            yield edit("padding_mode", words, sites, lambda c, a=axis, s=sides: _convolved(c, s, a), rank=2)


def _convolved(call: Call, sides: Sides, repeated: int | None) -> Any:
    x = call.named["input"]
    padded = F.pad(x, sides) if repeated is None else _repeated(x, sides, repeated)
    return call.given(input=padded, padding=0)
