"""Imports point one way: this table is the plan of the house."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep

ROOT = Path(lockstep.__file__).parent
BASE = {"errors", "configuration", "files", "outputs", "randomness", "images", "__init__"}
# package -> the packages of lockstep that it may import, besides itself and the base
ALLOWED = {
    "tokenizers": set(),
    "attention": set(),
    "models": {"attention"},
    "schedulers": set(),
    "guiders": {"attention"},
    "loaders": {"models", "tokenizers"},
    "blocks": {"schedulers", "guiders"},
    "pipelines": {"blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention"},
    "training": {"schedulers"},
    "finetuning": {"training", "pipelines"},
    "embedded": {"training", "loaders", "models", "schedulers", "guiders", "tokenizers"},
    "__main__": {"cli"},
    "parity": None,  # nothing of lockstep at all
    "cli": {
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
    },
    "serve": {"pipelines", "blocks", "loaders", "models", "schedulers", "guiders", "tokenizers", "attention"},
}
REFERENCES = {"diffusers", "transformers"}


def modules():
    return sorted(p for p in ROOT.rglob("*.py"))


def imported_names(path: Path) -> set[str]:
    """Absolute names of what a file imports, functions' inner imports included."""
    package = ["lockstep", *path.relative_to(ROOT).parent.parts]
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "lockstep" else {module}
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path):
    parts = path.relative_to(ROOT).parts
    own = parts[0].removesuffix(".py") if len(parts) == 1 else parts[0]
    for name in imported_names(path):
        top = name.split(".")[0]
        assert top not in REFERENCES or own == "parity", (
            f"{path.name} imports {top}, which is a reference for tests only"
        )
        if top != "lockstep":
            continue
        target = name.split(".")[1] if "." in name else "__init__"
        if target == own:
            continue
        if own in BASE:
            assert target in BASE or target == "__version__", f"{path.name} is of the base and imports {name}"
        elif ALLOWED[own] is None:
            pytest.fail(f"{path.relative_to(ROOT)} imports {name}: {own} stands beside the library")
        else:
            assert target in ALLOWED[own] | BASE | {"__version__"}, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("path", sorted((ROOT / "pipelines").glob("*/*.py")), ids=lambda p: "/".join(p.parts[-2:]))
def test_a_family_imports_no_other_family(path):
    own = path.parent.name
    for name in imported_names(path):
        family = name.removeprefix("lockstep.pipelines.").split(".")[0] if name.startswith("lockstep.pipelines.") else own
        assert family in (own, "pipeline", "index_names", *(["common"] if own != "common" else [])), f"{own} imports {name}"


def test_every_package_stands_in_the_table():
    packages = {p.name for p in ROOT.iterdir() if p.is_dir() and (p / "__init__.py").is_file()}
    assert packages <= set(ALLOWED), packages - set(ALLOWED)


def test_import_is_instant_and_brings_no_torch():
    code = (
        "import time, sys; start = time.perf_counter(); import lockstep; took = time.perf_counter() - start;"
        "heavy = {'torch', 'transformers', 'numpy', 'diffusers'} & set(sys.modules); print(took); assert not heavy, heavy"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(times) < 0.15


def test_public_names_resolve():
    for name in lockstep.__all__:
        assert getattr(lockstep, name) is not None
    with pytest.raises(AttributeError, match="did you mean"):
        lockstep.ModelMixn


def test_references_are_in_no_requirement_of_the_core():
    import tomllib

    project = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text())["project"]
    assert not [need for need in project["dependencies"] if need.startswith(tuple(REFERENCES))]
