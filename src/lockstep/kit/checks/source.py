"""A family's files as trees, and where their classes and functions are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...errors import FileFormatError, NotFoundError
from ..new.homes import LAYOUT, Home

CODE = (
    "model",
    "map",
    "encoders",
    "before_denoise",
    "denoise",
    "decoders",
    "blocks",
    "pipeline",
    "scheduler",
    "guider",
)
KINDS = ("model", "pipeline", "scheduler", "guider")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.path.read_text(encoding="utf-8"))
        except SyntaxError as problem:
            raise FileFormatError(f"{self.path}:{problem.lineno}: {problem.msg}. Repair it first.") from problem

    @cached_property
    def imported(self) -> dict[str, str]:
        """The names that this file gives to what it imports: `np` -> `numpy`, `randn` -> `torch.randn`."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {one.asname: one.name for one in node.names if one.asname}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
        return found

    def meant(self, node: ast.Call) -> str:
        """The dotted name that a call names, whatever the file calls it: `torch.randn` for a `randn` from there."""
        first, dot, rest = called(node).partition(".")
        return f"{self.imported.get(first, first)}{dot}{rest}"

    @property
    def classes(self) -> list[ast.ClassDef]:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef)]

    def functions(self) -> Iterator[tuple[ast.ClassDef | None, Function]]:
        """Every function with the class that it is a method of."""
        for node in self.tree.body:
            if isinstance(node, Function):
                yield None, node
            elif isinstance(node, ast.ClassDef):
                yield from ((node, one) for one in node.body if isinstance(one, Function))


@dataclass(frozen=True)
class Family:
    """All that an integration consists of, as far as it is there."""

    name: str
    home: Home

    def file(self, part: str) -> Path | None:
        """The file of a part, where there is one."""
        path = self.home.file(part, self.name)
        return path if path.is_file() else None

    @cached_property
    def code(self) -> list[Source]:
        """The files that are the port; what else lies in the family's folder counts, too."""
        paths = [path for part in CODE if (path := self.file(part)) is not None]
        folder = self.home.file("family", self.name).parent
        paths += [path for path in sorted(folder.glob("*.py")) if path not in paths] if folder.is_dir() else []
        return [Source(path) for path in paths]

    @cached_property
    def tests(self) -> list[Source]:
        """The files that prove it."""
        parts = [part for part in LAYOUT if part.startswith(("reference", "port")) or "test" in part]
        parts += ["scheduler_reference", "guider_reference"]
        return [Source(path) for part in dict.fromkeys(parts) if (path := self.file(part)) is not None]

    @cached_property
    def kinds(self) -> list[str]:
        """What it consists of: a model, a pipeline (or what is there of its folder), a scheduler, a guider."""
        begun = {"pipeline"} if any(self.home.file("family", self.name).parent.glob("*.py")) else set()
        return [kind for kind in KINDS if kind in begun or self.file(kind) is not None]

    @property
    def models(self) -> list[Source]:
        """The file of the model, where the family has one."""
        path = self.file("model")
        return [] if path is None else [Source(path)]


def family_in(name: str, home: Home) -> Family:
    """The family of that name, if anything of it is there."""
    family = Family(name, home)
    if not family.code:
        wanted = ", ".join(home.path(part, name) for part in KINDS)
        raise NotFoundError(
            f"There is nothing called {name!r} in {home.root}: looked for {wanted}. "
            f"`lockstep new` writes one, and --package names a package of your own."
        )
    return family


def called(node: ast.Call) -> str:
    """The dotted name that a call names: `torch.randn`, `self.norm`."""
    return dotted(node.func)


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def bases(node: ast.ClassDef) -> set[str]:
    """The last words of a class's bases."""
    return {dotted(base).rpartition(".")[2] for base in node.bases}
