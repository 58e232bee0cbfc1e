"""How tensors lie, what a loop runs over, and words for axes: what porters get wrong without another number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import torch

from .sources import SourceFile, Statement
from .spots import Rewrite, Spot, node_of

MOST_AXES = 5
MOST_WORDS, MOST_LETTERS, MOST_FUNCTIONS = 6, 24, 10
_READ_AS = ("reshape", "view", "flatten", "unflatten")  # the axes before it matter
_PATTERNS = ("einsum", "rearrange", "repeat", "reduce")


def form_rewrites(
    statement: Statement, spots: list[Spot], values: dict[str, Any], source: SourceFile
) -> Iterator[Rewrite]:
    functions = _unary_functions(source)
    for spot in spots:
        node = spot.node
        if isinstance(node, ast.Name) and isinstance(values.get(node.id), torch.Tensor) and spot.is_taken:
            yield from _turned(statement, spot, values[node.id])
        if isinstance(node, ast.Call):
            yield from _of_call(statement, spot, node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _other_words(statement, spot, node.value, source)
        if isinstance(node, ast.Name | ast.Call | ast.BinOp) and spot.is_taken:
            for function in functions:
                if not (isinstance(node, ast.Call) and ast.unparse(node.func) == ast.unparse(function)):
                    rank = 3 if isinstance(spot.above[-1], ast.stmt) else 4
                    yield Rewrite("left_out", rank, statement, [spot.put(ast.Call(function, [node], []))])
    if isinstance(statement.node, ast.For):
        yield from _other_turns(statement, statement.node)


def _method(node: ast.expr, name: str, *numbers: int) -> ast.Call:
    return ast.Call(ast.Attribute(node, name, ast.Load()), [node_of(number) for number in numbers], [])


def _turned(statement: Statement, spot: Spot, value: torch.Tensor) -> Iterator[Rewrite]:
    """Two axes of one size exchanged, one of them the other way round."""
    sizes = list(value.shape)
    for i, j in combinations(range(len(sizes)), 2) if len(sizes) <= MOST_AXES else ():
        if sizes[i] == sizes[j] > 1:
            yield Rewrite("axes_swapped", 2, statement, [spot.put(_method(spot.node, "transpose", i, j))])
    for axis, size in enumerate(sizes) if len(sizes) <= MOST_AXES else ():
        if size > 1:
            yield Rewrite("reversed", 3, statement, [spot.put(_method(spot.node, "flip", axis))])


def _of_call(statement: Statement, spot: Spot, node: ast.Call) -> Iterator[Rewrite]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _READ_AS and isinstance(node.func, ast.Attribute):
        for i, j in combinations(range(MOST_AXES), 2):
            changed = _method(node.func.value, "transpose", i, j)
            read = ast.Call(
                ast.Attribute(changed, "reshape" if name == "view" else name, ast.Load()), node.args, node.keywords
            )
            yield Rewrite("axes_swapped", 2, statement, [spot.put(read)])
    if name in ("repeat", "repeat_interleave") and isinstance(node.func, ast.Attribute):
        yield from _repeated(statement, spot, node, node.func)
    if name in _PATTERNS:
        for place, argument in enumerate(node.args):
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                for other in _other_letters(argument.value):
                    yield Rewrite("axes_swapped", 2, statement, [(node.args, place, ast.Constant(other))])
    if name == "range":
        last = len(node.args) - 1 if len(node.args) < 3 else 1
        stop = node.args[last]
        for by in (1, -1):
            moved = [*node.args]
            moved[last] = ast.BinOp(stop, ast.Add() if by > 0 else ast.Sub(), ast.Constant(1))
            yield Rewrite("index_offset", 1, statement, [(node, "args", moved)])
        if len(node.args) == 1:
            for end in (stop, ast.BinOp(stop, ast.Add(), ast.Constant(1))):
                yield Rewrite("index_offset", 1, statement, [(node, "args", [ast.Constant(1), end])])


def _repeated(statement: Statement, spot: Spot, node: ast.Call, function: ast.Attribute) -> Iterator[Rewrite]:
    """Element by element for block by block, and the other way round."""
    one = ast.Constant(1)
    if function.attr == "repeat":
        for axis, count in enumerate(node.args):
            if not (isinstance(count, ast.Constant) and count.value == 1):
                changed = _method(function.value, "repeat_interleave")
                changed.args, changed.keywords = [count], [ast.keyword("dim", ast.Constant(axis))]
                yield Rewrite("repeat_kind", 1, statement, [spot.put(changed)])
    elif node.args:
        for axes in range(1, MOST_AXES):
            for axis in range(axes):
                changed = _method(function.value, "repeat")
                changed.args = [node.args[0] if i == axis else one for i in range(axes)]
                yield Rewrite("repeat_kind", 2, statement, [spot.put(changed)])


def _other_letters(pattern: str) -> Iterator[str]:
    """Two letters of one term exchanged."""
    begin = 0
    found = 0
    for term in pattern.replace("->", ",").split(","):
        letters = [i for i, sign in enumerate(term) if sign.isalpha()]
        for i, j in combinations(letters, 2):
            turned = list(term)
            turned[i], turned[j] = turned[j], turned[i]
            place = pattern.index(term, begin)
            found += 1
            if found <= MOST_LETTERS:
                yield pattern[:place] + "".join(turned) + pattern[place + len(term) :]
        begin = pattern.index(term, begin) + len(term)


def _other_words(statement: Statement, spot: Spot, value: str, source: SourceFile) -> Iterator[Rewrite]:
    """Names of weights that are nearly the same: `norm1` for `norm2`, `to_k` for `to_v`."""
    texts = [n.value for n in ast.walk(source.tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    alike = [text for text in dict.fromkeys(texts) if text != value and _is_alike(text, value)]
    for other in alike[:MOST_WORDS]:
        yield Rewrite("wrong_operand", 2, statement, [spot.put(ast.Constant(other))])


def _is_alike(one: str, other: str) -> bool:
    apart = sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))
    return 0 < len(other) <= 40 and apart <= max(1, len(other) // 4)


def _unary_functions(source: SourceFile) -> list[ast.expr]:
    """What the file calls with one value alone, each once."""
    found: dict[str, ast.expr] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
            function = ast.unparse(node.func)
            if function.count(".") <= 1 and function.isascii() and "(" not in function and function not in _PLAIN:
                found.setdefault(function, node.func)
    return list(found.values())[:MOST_FUNCTIONS]


_PLAIN = frozenset(
    ["exit", "sys.exit", "os._exit", "len", "range", "list", "tuple", "dict", "str", "super", "isinstance", "enumerate",
     "print", "next", "iter", "zip", "set", "type", "id", "sorted", "torch.no_grad", "torch.manual_seed"]
)  # fmt: skip


def _other_turns(statement: Statement, node: ast.For) -> Iterator[Rewrite]:
    """A loop over what comes first, last or the other way round."""
    one = ast.Constant(1)
    slices = [ast.Slice(one, None, None), ast.Slice(None, ast.UnaryOp(ast.USub(), one), None)]
    slices.append(ast.Slice(None, None, ast.UnaryOp(ast.USub(), one)))
    of_list = ast.Call(ast.Name("list", ast.Load()), [node.iter], [])
    for part in slices:
        yield Rewrite("index_offset", 2, statement, [(node, "iter", ast.Subscript(of_list, part, ast.Load()))])
