"""Imports point one way: the table here is the plan of the house."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from lockstep.kit.checks.finding import Finding

PACKAGE = "lockstep"
BASE = {"errors", "configuration", "extensions", "files", "notes", "outputs", "randomness", "images", "__init__"}
# package -> the packages of lockstep that it may import, besides itself and the base
ALLOWED: dict[str, set[str] | None] = {
    "media": set(),
    "tokenizers": set(),
    "kernels": set(),
    "attention": {"kernels"},
    "models": {"attention", "kernels"},
    "schedulers": set(),
    "guiders": {"attention"},
    "loaders": {"models", "tokenizers"},
    "blocks": {"media", "schedulers", "guiders"},
    "pipelines": {"blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention"},
    "training": {"schedulers"},
    "finetuning": {"training", "pipelines"},
    "embedded": {"training", "loaders", "models", "schedulers", "guiders", "tokenizers"},
    "__main__": {"cli"},
    "parity": None,  # nothing of lockstep at all
    "cli": {
        "kernels",
        "media",
        "pipelines",
        "blocks",
        "loaders",
        "models",
        "schedulers",
        "guiders",
        "tokenizers",
        "attention",
        "training",
        "finetuning",
        "embedded",
        "parity",
        "serve",
        "kit",
    },
    "kit": {"pipelines", "blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention", "parity"},
    "serve": {"media", "pipelines", "blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention"},
}
FAMILIES = "pipelines"  # its folders are families, which know these neighbours and not each other
NEIGHBOURS = {"pipeline", "corrections", "single_file", "common"}
REFERENCES = {"diffusers", "transformers"}
BY_TEXT = {"import_module", "__import__"}  # functions that import what a text names


def findings(root: Path) -> list[Finding]:
    """Every import under the package's folder that the table does not allow,
    and every package that it does not list."""
    found = [finding for path in sorted(root.rglob("*.py")) for finding in _in_file(path, root)]
    for folder in sorted(path.parent for path in root.glob("*/__init__.py")):
        if folder.name not in ALLOWED:
            found.append(Finding(folder / "__init__.py", 1, f"package {folder.name!r} is not in the table of imports"))
    return found


def _in_file(path: Path, root: Path) -> Iterator[Finding]:
    parts = path.relative_to(root).parts
    own = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
    for line, name in imported_names(path, root):
        problem = _problem(own, name) or _problem_in_family(parts, name)
        if problem:
            yield Finding(path, line, problem)


def _problem(own: str, name: str) -> str | None:
    """What is wrong with an import by one of the house's packages, if anything is."""
    top, _, rest = name.partition(".")
    if top in REFERENCES and own != "parity":
        return f"imports {top}, which is a reference for tests only"
    target = rest.partition(".")[0] or "__init__"
    if top != PACKAGE or target == own:
        return None
    if own in BASE:
        return None if target in BASE | {"__version__"} else f"is of the base and imports {name}"
    allowed = ALLOWED.get(own, set())
    if allowed is None:
        return f"imports {name}: {own} stands beside the library"
    if target in allowed | BASE | {"__version__"}:
        return None
    return f"imports {name}, but {own} may import only: {', '.join(sorted(allowed)) or 'the base'}"


def _problem_in_family(parts: tuple[str, ...], name: str) -> str | None:
    """A family that imports another one; what two of them need lives in the common room."""
    prefix = f"{PACKAGE}.{FAMILIES}."
    if len(parts) < 3 or parts[0] != FAMILIES or not name.startswith(prefix):
        return None
    own, other = parts[1], name.removeprefix(prefix).partition(".")[0]
    return None if other in {own} | NEIGHBOURS else f"imports {name}: {own} may not know {other}"


def imported_names(path: Path, root: Path) -> list[tuple[int, str]]:
    """Line and absolute name of what a file imports, functions' inner imports included."""
    package = [PACKAGE, *path.relative_to(root).parent.parts]
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            inner = [f"{module}.{alias.name}" for alias in node.names] if module == PACKAGE else [module]
            names += [(node.lineno, name) for name in inner]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_TEXT:
            text = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if isinstance(text, str):
                names.append((node.lineno, _absolute(text, package)))
    return names


def _absolute(name: str, package: list[str]) -> str:
    """A module's name with the dots before it written out."""
    bare = name.lstrip(".")
    up = len(name) - len(bare)
    return ".".join([*package[: len(package) - up + 1], bare]) if up else name
