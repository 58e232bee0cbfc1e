"""A block reads only what it declares: components and configs, and the values of the run.

The engine refuses an undeclared read when it happens; here every line is looked at, whether a test comes by it or not.
A read by a name that is only known when the program runs (`getattr(components, name)`) is left to the engine.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...blocks import ComponentsView, ModularPipelineBlocks
from ...blocks.state import BlockView
from .finding import Finding

Function = ast.FunctionDef | ast.AsyncFunctionDef
RULE = "blocks read only what they declare"
ENGINE = "lockstep.blocks"  # what it does with a view is its own business
COMPONENTS, STATE = 0, 1
# where the engine comes in: method -> the places of the components and the state among its parameters
ENTRIES = {"__call__": (1, 2), "check": (1, 2), "loop_items": (1, 2), "unneeded": (None, 1)}
ALWAYS = {"device", "dtype"}
ASK_NOTHING = {"isinstance", "type", "id", "partial"}  # calls that read nothing of a view
IN_PLACE = re.compile(r"[a-z]\w*[a-z0-9]_")  # methods of tensors that write into them: mul_, copy_
NO_VALUE = {"requires_grad_"}  # those of them that leave the values as they are
BY_NAME = {"getattr": False, "hasattr": False, "setattr": True, "delattr": True}  # whether it writes


@dataclass(frozen=True)
class Access:
    """One use of an attribute of a view."""

    path: Path
    line: int
    name: str
    writes: bool


def blocks_of(*modules: str) -> list[type[ModularPipelineBlocks]]:
    """Every block that is defined in modules whose names begin so; they have to be imported."""
    found: dict[type[ModularPipelineBlocks], None] = {}
    waiting = [ModularPipelineBlocks]
    while waiting:
        kind = waiting.pop()
        found[kind] = None
        waiting += kind.__subclasses__()
    return [kind for kind in found if kind.__module__.startswith(modules)]


def findings(blocks: Iterable[type[ModularPipelineBlocks]]) -> list[Finding]:
    """Every undeclared read or write of these blocks, with what to declare."""
    found = {finding: None for kind in blocks for finding in _of_block(kind)}
    return sorted(found)


def _of_block(kind: type[ModularPipelineBlocks]) -> Iterator[Finding]:
    if not any(_readable(getattr(kind, name, None)) for name in ENTRIES):
        return  # put together of others, which are looked at themselves
    block: Any = kind()
    looping = block.kind == "loop"
    specs = getattr(block, "loop_expected_components", ()) if looping else block.expected_components
    components = {spec.name for spec in specs}
    configs = {spec.name for spec in block.expected_configs}
    inputs = {param.name or param.kwargs_type for param in (block.loop_params if looping else block.inputs)}
    outputs = set() if looping else {param.name for param in block.outputs}
    yield from _out_of_sight(kind)
    for access in _accesses(kind, COMPONENTS):
        if access.name not in components | configs | ALWAYS and not _offers(ComponentsView, access.name):
            advice = (
                f"add ComponentSpec({access.name!r}, …) to expected_components, or a ConfigSpec to expected_configs"
            )
            message = f"{kind.__name__} reads components.{access.name}: {advice}"
            yield Finding(access.path, access.line, message, advice, RULE, pitfall=8)
    for access in _accesses(kind, STATE):
        if access.writes and access.name not in outputs:
            advice = "add it to outputs"
            message = f"{kind.__name__} writes state.{access.name}: {advice}"
        elif not access.writes and access.name not in inputs | outputs and not _offers(BlockView, access.name):
            advice = "add it to inputs"
            message = f"{kind.__name__} reads state.{access.name}: {advice}"
        else:
            continue
        yield Finding(access.path, access.line, message, advice, RULE)


def _offers(view: type, name: str) -> bool:
    """Whether every view has this attribute; those between underscores are for the language, not for blocks."""
    return hasattr(view, name) and not name.startswith("__")


def _accesses(kind: type[ModularPipelineBlocks], which: int) -> set[Access]:
    """What a block does with its components or its state, through every function that it hands them to."""
    found: set[Access] = set()
    for function, node, view in _walked(kind, which):
        _, path, offset = parsed(function)
        found |= {Access(path, line + offset, name, writes) for line, name, writes in _uses(node, view)}
    return found


def _out_of_sight(kind: type[ModularPipelineBlocks]) -> Iterator[Finding]:
    """Views that go where nobody can see what is read of them: into an attribute, a container, an unknown call."""
    for which, name in ((COMPONENTS, "components"), (STATE, "state")):
        for function, node, view in _walked(kind, which):
            hidden = [value for value in _hidden(node, function, kind) if _is(value, view)]
            if hidden:
                _, path, offset = parsed(function)
                line = hidden[0].lineno + offset
                advice = "hand them to functions, by their names"
                yield Finding(path, line, f"{kind.__name__} puts its {name} out of sight: {advice}", advice, RULE)


def _hidden(node: ast.AST, function: types.FunctionType, kind: type) -> list[ast.expr]:
    """Values that a node takes to where they cannot be followed."""
    match node:
        case ast.Assign() | ast.AnnAssign() | ast.NamedExpr():
            return [value for target, value in _given_names(node) if not isinstance(target, ast.Name)]
        case ast.Dict(values=values):
            return values
        case ast.Set(elts=values):
            return values
        case ast.comprehension(iter=ast.Tuple(elts=values) | ast.List(elts=values)):
            return values
        case ast.withitem(context_expr=ast.Call(args=values)):
            return values
        case ast.Match(subject=value):
            return [value]
        case ast.Call() as call:
            starred = [one.value for one in call.args if isinstance(one, ast.Starred)]
            unknown = not _can_be_followed(_without_partial(call), function, kind)
            given = [*call.args, *(one.value for one in call.keywords)] if unknown else []
            lists = [one for one in (*given, *starred) if isinstance(one, (ast.List, ast.Tuple))]
            return [*given, *(value for one in lists for value in one.elts)]
    return []


def _can_be_followed(call: ast.Call, caller: types.FunctionType, kind: type) -> bool:
    """Whether what is called is known: a function of the package, one inside this one, or one that asks by name."""
    if isinstance(call.func, ast.Lambda):
        return True
    if isinstance(call.func, ast.Name) and call.func.id in {*BY_NAME, *ASK_NOTHING, *_inner(parsed(caller)[0])}:
        return True
    if isinstance(call.func, ast.Attribute) and call.func.attr in ASK_NOTHING:
        return True
    target, _ = _target(call.func, caller, kind)
    return isinstance(target, types.FunctionType)


def _walked(kind: type[ModularPipelineBlocks], which: int) -> Iterator[tuple[types.FunctionType, ast.AST, str]]:
    """Every node of every function that gets the view, with the names that the view has there."""
    seen: set[tuple[types.FunctionType, str]] = set()
    waiting = list(_entries(kind, which))
    while waiting:
        function, parameter = waiting.pop()
        if (function, parameter) in seen:
            continue
        seen.add((function, parameter))
        tree, _, _ = parsed(function)
        for view in _names_of(tree, parameter):
            for node in ast.walk(tree):
                yield function, node, view
                if isinstance(node, ast.Call):
                    waiting += _handed_on(_without_partial(node), view, function, kind)


def _without_partial(call: ast.Call) -> ast.Call:
    """`partial(f, x)` as the call `f(x)` that it becomes."""
    is_partial = ast.unparse(call.func).rpartition(".")[2] == "partial" and call.args
    return ast.Call(call.args[0], call.args[1:], call.keywords) if is_partial else call


def _names_of(tree: ast.AST, parameter: str) -> set[str]:
    """A parameter, and every name that it is given in the function: `c = components`, `a, b = components, state`."""
    names, before, inner = {parameter}, 0, _inner(tree)
    pairs = [pair for node in ast.walk(tree) for pair in (*_given_names(node), *_given_inside(node, inner))]
    while len(names) > before:
        before = len(names)
        for target, value in pairs:
            if isinstance(target, ast.Name) and any(_is(value, name) for name in names):
                names.add(target.id)
    return names


def _inner(tree: ast.AST) -> dict[str, Function]:
    """The functions that a tree defines, by their names."""
    return {node.name: node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _given_inside(node: ast.AST, inner: Mapping[str, Function]) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The parameters of a function inside this one, each with the argument of a call of it."""
    if not isinstance(node, ast.Call):
        return
    call = _without_partial(node)
    function = inner.get(call.func.id) if isinstance(call.func, ast.Name) else call.func
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    yield from ((ast.Name(one.arg), value) for one, value in zip(parameters, call.args, strict=False))
    yield from ((ast.Name(one.arg), one.value) for one in call.keywords if one.arg)


def _given_names(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with its value."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) or node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, (ast.Tuple, ast.List)) and isinstance(node.value, (ast.Tuple, ast.List)):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _entries(kind: type, which: int) -> Iterator[tuple[types.FunctionType, str]]:
    for name, places in ENTRIES.items():
        method, place = getattr(kind, name, None), places[which]
        if place is not None and method is not None and _readable(method) and len(_positional(method)) > place:
            yield method, _positional(method)[place]


def _readable(function: Any) -> bool:
    return isinstance(function, types.FunctionType) and not f"{function.__module__}.".startswith(f"{ENGINE}.")


def _positional(function: types.FunctionType) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, one in inspect.signature(function).parameters.items() if one.kind in positional]


@functools.cache
def parsed(function: types.FunctionType) -> tuple[ast.Module, Path, int]:
    """The tree of a function, its file, and how many lines stand before it."""
    lines, first = inspect.getsourcelines(function)
    return ast.parse(textwrap.dedent("".join(lines))), Path(str(inspect.getsourcefile(function))), first - 1


def _uses(node: ast.AST, view: str) -> list[tuple[int, str, bool]]:
    """Line, name and whether it is written, where a node reaches into a view."""
    if changed := _written_into(node):
        return [(line, name, True) for line, name, _ in _uses(changed, view)]
    if isinstance(node, ast.Attribute) and _is(node.value, view):
        return [(node.lineno, node.attr, not isinstance(node.ctx, ast.Load))]
    if isinstance(node, ast.Subscript) and _is(node.value, view) and isinstance(node.slice, ast.Constant):
        return [(node.lineno, str(node.slice.value), not isinstance(node.ctx, ast.Load))]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        name = node.args[0] if node.args and _is(node.func.value, view) else None
        return [(node.lineno, str(name.value), False)] if isinstance(name, ast.Constant) else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BY_NAME:
        literal = node.args[1] if len(node.args) > 1 else None
        if _is(node.args[0], view) and isinstance(literal, ast.Constant) and isinstance(literal.value, str):
            return [(node.lineno, literal.value, BY_NAME[node.func.id])]
    return []


def _written_into(node: ast.AST) -> ast.expr | None:
    """What a node writes into, without giving it another name: `x` of `x.mul_(…)`, `x[0] = …`, `f(…, out=x)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if IN_PLACE.fullmatch(name) and name not in NO_VALUE:
            return value
        case ast.Call(keywords=words):
            return next((word.value for word in words if word.arg == "out"), None)
        case ast.Subscript(value=ast.Attribute() | ast.Subscript() as value, ctx=ast.Store()):
            return value
    return None


def _is(node: ast.AST, name: str) -> bool:
    """Whether an expression is what a name stands for, or may be: `c`, `c or d`, `c if x else d`, `(e := c)`."""
    match node:
        case ast.Name(id=found):
            return found == name
        case ast.IfExp(body=one, orelse=other):
            return _is(one, name) or _is(other, name)
        case ast.BoolOp(values=values):
            return any(_is(value, name) for value in values)
        case ast.NamedExpr(value=value):
            return _is(value, name)
    return False


def _handed_on(
    call: ast.Call, view: str, caller: types.FunctionType, kind: type
) -> list[tuple[types.FunctionType, str]]:
    """The function that a call gives the view to, with the name that the view has there."""
    target, bound = _target(call.func, caller, kind)
    if not _readable(target):
        return []
    names = _positional(target)[bound:]
    found = [(target, names[place]) for place, one in enumerate(call.args) if _is(one, view) and place < len(names)]
    return found + [(target, one.arg) for one in call.keywords if one.arg and _is(one.value, view)]


def _target(called: ast.expr, caller: types.FunctionType, kind: type) -> tuple[Any, int]:
    """The function that an expression names, and how many of its parameters are bound already."""
    if isinstance(called, ast.Name):
        return _known(called.id, caller, kind)
    if isinstance(called, ast.Attribute) and ast.unparse(called.value) in ("self", "type(self)", "self.__class__"):
        return _method(kind.__mro__, called.attr)
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Call) and _is(called.value.func, "super"):
        owner = next((base for base in kind.__mro__ if base.__dict__.get(caller.__name__) is caller), None)
        return _method(kind.__mro__[kind.__mro__.index(owner) + 1 :] if owner else (), called.attr)
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        return getattr(caller.__globals__.get(called.value.id), called.attr, None), 0
    return None, 0


def _known(name: str, caller: types.FunctionType, kind: type) -> tuple[Any, int]:
    """What a name in a function stands for: of its module, of an import inside it, or another name for either."""
    for node in ast.walk(parsed(caller)[0]):
        if isinstance(node, ast.ImportFrom) and any(name == (alias.asname or alias.name) for alias in node.names):
            module = importlib.import_module("." * node.level + (node.module or ""), caller.__globals__["__package__"])
            original = next(alias.name for alias in node.names if name == (alias.asname or alias.name))
            return inspect.unwrap(getattr(module, original)), 0
        for target, value in _given_names(node):
            if isinstance(target, ast.Name) and target.id == name and isinstance(value, (ast.Name, ast.Attribute)):
                return _target(value, caller, kind) if ast.unparse(value) != name else (None, 0)
    found = caller.__globals__.get(name)
    if isinstance(found, type) and _readable(vars(found).get("__init__")):
        return vars(found)["__init__"], 1
    return (inspect.unwrap(found), 0) if callable(found) else (found, 0)


def _method(classes: Iterable[type], name: str) -> tuple[Any, int]:
    found = next((base.__dict__[name] for base in classes if name in base.__dict__), None)
    if isinstance(found, (staticmethod, classmethod)):
        return found.__func__, int(isinstance(found, classmethod))
    return found, 1
