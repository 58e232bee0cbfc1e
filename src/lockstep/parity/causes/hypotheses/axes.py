"""The order in which axes are put or taken apart: patches, heads, rows and columns of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from ..edits import Call, Edit, NotApplicable, Site
from ..examples import Example, edit

Sites = frozenset[Site]


def axis_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op == "permute":
        yield from _permuted(example, sites)
    elif example.op == "einsum":
        yield from _relettered(example, sites)


def _order_of(call_args: list[Any]) -> tuple[int, ...] | None:
    given = call_args[1] if len(call_args) == 2 and isinstance(call_args[1], (list, tuple)) else call_args[1:]
    return tuple(given) if given and all(isinstance(a, int) for a in given) else None


def _permuted(example: Example, sites: Sites) -> Iterator[Edit]:
    """Two axes exchanged, or one moved, behind the first: what is joined behind it keeps its shape and not its
    order."""
    order = _order_of(example.operands)
    if order is None or len(order) < 4:
        return
    for other in _others(order):
        words = f"axes in the order {', '.join(map(str, other))} instead of {', '.join(map(str, order))}"
        yield edit("axes_order", words, sites, _reordered(other), rank=3)


def _others(order: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for i, j in combinations(range(1, len(order)), 2):
        exchanged = list(order)
        exchanged[i], exchanged[j] = exchanged[j], exchanged[i]
        found.append(tuple(exchanged))
    for i in range(1, len(order)):
        rest = order[:i] + order[i + 1 :]
        found += [(*rest[:j], order[i], *rest[j:]) for j in range(1, len(order))]
    return [other for other in dict.fromkeys(found) if other != order]


def _reordered(order: tuple[int, ...]) -> Callable[[Call], Any]:
    def apply(call: Call) -> Any:
        if call.args[0].ndim != len(order):
            raise NotApplicable("another number of axes")
        return call.args[0].permute(order)

    return apply


def _relettered(example: Example, sites: Sites) -> Iterator[Edit]:
    """The same with letters."""
    text = example.operands[0]
    if not isinstance(text, str) or "->" not in text or text.count(",") or "..." in text:
        return
    source, _, result = text.replace(" ", "").partition("->")
    if len(result) < 4:
        return
    for other in _others(tuple(result)):
        new = f"{source}->{''.join(other)}"
        yield edit("axes_order", f"`{new}` instead of `{text}`", sites, lambda c, t=new: c.operand(0, t), rank=3)
