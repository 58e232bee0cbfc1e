"""The port's own files as syntax trees, and its functions with another code for a while."""

from __future__ import annotations
import __future__

import ast
import gc
import linecache
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FUTURE = __future__.all_feature_names
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(eq=False)
class Statement:
    """One statement of a file, where it hangs, and the function and the class around it."""

    node: ast.stmt
    parent: ast.AST
    field: str  # of the parent: the list that it stands in
    top: ast.stmt  # of the module
    function: Scope | None
    owner: ast.ClassDef | None
    file: str

    @property
    def line(self) -> str:
        return f"{Path(self.file).name}:{self.node.lineno}"

    def holds(self, file: str, line: int) -> bool:
        """True for a line of the function that the statement is a part of."""
        around = self.function or self.node
        return file == self.file and around.lineno <= line <= (around.end_lineno or around.lineno)

    @property
    def body(self) -> list[ast.stmt]:
        """The statements that it stands among."""
        return list(getattr(self.parent, self.field))

    def text(self) -> str:
        return head_of(self.node)


@dataclass(eq=False)
class SourceFile:
    """One file of the port."""

    name: str
    tree: ast.Module
    statements: list[Statement] = field(default_factory=list)

    @classmethod
    def read(cls, name: str) -> SourceFile | None:
        """None for a file that is not there, or is no Python any more."""
        text = "".join(linecache.getlines(name))
        with suppress(SyntaxError, ValueError, RecursionError):
            tree = ast.parse(text)
            found = cls(name, tree) if text else None
            if found is not None:
                for top in tree.body:
                    found._collect(top, (tree, "body"), top, None, None)
            return found
        return None

    def _collect(
        self,
        node: ast.stmt,
        place: tuple[ast.AST, str],
        top: ast.stmt,
        function: Scope | None,
        owner: ast.ClassDef | None,
    ) -> None:
        self.statements.append(Statement(node, *place, top, function, owner, self.name))
        inside = node if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        around = node if isinstance(node, ast.ClassDef) else owner
        for name in ("body", "orelse", "finalbody"):
            below = getattr(node, name, [])
            for child in below if isinstance(below, list) else []:
                self._collect(child, (node, name), top, inside, around)

    def at(self, line: int) -> Statement | None:
        """The innermost statement that the line is a part of."""
        holding = [s for s in self.statements if s.node.lineno <= line <= (s.node.end_lineno or s.node.lineno)]
        return max(holding, key=lambda s: s.node.lineno, default=None)


def is_library(node: ast.expr) -> bool:
    """True for the name of a module of functions, as files import them."""
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "np", "numpy", "math")


def head_of(node: ast.stmt) -> str:
    """The statement in one line; of what holds other statements only its head."""
    return ast.unparse(node).partition("\n")[0]


def codes_of(top: ast.stmt, file: str, flags: int = 0) -> list[types.CodeType]:
    """Every code object of a statement of a module, in the order of the source."""
    tree = ast.fix_missing_locations(ast.Module([top], []))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lines that nobody wrote
        return list(_codes(compile(tree, file, "exec", flags=flags, dont_inherit=True)))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


class Running:
    """The functions that run the code of one statement of a module, and which of its codes each has."""

    def __init__(self, top: ast.stmt, file: str) -> None:
        self.top, self.file = top, file
        lines = range(top.lineno - len(getattr(top, "decorator_list", [])), (top.end_lineno or top.lineno) + 1)
        held = [f for f in gc.get_objects() if type(f) is types.FunctionType and f.__code__.co_filename == file]
        held = [f for f in held if f.__code__.co_firstlineno in lines]
        self.flags = _future(held[0].__code__) if held else 0
        codes = codes_of(top, file, self.flags)
        number = {_written(code): i for i, code in enumerate(codes)}
        self.functions = [(f, number[_written(f.__code__)]) for f in held if _written(f.__code__) in number]
        self._shape = [_shape(code) for code in codes]
        nodes = [n for n in ast.walk(top) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        self._defined = {min([n.lineno, *(d.lineno for d in n.decorator_list)]): n for n in nodes}

    @contextmanager
    def changed(self) -> Iterator[bool]:
        """The functions as the tree is now; False where they cannot take its code."""
        before = [(f, f.__code__, f.__defaults__, f.__kwdefaults__) for f, _ in self.functions]
        try:
            codes = codes_of(self.top, self.file, self.flags)
        except (SyntaxError, ValueError, TypeError):
            yield False
            return
        if [_shape(code)[0] for code in codes] != [shape[0] for shape in self._shape]:
            yield False
            return
        try:
            for function, number in self.functions:
                if codes[number].co_freevars != function.__code__.co_freevars:
                    yield False
                    return
                function.__code__ = codes[number]
                _set_defaults(function, self._defined.get(function.__code__.co_firstlineno))
            yield True
        finally:
            for function, code, defaults, named in before:
                function.__code__, function.__defaults__, function.__kwdefaults__ = code, defaults, named


def _written(code: types.CodeType) -> tuple[Any, ...]:
    """What is the same for code that was compiled from the same place."""
    return code.co_qualname, code.co_firstlineno, code.co_varnames, code.co_freevars, code.co_names


def _set_defaults(function: types.FunctionType, node: ast.FunctionDef | ast.AsyncFunctionDef | None) -> None:
    """Those that stand there as plain values; others were made when the function was, and stay."""
    if node is None or len(node.args.defaults) != len(function.__defaults__ or ()):
        return
    with suppress(ValueError):
        values = [ast.literal_eval(default) for default in node.args.defaults]
        if all(isinstance(value, bool | int | float | str | tuple | None) for value in values):
            function.__defaults__ = tuple(values) or None
    given = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    for name, default in given:
        if default is not None and function.__kwdefaults__ is not None:
            with suppress(ValueError):
                function.__kwdefaults__ = {**function.__kwdefaults__, name.arg: ast.literal_eval(default)}


def _shape(code: types.CodeType) -> tuple[str, tuple[str, ...]]:
    return code.co_qualname, code.co_freevars


def _future(code: types.CodeType) -> int:
    """What the file asked of the compiler (`from __future__ import annotations`)."""
    flags = 0
    for name in FUTURE:
        flag = getattr(__future__, name).compiler_flag
        flags |= code.co_flags & flag
    return flags


@contextmanager
def module_statement(top: ast.stmt, file: str, names: dict[str, Any]) -> Iterator[bool]:
    """A statement of the module done again as its tree is now, and the names that it sets given back behind it."""
    before = dict(names)
    try:
        exec(compile(ast.fix_missing_locations(ast.Module([top], [])), file, "exec", dont_inherit=True), names)
        yield True
    except (SyntaxError, ValueError, TypeError):
        yield False
    finally:
        for name in list(names):
            if name not in before:
                del names[name]
        names.update(before)
