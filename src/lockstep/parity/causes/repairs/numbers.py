"""Numbers and words that stand in the code, and others that porters write for them."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any

from .constants import Constants
from .sources import Statement
from .spots import Rewrite, Spot, exchanges, node_of, reordered

MOST_OTHERS = 14
FARTHEST = 40.0  # times
LARGEST = 4096  # of an integer that may be a size
MOST_ORDERED = 4
# Words that are written for each other.
_WORDS = (
    ("none", "tanh"),
    ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    ("zeros", "border", "reflection"),
    ("constant", "reflect", "replicate", "circular"),
    ("leading", "trailing", "linspace"),
    ("epsilon", "sample", "v_prediction", "flow_prediction"),
    ("ij", "xy"),
    ("linear", "scaled_linear", "squaredcos_cap_v2"),
    ("midpoint", "heun", "bh1", "bh2"),
    ("zero", "sigma_min"),
    ("sample", "mode", "argmax"),
    ("left", "right"),
    ("max_length", "longest", "do_not_pad"),
    ("same", "valid"),
    ("cos", "sin"),
)


def number_rewrites(statement: Statement, spots: Iterable[Spot], constants: Constants) -> Iterator[Rewrite]:
    """`constants`: what the reference's code and settings have."""
    others = list(constants.numbers)
    for spot in spots:
        node = spot.node
        if isinstance(node, ast.Constant):
            yield from _of_constant(statement, spot, node.value, others)
        elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
            yield from _ordered(statement, node.elts)
            yield from _other_rows(statement, spot, node, constants)
        elif isinstance(node, ast.Call):
            constant = [a for a in node.args if _number(a) is not None]
            if len(constant) == len(node.args):
                yield from _ordered(statement, node.args)


def _other_rows(
    statement: Statement, spot: Spot, node: ast.Tuple | ast.List, constants: Constants
) -> Iterator[Rewrite]:
    """A row of numbers that the reference has in the place of one as long."""
    here = [_number(entry) for entry in node.elts]
    if len(here) > 1 and None not in here:
        for row in constants.rows:
            if len(row) == len(here) and list(row) != here:
                yield Rewrite("constant", 1, statement, [spot.put(type(node)([node_of(n) for n in row], node.ctx))])


def _of_constant(statement: Statement, spot: Spot, value: Any, others: list[float]) -> Iterator[Rewrite]:
    def instead(other: Any, rank: int, kind: str = "constant") -> Rewrite:
        return Rewrite(kind, rank, statement, [spot.put(node_of(other))])

    if isinstance(value, bool):
        yield instead(not value, 1, "setting")
    elif isinstance(value, str):
        for group in _WORDS:
            if value in group:
                yield from (instead(other, 1, "setting") for other in group if other != value)
    elif isinstance(value, int):
        summed = isinstance(spot.above[-1], ast.BinOp) and value == 1  # without it is another rewrite
        yield from (instead(other, 1, "index_offset") for other in (value + 1, value - 1) if other or not summed)
        near = [
            n for n in others if float(n).is_integer() and 0 < abs(n) <= LARGEST and value > 2 and _is_near(n, value)
        ]
        small = [0, 1, 2, 3, -1, -2, value * 2, value // 2, -value] if value <= LARGEST else [value * 2, value // 2]
        summand = isinstance(spot.above[-1], ast.BinOp) and isinstance(spot.above[-1].op, ast.Add | ast.Sub)
        for other in list(dict.fromkeys([*map(int, near[:MOST_OTHERS]), *small])):
            if (other or not summand) and other != value and abs(other - value) != 1:
                yield instead(other, 2)
    elif isinstance(value, float) and math.isfinite(value):
        near = sorted((n for n in others if _is_near(n, value)), key=lambda n: abs(math.log(n / value)))
        made = [-value, 1 - value, 2 * value, value / 2, 1.0, 0.0]
        made += [1 / value, value**2, value**0.5 if value > 0 else 0.0] if value else []
        for rank, many in ((1, near[:MOST_OTHERS]), (2, made)):
            yield from (instead(float(other), rank) for other in dict.fromkeys(many) if other != value)


def _is_near(one: float, other: float) -> bool:
    return one != other and one * other > 0 and 1 / FARTHEST <= one / other <= FARTHEST


def _number(node: ast.expr) -> float | None:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    value = inner.value if isinstance(inner, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _ordered(statement: Statement, entries: list[ast.expr]) -> Iterator[Rewrite]:
    """The axes of a `permute`, the sides of a padding, in another order."""
    if len(entries) < 2 or any(_number(entry) is None for entry in entries):
        return
    count = len(entries)
    few: Iterable[Sequence[int]] = [*exchanges(count, 2), list(reversed(range(count)))]
    orders = permutations(range(count)) if count <= MOST_ORDERED else few
    yield from reordered("axes_swapped", 2, statement, entries, orders)
