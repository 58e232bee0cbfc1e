"""No public name is typed `Any`: parameters, results and attributes of what `lockstep.__all__` lists say what they are.

Read from the sources and stubs as a type checker reads them. `Any` inside a container (`dict[str, Any]`) says that
much;
`Any` alone, or no type at all, says nothing, and stands in `EXCEPTIONS` with its reason or is a finding.
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import lockstep
from lockstep.kit.checks.finding import Finding

from .public_types_exceptions import EXCEPTIONS

# modules that people import from besides the package itself: what they list in `__all__` is public, or all they define
ROOMS = ("attention", "blocks", "errors", "guiders", "images", "media", "parity", "schedulers", "tokenizers")
GIVEN = {"PipelineOutput": "blocks.output", "Part": "blocks.output"}  # what people get without naming it
WRAPPERS = ("ClassVar", "Final", "InitVar", "Required", "NotRequired", "Optional", "Annotated", "Union", "type")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Source:
    """One module as a type checker sees it: the stub where there is one."""

    name: str  # without the package
    path: Path
    tree: ast.Module

    @functools.cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        """The classes, functions and annotated constants of this module by name, those under an `if` included."""
        found: dict[str, ast.stmt] = {}
        for node in _members(self.tree.body):
            if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
                found[node.name] = node
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = node
        return found

    def listed(self) -> list[str]:
        """What `__all__` lists; without one, every public class and function that the module defines."""
        values = [node.value for node in _members(self.tree.body) if _assigns(node, "__all__")]
        if not values:
            kinds = (ast.ClassDef, *FUNCTIONS)
            return [name for name, node in self.definitions.items() if isinstance(node, kinds) and name[0] != "_"]
        return [name for value in values if value is not None for name in ast.literal_eval(value)]

    @functools.cached_property
    def nothings(self) -> frozenset[str]:
        """The names by which this module says `Any`: the word itself, and those that it is given."""
        names, before = {"Any"}, 0
        while len(names) > before:
            before = len(names)
            for node in ast.walk(self.tree):
                if isinstance(node, ast.ImportFrom):
                    names |= {alias.asname for alias in node.names if alias.name == "Any" and alias.asname}
            for node in self.tree.body:
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                value = getattr(node, "value", None)
                if isinstance(value, ast.expr) and says_nothing(value, frozenset(names)):
                    names |= {target.id for target in targets if isinstance(target, ast.Name)}
        return frozenset(names)

    def origin(self, name: str) -> str | None:
        """`module:name` of what a `from … import` of this module brings under a name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return f"{self._absolute(node)}:{alias.name}"
        value = next((n.value for n in self.tree.body if isinstance(n, ast.Assign) and _assigns(n, name)), None)
        return f"{self.name}:{value.id}" if isinstance(value, ast.Name) else None

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return (node.module or "").removeprefix("lockstep").removeprefix(".")
        package = self.name.split(".") if self.path.stem == "__init__" else self.name.split(".")[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])


class Library:
    """The modules of a package, read when they are first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.source = functools.cache(self._source)

    def _source(self, module: str) -> Source | None:
        place = self.root.joinpath(*module.split("."))
        stems = (place.parent / place.name, place / "__init__")
        paths = (stem.with_name(f"{stem.name}{suffix}") for stem in stems for suffix in (".pyi", ".py"))
        path = next((path for path in paths if path.is_file()), None)
        return None if path is None else Source(module, path, ast.parse(path.read_text(encoding="utf-8")))

    def find(self, module: str, name: str) -> tuple[Source, ast.AST] | None:
        """Where a name is defined, through the modules that hand it on."""
        for _ in range(8):
            source = self.source(module)
            definition = source.definitions.get(name) if source else None
            if source and definition is not None:
                return source, definition
            origin = source.origin(name) if source else None
            if origin is None:
                return None
            module, _, name = origin.partition(":")
        return None

    def classes(self, source: Source, node: ast.ClassDef) -> Iterator[tuple[Source, ast.ClassDef]]:
        """A class and those of the package that it is made from."""
        yield source, node
        for base in node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            found = self.find(source.name, ast.unparse(plain).rpartition(".")[2])
            if found and isinstance(found[1], ast.ClassDef):
                yield from self.classes(found[0], found[1])


def findings(
    root: Path, where: Mapping[str, str] | None = None, exceptions: Mapping[str, str] = EXCEPTIONS
) -> list[Finding]:
    """Every untyped part of a public name that is no exception, and every exception that is none any more."""
    library, met = Library(root), set[str]()
    found: dict[Finding, None] = {}
    for name, module in every_public_name(library) if where is None else where.items():
        place = library.find(module, name)
        if place is None:
            raise LookupError(f"{name} is not defined in {module}")
        for key, finding in _untyped(library, *place):
            allowed = [pattern for pattern in exceptions if fnmatch.fnmatchcase(key, pattern)]
            met.update(allowed)
            if not allowed:
                found[finding] = None
    table = Path(str(sys.modules[f"{__package__}.public_types_exceptions"].__file__))
    stale = [Finding(table, 1, f"{one!r} allows nothing any more: take it out") for one in exceptions if one not in met]
    return sorted(found) + stale


def every_public_name(library: Library) -> list[tuple[str, str]]:
    """Each public class and function with a module that has it: of the package, of its rooms, and what calls give."""
    names = [*vars(lockstep)["_WHERE"].items(), *GIVEN.items()]
    for room in ROOMS:
        source = library.source(room)
        listed = source.listed() if source else []
        names += [(name, room) for name in listed if library.find(room, name)]
    return names


def _untyped(library: Library, source: Source, node: ast.AST) -> Iterator[tuple[str, Finding]]:
    """Key and finding of each part of a public class or function that says nothing about its type."""
    if isinstance(node, ast.AnnAssign):
        if says_nothing(node.annotation, source.nothings):
            yield _found(source, node, ast.unparse(node.target), "is typed Any")
        return
    if not isinstance(node, ast.ClassDef):
        yield from _in_function(source, node, "")
        return
    for owner, definition in library.classes(source, node):
        overloaded: set[str] = set()
        for member in _members(definition.body):
            if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
                name = member.target.id
                if not name.startswith("_") and says_nothing(member.annotation, owner.nothings):
                    yield _found(owner, member, f"{definition.name}.{name}", "is typed Any")
            elif isinstance(member, ast.ClassDef) and not member.name.startswith("_"):
                yield from _untyped(library, owner, member)
            elif isinstance(member, FUNCTIONS) and _is_public(member.name):
                if any(ast.unparse(one).endswith("overload") for one in member.decorator_list):
                    overloaded.add(member.name)
                elif member.name in overloaded:
                    continue  # what stands behind overloads is nobody's signature
                yield from _in_function(owner, member, f"{definition.name}.")
            if isinstance(member, FUNCTIONS):
                yield from _own_attributes(owner, member, definition.name)


def _own_attributes(source: Source, method: ast.AST, owner: str) -> Iterator[tuple[str, Finding]]:
    """Public attributes that a method gives itself: `self.x: Any = …`."""
    for node in ast.walk(method):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            name = node.target.attr
            itself = isinstance(node.target.value, ast.Name) and node.target.value.id == "self"
            if itself and not name.startswith("_") and says_nothing(node.annotation, source.nothings):
                yield _found(source, node, f"{owner}.{name}", "is typed Any")


def _is_public(method: str) -> bool:
    """A method that people call, by its name or by the language: `obj[3]`, `len(obj)`."""
    return not method.startswith("_") or (method.startswith("__") and method.endswith("__"))


def _members(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module or class that a type checker reads, those under an `if` or a `try` included."""
    for node in body:
        if isinstance(node, ast.If):
            test = ast.unparse(node.test)
            unread = node.orelse if test == "TYPE_CHECKING" else node.body if "TYPE_CHECKING" in test else None
            yield from (one for part in (node.body, node.orelse) if part is not unread for one in _members(part))
        elif isinstance(node, ast.Try):
            parts = (node.body, *(one.body for one in node.handlers), node.orelse, node.finalbody)
            yield from (one for part in parts for one in _members(part))
        else:
            yield node


def _in_function(source: Source, node: ast.AST, owner: str) -> Iterator[tuple[str, Finding]]:
    assert isinstance(node, FUNCTIONS)
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    is_bound = bool(owner) and not any(ast.unparse(one) == "staticmethod" for one in node.decorator_list)
    for one in [*named[is_bound:], *filter(None, (arguments.vararg, arguments.kwarg))]:
        if says_nothing(one.annotation, source.nothings):
            yield _found(source, one, f"{owner}{node.name}({one.arg})", "is typed Any")
    if node.name != "__init__" and says_nothing(node.returns, source.nothings):
        yield _found(source, node, f"{owner}{node.name}", "returns Any")


def _found(source: Source, node: ast.AST, name: str, problem: str) -> tuple[str, Finding]:
    key = f"{source.name}.{name}"
    return key, Finding(source.path, getattr(node, "lineno", 0), f"{key} {problem}: say what it is, or why not")


def says_nothing(annotation: ast.expr | None, nothings: Collection[str] = ("Any",)) -> bool:
    """Whether an annotation is missing, `Any` (by one of its names), or as wide as `Any`."""
    if annotation is None:
        return True
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return says_nothing(_parsed(annotation.value), nothings)
    if isinstance(annotation, ast.BinOp):
        return says_nothing(annotation.left, nothings) or says_nothing(annotation.right, nothings)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).rpartition(".")[2] in WRAPPERS:
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        kept = parts[:1] if ast.unparse(annotation.value).endswith("Annotated") else parts
        return any(says_nothing(part, nothings) for part in kept)
    return ast.unparse(annotation).rpartition(".")[2] in nothings


def _parsed(text: str) -> ast.expr:
    """The annotation that a text writes; a text that is none says that much itself."""
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.Constant(0)


def _assigns(node: ast.stmt, name: str) -> TypeGuard[ast.Assign | ast.AugAssign | ast.AnnAssign]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)
