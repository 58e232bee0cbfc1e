"""One variable, attribute or setting where another belongs, and terms that are missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import torch

from .sources import Statement
from .spots import Rewrite, Spot, exchanges, reordered

MOST_OTHERS = 10  # in the place of one name
MOST_TERMS, MOST_ROWS, MOST_COUNTED = 8, 4, 1024
MOST_TARGETS = 4
_UNSUITABLE = ("self", "cls")


def kind_of(value: Any) -> Any:
    """What another value has to be like to stand in its place."""
    if isinstance(value, torch.Tensor):
        return "tensor", tuple(value.shape), value.is_floating_point()
    if isinstance(value, np.ndarray):
        return "array", value.shape
    if isinstance(value, bool | str) or value is None:
        return type(value)
    if isinstance(value, int | np.integer):
        return int
    if isinstance(value, float | np.floating):
        return float
    if isinstance(value, torch.nn.Module):
        return "module"
    return type(value)


def held_at(node: ast.expr, values: dict[str, Any]) -> Any:
    """What `a.b.c` is now; None for any other expression: asking for it may do something."""
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    owner = held_at(node.value, values)
    held = attributes_of(owner) if owner is not None else {}
    return held.get(node.attr, getattr(type(owner), node.attr, None))


def attributes_of(owner: Any) -> dict[str, Any]:
    """What an object holds itself, whatever it answers to other names."""
    try:
        held = dict(object.__getattribute__(owner, "__dict__"))
    except AttributeError:
        return {}
    for inner in ("_modules", "_parameters", "_buffers"):
        held |= held[inner] if isinstance(held.get(inner), dict) else {}
    return held


def name_rewrites(statement: Statement, spots: list[Spot], values: dict[str, Any]) -> Iterator[Rewrite]:
    """`values`: what is visible where the statement runs."""
    kinds = {name: kind_of(value) for name, value in values.items() if name not in _UNSUITABLE}
    for spot in spots:
        node = spot.node
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in kinds:
            yield from _of_name(statement, spot, node, kinds)
            yield from _neighbours(statement, spot, values[node.id], values)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield from _of_number(statement, spot, values)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from _of_attribute(statement, spot, node, values)
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.BinOp) and spot.is_taken:
            yield from _of_value(statement, spot, values)
    yield from _targets(statement)
    yield from _terms(statement, spots, values)


def _of_name(statement: Statement, spot: Spot, node: ast.Name, kinds: dict[str, Any]) -> Iterator[Rewrite]:
    wanted = kinds[node.id]
    like = [name for name, kind in kinds.items() if name != node.id and kind == wanted]
    near = sorted(like, key=lambda name: -_alike(name, node.id))
    if wanted in (int, float):
        near += [name for name, kind in kinds.items() if kind in (int, float) and kind is not wanted]
    for other in near[:MOST_OTHERS]:
        yield Rewrite("wrong_operand", 2, statement, [spot.put(ast.Name(other, ast.Load()))])
    for op in (ast.Sub(), ast.Add()) if wanted in (int, float) else ():
        yield Rewrite("index_offset", 2, statement, [spot.put(ast.BinOp(node, op, ast.Constant(1)))])


def _of_number(statement: Statement, spot: Spot, values: dict[str, Any]) -> Iterator[Rewrite]:
    """A variable, or an end of a row of numbers, where a number was written."""
    if isinstance(spot.above[-1], ast.Subscript | ast.Slice | ast.UnaryOp):
        return
    here = [n for n, v in values.items() if isinstance(v, float | np.ndarray | torch.Tensor) and n not in _UNSUITABLE]
    for name in here[:MOST_OTHERS]:
        yield Rewrite("wrong_operand", 2, statement, [spot.put(ast.Name(name, ast.Load()))])
    for name in [n for n, v in values.items() if _numbers(v)][:MOST_ROWS]:
        for place in (0, -1):
            yield Rewrite("wrong_operand", 2, statement, [spot.put(_entry(name, ast.Constant(place)))])


def _neighbours(statement: Statement, spot: Spot, now: Any, values: dict[str, Any]) -> Iterator[Rewrite]:
    """The number before or behind it in the row that it was taken from, by a variable that counts."""
    if isinstance(now, bool) or not isinstance(now, int | float):
        return
    counting = {n: v for n, v in values.items() if type(v) is int and 0 <= v < MOST_COUNTED}
    for name, row in {n: r for n, v in values.items() if (r := _numbers(v)) and now in r}.items():
        for counter, count in counting.items():
            for place in (row.index(now) + 1, row.index(now) - 1):
                by = place - count
                if 0 <= place < len(row) and abs(by) <= 1:
                    index: ast.expr = ast.Name(counter, ast.Load())
                    if by:
                        index = ast.BinOp(index, ast.Add() if by > 0 else ast.Sub(), ast.Constant(1))
                    yield Rewrite("index_offset", 2, statement, [spot.put(_entry(name, index))])


def _numbers(value: Any) -> list[float]:
    """Of a row of numbers; none for anything else."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return list(value.tolist()) if value.ndim == 1 and 1 < len(value) <= MOST_COUNTED else []
    plain = isinstance(value, list | tuple) and 1 < len(value) <= MOST_COUNTED
    return list(value) if plain and all(type(v) in (int, float) for v in value) else []


def _entry(name: str, index: ast.expr) -> ast.expr:
    return ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())


def _of_value(statement: Statement, spot: Spot, values: dict[str, Any]) -> Iterator[Rewrite]:
    """A variable that is there already in the place of what is made anew."""
    now = held_at(spot.node, values)
    if now is not None:
        values = {name: value for name, value in values.items() if isinstance(value, type(now))}
    set_here = {t.id for t in getattr(statement.node, "targets", []) if isinstance(t, ast.Name)}
    fitting = [
        n for n, v in values.items() if isinstance(v, torch.Tensor | np.ndarray | float | list) and n not in set_here
    ]
    read = {n.id for n in ast.walk(spot.node) if isinstance(n, ast.Name)}
    for other in sorted(fitting, key=lambda n: n not in read)[:MOST_TERMS]:
        yield Rewrite("wrong_operand", 2, statement, [spot.put(ast.Name(other, ast.Load()))])


def _alike(one: str, other: str) -> int:
    """Letters that both begin or end with."""
    begin = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
    end = next(
        (i for i, (x, y) in enumerate(zip(one[::-1], other[::-1], strict=False)) if x != y), min(len(one), len(other))
    )
    return begin + end


def _of_attribute(statement: Statement, spot: Spot, node: ast.Attribute, values: dict[str, Any]) -> Iterator[Rewrite]:
    """Another attribute of the same object, or another result of the same model."""
    owner = values.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if owner is None or isinstance(owner, torch.Tensor | np.ndarray) or type(owner).__name__ == "module":
        others = list(_RESULTS.get(node.attr, ()))
    else:
        held = attributes_of(owner)
        wanted = kind_of(held[node.attr]) if node.attr in held else None
        others = [n for n, v in held.items() if n != node.attr and not n.startswith("__") and kind_of(v) == wanted]
        others = sorted(others, key=lambda name: -_alike(name, node.attr))[:MOST_OTHERS] if wanted is not None else []
        others += _RESULTS.get(node.attr, ())
    for other in others:
        changed = ast.Attribute(node.value, other, node.ctx)
        yield Rewrite("wrong_operand", 2, statement, [spot.put(changed)])


# Results of models that are taken for each other.
_RESULTS = {
    "last_hidden_state": ("pooler_output", "text_embeds"),
    "pooler_output": ("last_hidden_state", "text_embeds"),
    "text_embeds": ("pooler_output", "last_hidden_state"),
    "mean": ("mode", "sample"),
    "mode": ("sample", "mean"),
    "sample": ("mode", "prev_sample", "pred_original_sample"),
    "prev_sample": ("pred_original_sample",),
    "pred_original_sample": ("prev_sample",),
    "timesteps": ("sigmas",),
    "sigmas": ("timesteps",),
    "alphas_cumprod": ("alphas", "betas"),
    "alphas": ("alphas_cumprod", "betas"),
    "betas": ("alphas",),
    "std": ("var", "logvar"),
    "T": ("mT",),
}


def _targets(statement: Statement) -> Iterator[Rewrite]:
    """`a, b = …` for `b, a = …`."""
    node = statement.node
    if not isinstance(node, ast.Assign | ast.For):
        return
    tuples = [t for t in ([node.target] if isinstance(node, ast.For) else node.targets) if isinstance(t, ast.Tuple)]
    for target in tuples:
        count = len(target.elts)
        orders = permutations(range(count)) if count <= MOST_TARGETS else exchanges(count, count)
        yield from reordered("split_order", 2, statement, target.elts, orders)


def _terms(statement: Statement, spots: list[Spot], values: dict[str, Any]) -> Iterator[Rewrite]:
    """A factor or a summand that was left out: variables that fit the shape, behind what is computed."""
    node = statement.node
    value = getattr(node, "value", None)
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Return) or not isinstance(value, ast.expr):
        return
    read = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    named = {t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)}
    fitting = [n for n, v in values.items() if isinstance(v, torch.Tensor | np.ndarray | float) and n not in ("self",)]
    fitting = [n for n in fitting if not isinstance(v := values[n], torch.Tensor) or v.is_floating_point()]
    ordered = sorted(fitting, key=lambda n: (n not in named, n in read))[:MOST_TERMS]
    places = [Spot(value, node, "value")] + [s for s in spots if s.is_taken and isinstance(s.above[-1], ast.BinOp)]
    for spot in places[:6]:
        for name in ordered:
            other = ast.Name(name, ast.Load())
            for op in (ast.Add(), ast.Mult(), ast.Sub(), ast.Div()):
                changed = ast.BinOp(spot.node, op, other)
                rank = 3 if spot.node is value else 4
                yield Rewrite("left_out", rank, statement, [spot.put(changed)])
