"""Functions and their arguments: another one, one too many or too few, in another order."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from .names import held_at
from .sources import Statement, is_library
from .spots import Rewrite, Spot, node_of

# Functions that are written for each other, under whatever module.
_GROUPS = (
    ("silu", "gelu", "relu", "sigmoid", "tanh", "mish", "elu", "softplus"),
    ("sin", "cos"),
    ("min", "max"),
    ("minimum", "maximum"),
    ("amin", "amax", "mean", "sum", "std", "var", "median"),
    ("argmin", "argmax"),
    ("floor", "ceil", "round", "trunc", "rint"),
    ("log", "log2", "log10", "log1p"),
    ("exp", "expm1", "exp2"),
    ("sqrt", "rsqrt", "square"),
    ("cumsum", "cumprod"),
    ("cat", "stack", "concatenate"),
    ("repeat_interleave", "repeat", "tile", "expand"),
    ("zeros", "ones", "empty"),
    ("zeros_like", "ones_like"),
    ("softmax", "log_softmax", "sigmoid"),
    ("rand", "randn"),
    ("tril", "triu"),
    ("linspace", "logspace", "geomspace"),
    ("logical_and", "logical_or"),
    ("int", "round", "float", "ceil", "floor"),
    ("lt", "le", "gt", "ge"),
    ("mode", "sample"),
    ("avg_pool2d", "max_pool2d"),
    ("layer_norm", "rms_norm"),
    ("sorted", "reversed", "list"),
)
# What is done to a value that porters forget, or do too much: before and behind it.
_UNARY = ("exp", "log", "sqrt", "square", "silu", "sigmoid", "tanh", "round", "abs")
MOST_GIVEN = 4
_FACTORS = (2, 8, 1000, 4, 16, 32)  # by which models and latents are apart


# Settings that porters forget, or give where they do not belong.
_SETTINGS: dict[str, tuple[tuple[str, Any], ...]] = {
    "gelu": (("approximate", "tanh"),),
    "var": (("correction", 0), ("unbiased", False), ("correction", 1)),
    "std": (("correction", 0), ("unbiased", False), ("correction", 1)),
    "interpolate": (("align_corners", True), ("align_corners", False), ("mode", "nearest"), ("mode", "bilinear"),
                    ("antialias", True)),
    "pad": (("mode", "replicate"), ("mode", "reflect"), ("value", 1.0)),
    "meshgrid": (("indexing", "xy"), ("indexing", "ij")),
    "scaled_dot_product_attention": (("is_causal", True), ("scale", 1.0)),
    "avg_pool2d": (("count_include_pad", False), ("ceil_mode", True)),
    "repeat_interleave": (("dim", 0), ("dim", 1), ("dim", -1)),
    "round": (("decimals", 0),),
}  # fmt: skip
_REDUCING = ("mean", "std", "var", "sum", "amax", "amin", "norm", "softmax", "cumsum", "cumprod", "argmax", "flip")
_AXES: tuple[Any, ...] = (-1, 1, 0, 2, -2, (1, 2, 3), (-2, -1), (2, 3), (1, 2), (0, 2, 3), (1, 2, 3, 4), (0, 1))


def call_rewrites(statement: Statement, spots: Iterable[Spot]) -> Iterator[Rewrite]:
    spots = list(spots)
    yield from _other_axes(statement, [s.node for s in spots if isinstance(s.node, ast.Call)])
    for spot in spots:
        if isinstance(spot.node, ast.Call):
            yield from _other_function(statement, spot.node)
            yield from _arguments(statement, spot.node)
            yield from _undone(statement, spot, spot.node)


def _named(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _other_axes(statement: Statement, calls: list[ast.Call]) -> Iterator[Rewrite]:
    """A reduction over other axes; all those of one line at once, too."""
    calls = [call for call in calls if _named(call) in _REDUCING]
    groups = [[call] for call in calls] + ([calls] if len(calls) > 1 else [])
    for group in groups:
        for axes in _AXES:
            for keep in (True, False):
                edits: list[tuple[Any, Any, Any]] = []
                for call in group:
                    own = isinstance(call.func, ast.Attribute) and not is_library(call.func.value)
                    rest = [k for k in call.keywords if k.arg not in ("dim", "axis", "keepdim", "keepdims")]
                    added = [ast.keyword("dim", node_of(axes))]
                    added += [ast.keyword("keepdim", ast.Constant(True))] if keep else []
                    edits += [(call, "args", call.args[: 0 if own else 1]), (call, "keywords", [*rest, *added])]
                yield Rewrite("reduced_axes", 2, statement, edits)


def _other_function(statement: Statement, node: ast.Call) -> Iterator[Rewrite]:
    function, name = node.func, _named(node)
    others = dict.fromkeys(other for group in _GROUPS if name in group for other in group if other != name)
    for other in others:
        field = "attr" if isinstance(function, ast.Attribute) else "id"
        yield Rewrite("other_function", 2, statement, [(function, field, other)])


def _arguments(statement: Statement, node: ast.Call) -> Iterator[Rewrite]:
    edits: list[tuple[Any, Any, Any]]
    count = len(node.args)
    for i in range(count):
        for j in range(i + 1, min(count, i + 3)):
            edits = [(node.args, i, node.args[j]), (node.args, j, node.args[i])]
            yield Rewrite("argument_order", 1, statement, edits)
    for i, keyword in enumerate(node.keywords):
        rest = [*node.keywords[:i], *node.keywords[i + 1 :]]
        yield Rewrite("setting", 2, statement, [(node, "keywords", rest)])
        for j in range(i + 1, len(node.keywords)):
            edits = [(keyword, "value", node.keywords[j].value), (node.keywords[j], "value", keyword.value)]
            yield Rewrite("argument_order", 2, statement, edits)
    given = {keyword.arg for keyword in node.keywords}
    for name, value in _SETTINGS.get(_named(node), ()):
        if name not in given:
            added = [*node.keywords, ast.keyword(name, ast.Constant(value))]
            yield Rewrite("setting", 2, statement, [(node, "keywords", added)])
    if count > 1:
        yield Rewrite("setting", 3, statement, [(node, "args", node.args[:-1])])


def _undone(statement: Statement, spot: Spot, node: ast.Call) -> Iterator[Rewrite]:
    """Without the call: its first argument, or the object whose method it is."""
    if node.args:
        yield Rewrite("extra_step", 1, statement, [spot.put(node.args[0])])
    if isinstance(node.func, ast.Attribute):
        yield Rewrite("extra_step", 1, statement, [spot.put(node.func.value)])


def wrapped_rewrites(
    statement: Statement, spots: Iterable[Spot], numbers: Iterable[float], functions: dict[str, ast.expr]
) -> Iterator[Rewrite]:
    """A step that was left out around a value. `functions`: those that the port or the reference calls elsewhere."""
    for spot in spots:
        node = spot.node
        if not spot.is_taken or not isinstance(node, ast.Name | ast.BinOp | ast.Call | ast.Subscript | ast.Attribute):
            continue
        rank = 3 if isinstance(spot.above[-1], ast.stmt) else 4  # around all of it, or around a part
        for other in _wrapped(node, functions):
            yield Rewrite("left_out", rank, statement, [spot.put(other)])
        yield Rewrite("sign", 3, statement, [spot.put(ast.UnaryOp(ast.USub(), node))])
        reverse = ast.Slice(None, None, ast.UnaryOp(ast.USub(), ast.Constant(1)))
        yield Rewrite("reversed", rank, statement, [spot.put(ast.Subscript(node, reverse, ast.Load()))])
        for factor in dict.fromkeys((*_FACTORS, *numbers)):
            for op in (ast.Mult(), ast.Div()):
                changed = ast.BinOp(node, op, ast.Constant(factor))
                yield Rewrite("left_out", rank, statement, [spot.put(changed)])


def _wrapped(node: ast.expr, functions: dict[str, ast.expr]) -> Iterator[ast.expr]:
    one = ast.Constant(1)
    yield ast.BinOp(one, ast.Sub(), node)
    yield ast.BinOp(one, ast.Add(), node)
    yield ast.BinOp(one, ast.Div(), node)
    square, half = ast.BinOp(node, ast.Pow(), ast.Constant(2)), ast.Constant(0.5)
    yield square
    yield ast.BinOp(node, ast.Pow(), half)
    for op in (ast.Add(), ast.Sub()):  # what is left of a signal, and the scale of signal and noise together
        yield ast.BinOp(ast.BinOp(square, op, one), ast.Pow(), half)
    yield ast.BinOp(ast.BinOp(one, ast.Sub(), square), ast.Pow(), half)
    for name, function in functions.items():
        if name in _UNARY:
            yield ast.Call(function, [node], [])


def missing_arguments(
    statement: Statement, spots: Iterable[Spot], values: dict[str, Any], names: dict[str, Any]
) -> Iterator[Rewrite]:
    """Arguments that a function has and the call does not give: variables of the same name, flags the other way round.

    `values`: what is visible where the statement runs; `names`: of its module.
    """
    for spot in spots:
        node = spot.node
        if not isinstance(node, ast.Call):
            continue
        try:
            called = held_at(node.func, {**names, **values})
            signature = inspect.signature(getattr(called, "forward", called))
            parameters = {name: p for name, p in signature.parameters.items() if name != "self"}
        except Exception:  # not a function of Python's own
            continue
        given = {keyword.arg for keyword in node.keywords} | set(list(parameters)[: len(node.args)])
        for name, parameter in parameters.items():
            if name in given or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            others: list[ast.expr] = []
            if isinstance(parameter.default, bool):
                others.append(ast.Constant(not parameter.default))
            alike = [n for n in values if n == name or n in name or name in n]
            others += [ast.Name(n, ast.Load()) for n in alike if n != "self"]
            for other in others[:MOST_GIVEN]:
                added = [*node.keywords, ast.keyword(name, other)]
                yield Rewrite("missing_argument", 2, statement, [(node, "keywords", added)])
