"""Operators, operands, indices and conditions that porters exchange."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from .sources import Statement
from .spots import Rewrite, Spot

_OTHERS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt, ast.GtE),
    ast.LtE: (ast.Lt, ast.GtE, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt, ast.LtE),
    ast.GtE: (ast.Gt, ast.LtE, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
MOST_EXCHANGED = 6
_NOT_COMMUTING = (ast.Sub, ast.Div, ast.MatMult, ast.Pow, ast.FloorDiv, ast.Mod)


def operator_rewrites(statement: Statement, spots: Iterable[Spot]) -> Iterator[Rewrite]:
    node = statement.node
    if isinstance(node, ast.AugAssign):
        yield from _augmented(statement, node)
    if isinstance(node, ast.If):
        for test in (ast.UnaryOp(ast.Not(), node.test), ast.Constant(True), ast.Constant(False)):
            yield Rewrite("condition", 3, statement, [(node, "test", test)])
    for spot in spots:
        made: Iterator[Rewrite] = iter(())
        if isinstance(spot.node, ast.BinOp):
            made = _binary(statement, spot, spot.node)
        elif isinstance(spot.node, ast.Compare):
            made = _compared(statement, spot.node)
        elif isinstance(spot.node, ast.BoolOp):
            other: ast.boolop = ast.Or() if isinstance(spot.node.op, ast.And) else ast.And()
            made = iter([Rewrite("condition", 2, statement, [(spot.node, "op", other)])])
        elif isinstance(spot.node, ast.IfExp):
            made = _chosen(statement, spot, spot.node)
        elif isinstance(spot.node, ast.UnaryOp):
            made = iter([Rewrite("sign", 1, statement, [spot.put(spot.node.operand)])])
        elif isinstance(spot.node, ast.Subscript):
            made = _indexed(statement, spot, spot.node)
        elif isinstance(spot.node, ast.Tuple | ast.List):
            made = _exchanged(statement, spot.node)
        yield from made


def _exchanged(statement: Statement, many: ast.Tuple | ast.List) -> Iterator[Rewrite]:
    """Two of several that are joined, given or indexed by, in each other's place."""
    elements = many.elts
    for i in range(len(elements)) if len(elements) <= MOST_EXCHANGED else ():
        for j in range(i + 1, len(elements)):
            edits = [(elements, i, elements[j]), (elements, j, elements[i])]
            yield Rewrite("order_exchanged", 1, statement, edits)


def _augmented(statement: Statement, node: ast.AugAssign) -> Iterator[Rewrite]:
    for other in _OTHERS.get(type(node.op), ()):
        yield Rewrite("operator", 1, statement, [(node, "op", other())])
    if isinstance(node.target, ast.Name):
        plain = ast.Assign([node.target], node.value, lineno=node.lineno, col_offset=node.col_offset)
        body = [plain if one is node else one for one in statement.body]
        yield Rewrite("left_out", 2, statement, [(statement.parent, statement.field, body)])


def _binary(statement: Statement, spot: Spot, node: ast.BinOp) -> Iterator[Rewrite]:
    for other in _OTHERS.get(type(node.op), ()):
        yield Rewrite("operator", 1, statement, [(node, "op", other())])
    if isinstance(node.op, _NOT_COMMUTING):
        swapped = ast.BinOp(node.right, node.op, node.left)
        yield Rewrite("operand_order", 1, statement, [spot.put(swapped)])
    for kept in (node.left, node.right):
        yield Rewrite("extra_step", 1, statement, [spot.put(kept)])
    if isinstance(node.op, ast.Div | ast.FloorDiv):
        yield Rewrite("operator", 1, statement, [spot.put(ast.BinOp(node.left, ast.Mult(), node.right))])
    yield from _regrouped(statement, spot, node)


def _regrouped(statement: Statement, spot: Spot, node: ast.BinOp) -> Iterator[Rewrite]:
    """Brackets that stand elsewhere: `(a + b) * c` and `a + b * c`."""
    left, right = node.left, node.right
    if isinstance(left, ast.BinOp):
        other = ast.BinOp(left.left, left.op, ast.BinOp(left.right, node.op, right))
        yield Rewrite("brackets", 2, statement, [spot.put(other)])
    if isinstance(right, ast.BinOp):
        other = ast.BinOp(ast.BinOp(left, node.op, right.left), right.op, right.right)
        yield Rewrite("brackets", 2, statement, [spot.put(other)])


def _compared(statement: Statement, node: ast.Compare) -> Iterator[Rewrite]:
    for place, op in enumerate(node.ops):
        for other in _COMPARED.get(type(op), ()):
            rank = 3 if isinstance(op, ast.Eq | ast.NotEq) else 1
            yield Rewrite("condition", rank, statement, [(node.ops, place, other())])


def _chosen(statement: Statement, spot: Spot, node: ast.IfExp) -> Iterator[Rewrite]:
    yield Rewrite("condition", 1, statement, [spot.put(ast.IfExp(node.test, node.orelse, node.body))])
    for kept in (node.body, node.orelse):
        yield Rewrite("condition", 2, statement, [spot.put(kept)])


def _moved(node: ast.expr, by: int) -> ast.expr:
    """One more or less; written as a number where it is one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return ast.Constant(node.value + by)
    added = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) else None
    if isinstance(node, ast.BinOp) and isinstance(added, ast.Constant) and isinstance(added.value, int):
        by += added.value if isinstance(node.op, ast.Add) else -added.value
        node = node.left
    if not by:
        return node
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))


def _indexed(statement: Statement, spot: Spot, node: ast.Subscript) -> Iterator[Rewrite]:
    parts: list[tuple[Any, Any, ast.expr]] = [(node, "slice", node.slice)]
    if isinstance(node.slice, ast.Tuple):
        parts = [(node.slice.elts, i, part) for i, part in enumerate(node.slice.elts)]
    for holder, key, part in parts:
        if isinstance(part, ast.Slice):
            yield from _sliced(statement, holder, key, part)
        elif not isinstance(part, ast.Constant):  # numbers are moved as such
            for by in (1, -1):
                yield Rewrite("index_offset", 1, statement, [(holder, key, _moved(part, by))])
            last = ast.UnaryOp(ast.USub(), ast.BinOp(part, ast.Add(), ast.Constant(1)))
            yield Rewrite("reversed", 2, statement, [(holder, key, last)])
    if not isinstance(node.ctx, ast.Load):
        return
    yield from _centred(statement, node, parts)
    if any(isinstance(part, ast.Slice) for *_, part in parts):
        yield Rewrite("extra_step", 2, statement, [spot.put(node.value)])


def _centred(statement: Statement, node: ast.Subscript, parts: list[tuple[Any, Any, ast.expr]]) -> Iterator[Rewrite]:
    """What is cut out at the beginning, from the middle; along all axes of which a part is taken."""
    edits: list[tuple[Any, Any, Any]] = []
    for axis, (holder, key, part) in enumerate(parts):
        count = _length(part) if isinstance(part, ast.Slice) and part.step is None else None
        if count is not None:
            shape = ast.Subscript(ast.Attribute(node.value, "shape", ast.Load()), ast.Constant(axis), ast.Load())
            rest = ast.BinOp(ast.BinOp(shape, ast.Sub(), count), ast.FloorDiv(), ast.Constant(2))
            edits.append((holder, key, ast.Slice(rest, ast.BinOp(rest, ast.Add(), count), None)))
    for chosen in [edits, *([edit] for edit in edits if len(edits) > 1)]:
        if chosen:
            yield Rewrite("wrong_index", 2, statement, chosen)


def _length(part: ast.Slice) -> ast.expr | None:
    """Of `[:n]`, `[0:n]` and `[a : a + n]`."""
    lower, upper = part.lower, part.upper
    if lower is None or (isinstance(lower, ast.Constant) and lower.value == 0):
        return upper
    begins = isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add)
    return upper.right if begins and ast.unparse(upper.left) == ast.unparse(lower) else None  # type: ignore[union-attr]


def _sliced(statement: Statement, holder: Any, key: Any, part: ast.Slice) -> Iterator[Rewrite]:
    lower, upper, step = part.lower, part.upper, part.step
    others: list[tuple[str, ast.Slice]] = []
    for bound in ("lower", "upper"):
        node = getattr(part, bound)
        if node is not None:
            others += [("index_offset", ast.Slice(**{**_fields(part), bound: _moved(node, by)})) for by in (1, -1)]
            others.append(("index_offset", ast.Slice(**{**_fields(part), bound: None})))
    if lower is not None and upper is not None:
        others += [("index_offset", ast.Slice(_moved(lower, by), _moved(upper, by), step)) for by in (1, -1)]
    if (lower is None) != (upper is None):
        others.append(("split_order", ast.Slice(upper, lower, step)))
    if lower is None and upper is None and step is None:
        others.append(("reversed", ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))))
        others.append(("index_offset", ast.Slice(ast.Constant(1), None, None)))
        others.append(("index_offset", ast.Slice(None, ast.UnaryOp(ast.USub(), ast.Constant(1)), None)))
    if step is not None:
        others.append(("interleave", ast.Slice(lower, upper, None)))
    yield from (Rewrite(kind, 1, statement, [(holder, key, other)]) for kind, other in others)


def _fields(part: ast.Slice) -> dict[str, Any]:
    return {"lower": part.lower, "upper": part.upper, "step": part.step}
