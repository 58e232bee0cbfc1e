"""Whole statements: one too many, two in the other order, one inside of a loop or a branch that belongs outside."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .sources import Statement
from .spots import Rewrite

_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.AnnAssign, ast.Delete)
_HOLDING = (ast.If, ast.For, ast.With, ast.While)
MOST_APART = 3


def statement_rewrites(statement: Statement) -> Iterator[Rewrite]:
    node, body = statement.node, statement.body
    place = next((i for i, one in enumerate(body) if one is node), None)
    if place is None or isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return

    def instead(kind: str, rank: int, new: list[ast.stmt]) -> Rewrite:
        return Rewrite(kind, rank, statement, [(statement.parent, statement.field, new)])

    if isinstance(node, _SIMPLE) and len(body) > 1:
        yield instead("extra_step", 2, [one for one in body if one is not node])
    for other in range(place + 1, min(len(body), place + 1 + MOST_APART)):
        if isinstance(node, _SIMPLE) and isinstance(body[other], (*_SIMPLE, *_HOLDING)):
            moved = [*body[:place], *body[place + 1 : other + 1], node, *body[other + 1 :]]
            yield instead("order_exchanged", 2, moved)
    for other in range(max(0, place - MOST_APART), place - 1):
        if isinstance(node, _SIMPLE):
            moved = [*body[:other], node, *body[other:place], *body[place + 1 :]]
            yield instead("order_exchanged", 3, moved)
    if isinstance(node, ast.If):
        yield instead("condition", 3, [*body[:place], *node.body, *body[place + 1 :]])
        if node.orelse:
            yield instead("condition", 3, [*body[:place], *node.orelse, *body[place + 1 :]])
    if isinstance(node, ast.For | ast.If) and len(node.body) > 1:
        first, last = node.body[0], node.body[-1]
        yield Rewrite(
            "order_exchanged", 3, statement,
            [(node, "body", node.body[1:]), (statement.parent, statement.field, [*body[:place], first, *body[place:]])],
        )  # fmt: skip
        yield Rewrite(
            "order_exchanged", 3, statement,
            [(node, "body", node.body[:-1]),
             (statement.parent, statement.field, [*body[: place + 1], last, *body[place + 1 :]])],
        )  # fmt: skip
