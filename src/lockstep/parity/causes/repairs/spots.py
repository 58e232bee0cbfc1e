"""A place in a syntax tree, and something else put there for a while."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from .sources import Statement, head_of

_LISTS = ("body", "orelse", "finalbody", "handlers", "cases", "decorator_list", "type_params")


@dataclass(eq=False)
class Spot:
    """An expression of a statement, where it hangs."""

    node: ast.expr
    holder: Any  # the node or the list above it
    key: Any  # a field's name or an index
    above: tuple[ast.AST, ...] = ()  # what it is inside of, innermost last

    @property
    def is_taken(self) -> bool:
        """True for a value that is handed on: no target, no function, nothing that an attribute is taken of."""
        above = self.above[-1] if self.above else None
        if isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is self.node):
            return False
        return isinstance(getattr(self.node, "ctx", ast.Load()), ast.Load)

    def put(self, other: Any) -> tuple[Any, Any, Any]:
        return self.holder, self.key, other


@dataclass(eq=False)
class Rewrite:
    """One statement written otherwise."""

    kind: str  # the name of the cause that it would be
    rank: int  # what porters do often comes first
    statement: Statement
    edits: list[tuple[Any, Any, Any]]
    before: str = ""
    after: str = ""
    compiled: str = field(default="", repr=False)

    @contextmanager
    def applied(self) -> Iterator[None]:
        old = [(holder, key, _get(holder, key)) for holder, key, _ in self.edits]
        for holder, key, new in self.edits:
            _set(holder, key, new)
        try:
            yield
        finally:
            for holder, key, node in reversed(old):
                _set(holder, key, node)

    def beside(self, other: Rewrite) -> Rewrite | None:
        """Both; None where they change the same thing."""
        places = {(id(holder), key) for holder, key, _ in self.edits}
        if any((id(holder), key) in places for holder, key, _ in other.edits):
            return None
        return Rewrite(self.kind, self.rank + other.rank, self.statement, [*self.edits, *other.edits])

    def described(self) -> bool:
        """Fill in what stands there before and after; False where that is the same, or no Python."""
        try:
            with self.applied():
                there = self.statement.body
                self.compiled = ast.unparse(self.statement.top)
                after = self.statement.text() if self.statement.node in there else ""
            here = self.statement.body
            old, new = (_heads(one, other) for one, other in ((here, there), (there, here)))
            self.before = old or (self.statement.text() if not new else "")
            self.after = new or (after if not old else "")
        except (ValueError, AttributeError, TypeError, IndexError, RecursionError):
            return False
        return self.before != self.after


def node_of(value: Any) -> ast.expr:
    """A number, a text or a row of them as it is written."""
    if isinstance(value, tuple):
        return ast.Tuple([node_of(entry) for entry in value], ast.Load())
    negative = isinstance(value, int | float) and not isinstance(value, bool) and value < 0
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if negative else ast.Constant(value)


def reordered(
    kind: str, rank: int, statement: Statement, entries: list[ast.expr], orders: Iterable[Sequence[int]]
) -> Iterator[Rewrite]:
    """The same entries in these other orders."""
    for order in orders:
        if list(order) != sorted(order):
            yield Rewrite(kind, rank, statement, [(entries, i, entries[taken]) for i, taken in enumerate(order)])


def exchanges(count: int, apart: int) -> Iterator[list[int]]:
    """Orders in which two that lie no farther apart are exchanged."""
    for i, j in combinations(range(count), 2):
        if j - i <= apart:
            order = list(range(count))
            order[i], order[j] = j, i
            yield order


def _heads(statements: list[ast.stmt], others: list[ast.stmt]) -> str:
    """Those that the others lack; where none are, those in another order."""
    alone = [node for node in statements if not any(node is other for other in others)]
    if not alone and len(statements) == len(others):
        alone = [node for node, other in zip(statements, others, strict=True) if node is not other]
    return "; ".join(head_of(node) for node in alone)


def _get(holder: Any, key: Any) -> Any:
    return holder[key] if isinstance(holder, list) else getattr(holder, key)


def _set(holder: Any, key: Any, node: Any) -> None:
    if isinstance(holder, list):
        holder[key] = node
    else:
        setattr(holder, key, node)


def spots_of(statement: Statement) -> list[Spot]:
    """Every expression of the statement itself, outer ones first; not of statements that it holds."""
    found: list[Spot] = []
    waiting: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(statement.node, ())]
    while waiting:
        node, above = waiting.pop(0)
        inside = (*above, node)
        for name, value in ast.iter_fields(node):
            if isinstance(node, ast.stmt) and name in _LISTS:
                continue
            entries = list(enumerate(value)) if isinstance(value, list) else [(name, value)]
            holder = value if isinstance(value, list) else node
            for key, child in entries:
                if isinstance(child, ast.expr):
                    found.append(Spot(child, holder, key, inside))
                if isinstance(child, ast.AST) and not isinstance(child, ast.stmt):
                    waiting.append((child, inside))
    return found
