"""Type stubs for pipelines: their calls are derived from blocks, which editors and type checkers cannot see.

`python -m lockstep.blocks.stubs` writes a `.pyi` beside each module that defines a public pipeline; `--check` says
which are out of date instead. Module names can be given.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import importlib
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

from .. import files
from .params import public_class
from .run import RunOptions
from .schema import annotation, option_defaults
from .user_inputs import user_inputs
from .wiring import check_wiring

HEADER = '"""Written by `python -m lockstep.blocks.stubs`; do not edit."""\n# ruff: noqa\n# fmt: off\n'
OPTION_IMPORTS = (
    ("typing", "Any"),
    ("collections.abc", "Callable"),
    ("collections.abc", "Mapping"),
    ("lockstep.blocks", "Checkpoint"),
)


class Types:
    """Types as source text; remembers what has to be imported for them."""

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set(OPTION_IMPORTS)
        self.modules: set[str] = {"torch"}

    def text(self, hint: Any) -> str:
        origin, members = typing.get_origin(hint), typing.get_args(hint)
        if hint is None or hint is type(None):
            return "None"
        if hint is Ellipsis:
            return "..."
        if hint is Any:
            return "Any"
        if origin in (typing.Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.text(member) for member in members))
        if origin is typing.Literal:
            self.names.add(("typing", "Literal"))
            return f"Literal[{', '.join(repr(member) for member in members)}]"
        if origin is not None and members:
            return f"{self.text(origin)}[{', '.join(self.text(member) for member in members)}]"
        return self._class(hint)

    def _class(self, kind: Any) -> str:
        if not isinstance(kind, type):
            return "Any"
        if kind.__module__ == "builtins":
            return kind.__name__
        if kind.__module__.partition(".")[0] == "torch":
            return f"torch.{kind.__name__}"
        self.names.add((kind.__module__, kind.__name__))
        return kind.__name__

    def imports(self) -> list[str]:
        lines = [f"import {module}" for module in sorted(self.modules)]
        return lines + [f"from {module} import {name}" for module, name in sorted(self.names)]


def stub_for(module_name: str) -> str:
    """The stub of one module: its classes and functions, with the calls that its pipelines really take."""
    module = importlib.import_module(module_name)
    tree = ast.parse(inspect.getsource(module))
    hints = Types()
    body: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body.append(_function(node, ""))
        elif isinstance(node, ast.ClassDef):
            body.append(_class_stub(node, getattr(module, node.name), hints))
    kept = [_absolute(node, module_name) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    future = "from __future__ import annotations"
    imports = sorted({line for line in (*kept, *hints.imports()) if line != future})
    return "\n".join([HEADER, *imports, "", *body])


def _absolute(node: ast.Import | ast.ImportFrom, module_name: str) -> str:
    """An import of the module, with its dots written out."""
    if isinstance(node, ast.ImportFrom) and node.level:
        base = module_name.split(".")[: -node.level]
        node = ast.ImportFrom(".".join([*base, *([node.module] if node.module else [])]), node.names, 0)
    return ast.unparse(node)


def _class_stub(node: ast.ClassDef, kind: type, hints: Types) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    blocks = kind.default_tree() if hasattr(kind, "default_tree") else None
    if blocks is not None:
        lines += [f"    {spec.name}: {hints.text(spec.type_hint or Any)}" for spec in blocks.expected_components]
        lines.append(_call(blocks, hints))
    lines += [_function(part, "    ") for part in node.body if isinstance(part, ast.FunctionDef)]
    if len(lines) == 1:
        lines.append("    ...")
    return "\n".join(lines) + "\n"


def _call(blocks: Any, hints: Types) -> str:
    inputs = user_inputs(check_wiring(blocks))
    lines = ["    def __call__(", "        self,"]
    for place, param in enumerate(inputs):
        default = "" if param.required else f" = {param.default!r}"
        lines.append(f"        {param.name}: {hints.text(annotation(param))}{default},")
        if place == 0:
            lines.append("        *,")
    written = {option.name: option.type for option in dataclasses.fields(RunOptions)}
    for name, default in option_defaults().items():
        shown = repr(default) if default is None or isinstance(default, (bool, int, str)) else "..."
        lines.append(f"        {name}: {written[name]} = {shown},")
    return "\n".join([*lines, "    ) -> Any: ..."])


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, margin: str) -> str:
    """The head of a function."""
    bare = copy.copy(node)
    bare.body = [ast.Expr(ast.Constant(...))]
    return "\n".join(margin + line for line in ast.unparse(ast.fix_missing_locations(bare)).splitlines())


def pipeline_modules() -> list[str]:
    """The modules that define public pipelines."""
    package = importlib.import_module(__package__.partition(".")[0])
    classes = [public_class(name, "stubs") for name in package.__all__ if name.endswith("Pipeline")]
    own = [kind for kind in classes if hasattr(kind, "default_tree") and kind.default_tree() is not None]
    return sorted({kind.__module__ for kind in own})


def main(arguments: list[str]) -> int:
    """Write the stubs, or with `--check` list those that are out of date."""
    check = "--check" in arguments
    stale = []
    for name in [a for a in arguments if not a.startswith("-")] or pipeline_modules():
        path = Path(str(importlib.import_module(name).__file__)).with_suffix(".pyi")
        wanted = stub_for(name)
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            continue
        stale.append(path)
        if not check:
            files.write_text(path, wanted)
    for path in stale:
        print(f"{path} {'is out of date: run python -m lockstep.blocks.stubs' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
