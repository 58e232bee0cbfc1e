"""Imports point one way: the table here is the plan of the house."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from lockstep.kit.checks.finding import Finding

PACKAGE = "lockstep"
BASE = {
    "errors",
    "configuration",
    "extensions",
    "files",
    "memory",
    "notes",
    "outputs",
    "randomness",
    "images",
    "places",
    "__init__",
}
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
    "parallel": {"attention", "models", "guiders", "blocks"},
    "pipelines": {"blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention", "parallel"},
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
        "parallel",
        "parity",
        "serve",
        "fleet",
        "capacity",
        "kit",
        "measure",
    },
    "measure": {"pipelines", "blocks", "models"},
    "kit": {"pipelines", "blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention", "parity"},
    "fleet": {"media", "blocks"},
    "capacity": set(),
    "serve": {
        "fleet",
        "media",
        "pipelines",
        "blocks",
        "loaders",
        "models",
        "schedulers",
        "guiders",
        "tokenizers",
        "attention",
    },
}
FAMILIES = "pipelines"  # its folders are families, which know these neighbours and not each other
NEIGHBOURS = {"pipeline", "corrections", "single_file", "common"}
REFERENCES = {"diffusers", "transformers"}
# who may ask the package as a whole, which leads everywhere: those who look up a public class by its name
WHOLE = {"pipelines/finding.py", "models/modeling.py", "cli/replay.py", "cli/parity/config.py", "kit/new/taken.py"}
# functions that import what a text names; the text has to stand there, or the file here with its reason
BY_TEXT = {"import_module", "__import__", "resolve_name", "run_module"}
BY_ANY_TEXT = {
    "__init__.py": "gives the public names, each from the module that the table in it names",
    "places.py": "gives the reference's names, each from the module that the table in it names",
    "blocks/params.py": "looks a class up by its public name",
    "blocks/stubs.py": "writes the stubs of modules that are listed in it",
    "parity/lazy.py": "gives the names of a room of parity, from that room",
    "parity/recording/onnx_graph.py": "asks for an extra by the name of its package",
    "measure/peers.py": "asks for other libraries that may be installed, to measure beside them",
    "cli/parity/runs.py": "runs the file or module that a person names",
    "kit/checks/declared.py": "follows an import of the code that it looks at",
    "kit/checks/running.py": "imports the package that a person asks to have checked",
}
RUNS_PORTS = "parity/causes/repairs/sources.py"  # the code of a port, with one line of it written otherwise
RUN_TEXT = {"exec", "eval", "compile", "pydoc.locate"}  # run or find what a text says: nobody sees what it imports


def findings(root: Path) -> list[Finding]:
    """Every import under the package's folder that the table does not allow,
    and every package that it does not list."""
    found = [finding for path in sorted(root.rglob("*.py")) for finding in _in_file(path, root)]
    for folder in sorted(path.parent for path in root.glob("*/__init__.py")):
        if folder.name not in ALLOWED:
            found.append(Finding(folder / "__init__.py", 1, f"package {folder.name!r} is not in the table of imports"))
    return found


def _in_file(path: Path, root: Path) -> Iterator[Finding]:
    families = {folder.parent.name for folder in (root / FAMILIES).glob("*/pipeline.py")}
    parts = path.relative_to(root).parts
    own = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
    for line, name in imported_names(path, root):
        whole = name == PACKAGE and "/".join(parts) not in WHOLE
        asks = f"imports {PACKAGE} as a whole: import the module that defines the name" if whole else None
        problem = asks or _problem(own, name) or _problem_in_family(parts, name, families)
        if problem:
            yield Finding(path, line, problem)
    if "/".join(parts) not in BY_ANY_TEXT:
        yield from (Finding(path, line, problem) for line, problem in _out_of_sight(path))


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


def _problem_in_family(parts: tuple[str, ...], name: str, families: set[str]) -> str | None:
    """A family that imports another one, or what all of them share that imports one; two of them meet in `common`."""
    prefix = f"{PACKAGE}.{FAMILIES}."
    if parts[0] != FAMILIES or not name.startswith(prefix):
        return None
    own, other = parts[1].removesuffix(".py"), name.removeprefix(prefix).partition(".")[0]
    if len(parts) < 3:
        return f"imports {name}: what all families share may know none of them" if other in families else None
    return None if other in {own} | NEIGHBOURS else f"imports {name}: {own} may not know {other}"


def imported_names(path: Path, root: Path) -> list[tuple[int, str]]:
    """Line and absolute name of what a file imports, functions' inner imports included."""
    package = [PACKAGE, *path.relative_to(root).parent.parts]
    names, tree = [], ast.parse(path.read_text(encoding="utf-8"))
    by_text = BY_TEXT | {alias.asname for alias in _aliases(tree) if alias.name in BY_TEXT and alias.asname}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):  # without `as`, `import a.b` binds `a`
            names += [(node.lineno, alias.name) for alias in node.names]
            names += [(node.lineno, PACKAGE) for alias in node.names if _binds_the_package(alias)]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            rooms = (PACKAGE, f"{PACKAGE}.{FAMILIES}")  # whose names are packages: `from .. import flux`
            inner = [f"{module}.{alias.name}" for alias in node.names] if module in rooms else [module]
            names += [(node.lineno, name.removesuffix(".__init__")) for name in inner]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "sys.modules":
            text = node.slice.value if isinstance(node.slice, ast.Constant) else None
            names += [(node.lineno, text)] if isinstance(text, str) else []
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in by_text:
            texts = [
                _text(node, place, names_of) for place, names_of in enumerate((("name", "mod_name"), ("package",)))
            ]
            if texts[0]:
                start = texts[1].split(".") if texts[1] else package
                names.append((node.lineno, _absolute(texts[0].partition(":")[0], start)))
    return names


def _out_of_sight(path: Path) -> Iterator[tuple[int, str]]:
    """Line and problem of what imports, or may import, something that cannot be read from the source."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in RUN_TEXT and not path.match(RUNS_PORTS):
            yield node.lineno, f"runs a text by {ast.unparse(node.func)}: write the code itself"
        elif isinstance(node, ast.Call) and _by_text(node.func) and not _stands_there(node.args[:1]):
            yield node.lineno, f"imports by a text that does not stand there: {ast.unparse(node)}"
        elif isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in called and _by_text(node):
            yield node.lineno, f"gives {ast.unparse(node)} another name: call it where it is needed"


def _by_text(called: ast.expr) -> bool:
    return ast.unparse(called).rpartition(".")[2] in BY_TEXT


def _stands_there(arguments: list[ast.expr]) -> bool:
    return all(isinstance(one, ast.Constant) or ast.unparse(one) == "__package__" for one in arguments)


def _binds_the_package(alias: ast.alias) -> bool:
    return alias.asname is None and alias.name.startswith(f"{PACKAGE}.")


def _aliases(tree: ast.AST) -> list[ast.alias]:
    return [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]


def _text(call: ast.Call, place: int, names: tuple[str, ...]) -> str:
    """The text that a call gives at a place or by name; nothing where it is no literal."""
    given = [*call.args[place : place + 1], *(one.value for one in call.keywords if one.arg in names)]
    return next((one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)), "")


def _absolute(name: str, package: list[str]) -> str:
    """A module's name with the dots before it written out."""
    bare = name.lstrip(".")
    up = len(name) - len(bare)
    return ".".join([*package[: len(package) - up + 1], bare]) if up else name
