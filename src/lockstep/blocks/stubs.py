"""Type stubs for what editors and type checkers cannot see: names that are resolved late, calls derived from blocks.

`python -m lockstep.blocks.stubs` writes a `.pyi` for the package, for the values of the vocabulary, and beside each
module that defines a public pipeline; `--check` says which are out of date instead. Names of modules with pipelines can
be given.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

from .. import files
from .named_values import NamedValues
from .params import public_class
from .stub_calls import PipelineFace
from .stub_types import Types
from .vocabulary import VOCABULARY

PACKAGE = __package__.partition(".")[0]
PARITY = f"{PACKAGE}.parity"
PROGRAMS = (
    "cli",
    "training",
    "finetuning",
    "serve",
    "embedded",
    "kit",
)  # run, not imported: a user's type checker need not read them
HEADER = """\
\"\"\"Written by `python -m lockstep.blocks.stubs`; do not edit.\"\"\"
# ruff: noqa
# fmt: off
# mypy: disable-error-code="override"
"""  # a family takes other inputs than the one that it is made from


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
    body = [*_aliases(tree, "\n".join(body)), *body]
    body += [_made_class_stub(kind, hints) for kind in _made_classes(module, tree)]
    kept = [_absolute(node, module_name) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    future = "from __future__ import annotations"
    imports = sorted({line for line in (*kept, *hints.imports()) if line != future})
    return "\n".join([HEADER, *imports, "", *body])


def _aliases(tree: ast.Module, text: str) -> list[str]:
    """The short names of types that a module gives itself, as far as its signatures use them."""
    given = [(node.targets[0], node) for node in tree.body if isinstance(node, ast.Assign) and len(node.targets) == 1]
    used = [node for name, node in given if isinstance(name, ast.Name) and re.search(rf": {name.id}\b", text)]
    return [f"{ast.unparse(node)}\n" for node in used]


def _absolute(node: ast.Import | ast.ImportFrom, module_name: str) -> str:
    """An import of the module, with its dots written out."""
    if isinstance(node, ast.ImportFrom) and node.level:
        inside = hasattr(importlib.import_module(module_name), "__path__")  # a package's dot is the package itself
        names = module_name.split(".")
        base = names[: len(names) - node.level + inside]
        node = ast.ImportFrom(".".join([*base, *([node.module] if node.module else [])]), node.names, 0)
    return ast.unparse(node)


def _made_classes(module: ModuleType, tree: ast.Module) -> list[type]:
    """The public classes of a module that no line of it defines: they are made from a table."""
    written = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    public = [getattr(module, name) for name in getattr(module, "__all__", ()) if name not in written]
    return [kind for kind in public if isinstance(kind, type) and kind.__module__ == module.__name__]


def _made_class_stub(kind: type, hints: Types) -> str:
    base = hints.named(kind.__mro__[1].__module__, kind.__mro__[1].__name__)
    head = ast.parse(f"class {kind.__name__}({base}): ...").body[0]
    assert isinstance(head, ast.ClassDef)
    return _class_stub(head, kind, hints)


def _class_stub(node: ast.ClassDef, kind: type, hints: Types) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    if hasattr(kind, "default_tree") and kind.default_tree() is not None:
        face = PipelineFace(kind, hints, public_pipelines())
        lines = [*face.helpers(), *lines, *face.members()]
    lines += [f"    {ast.unparse(part.target)}: {ast.unparse(part.annotation)}" for part in _attributes(node)]
    lines += [_function(part, "    ") for part in node.body if isinstance(part, ast.FunctionDef)]
    if len(lines) == 1:
        lines.append("    ...")
    return "\n".join(lines) + "\n"


def _attributes(node: ast.ClassDef) -> list[ast.AnnAssign]:
    """The public attributes that a class says the type of."""
    annotated = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    return [part for part in annotated if not ast.unparse(part.target).startswith("_")]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, margin: str) -> str:
    """The head of a function."""
    bare = copy.copy(node)
    bare.body = [ast.Expr(ast.Constant(...))]
    return "\n".join(margin + line for line in ast.unparse(ast.fix_missing_locations(bare)).splitlines())


@functools.cache
def public_pipelines() -> list[type]:
    """The public pipelines that have blocks of their own."""
    package = importlib.import_module(PACKAGE)
    classes = [public_class(name, "stubs") for name in package.__all__ if name.endswith("Pipeline")]
    return [kind for kind in classes if hasattr(kind, "default_tree") and kind.default_tree() is not None]


def pipeline_modules() -> list[str]:
    """The modules that define public pipelines."""
    return sorted({kind.__module__ for kind in public_pipelines()})


def package_stub() -> str:
    """The stub of the package: every public name from the module that defines it, and the modules themselves."""
    package = importlib.import_module(PACKAGE)
    folder = Path(str(package.__file__)).parent
    found = {path.stem for path in (*folder.glob("*.py"), *(init.parent for init in folder.glob("*/__init__.py")))}
    modules = sorted(name for name in found if not name.startswith("_") and name not in PROGRAMS)
    # mypy follows an import under TYPE_CHECKING last, so that the package does not come before what it is made of
    lines = ["from typing import TYPE_CHECKING", "", "if TYPE_CHECKING:"]
    lines += [f"    from . import {name} as {name}" for name in modules]
    lines += [f"    from .{package._WHERE[name]} import {name} as {name}" for name in sorted(package._WHERE)]
    listed = textwrap.fill(", ".join(f'"{name}"' for name in package.__all__), 114)
    return "\n".join([HEADER, *lines, "", "__version__: str", "__all__ = [", textwrap.indent(listed, "    "), "]", ""])


def values_stub() -> str:
    """The stub of the values that runs hold: every name of the vocabulary with its type.

    What no default fills in may be None in some blocks, while others declare that they cannot do without: `| Any` asks
    neither to check for it, and keeps the rest of the type.
    """
    hints, lines = Types(), []
    anything = hints.named("typing", "Any")
    for name, value in VOCABULARY.items():
        absent = f" | {anything}" if value.default is None else ""
        lines.append(f"    {name}: {hints.text(value.made_as or value.type_hint)}{absent}")
    lines.append(f"    def __getattr__(self, name: str) -> {anything}: ...  # the values that are some block's own")
    return "\n".join([HEADER, *hints.imports(), "", "class NamedValues:", "    __slots__ = ()", *lines, ""])


def room_stub(module: str) -> str:
    """The stub of a module whose names are resolved on first use: each from where it is defined."""
    room = importlib.import_module(module)
    homes = {name: getattr(room, name).__module__.removeprefix(module) for name in room.__all__}
    lines = [f"from {homes[name]} import {name} as {name}" for name in sorted(homes)]
    rooms = sorted({home.split(".")[1] for home in homes.values()} - set(homes))
    listed = textwrap.fill(", ".join(f'"{name}"' for name in room.__all__), 114)
    lines = [*(f"from . import {name} as {name}" for name in rooms), *lines]
    return "\n".join([HEADER, *lines, "", "__all__ = [", textwrap.indent(listed, "    "), "]", ""])


def every_stub() -> dict[str, str]:
    """Module -> the stub that it has to have."""
    return {
        PACKAGE: package_stub(),
        PARITY: room_stub(PARITY),
        NamedValues.__module__: values_stub(),
        **{name: stub_for(name) for name in pipeline_modules()},
    }


def stub_path(module: str) -> Path:
    """Where the stub of a module lies."""
    return Path(str(importlib.import_module(module).__file__)).with_suffix(".pyi")


def main(arguments: list[str]) -> int:
    """Write the stubs, or with `--check` list those that are out of date; stubs of nothing are listed by both."""
    check, named = "--check" in arguments, [a for a in arguments if not a.startswith("-")]
    stubs = {stub_path(name): text for name, text in ({n: stub_for(n) for n in named} or every_stub()).items()}
    stale = [path for path, text in stubs.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    orphans = [] if named else [path for path in stub_path(PACKAGE).parent.rglob("*.pyi") if path not in stubs]
    for path in stale:
        if not check:
            files.write_text(path, stubs[path])
        print(f"{path} {'is out of date: run python -m lockstep.blocks.stubs' if check else 'written'}")
    for path in orphans:
        print(f"{path} belongs to no module that has a stub: delete it")
    return 1 if orphans or (check and stale) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
