"""Parity is built of rooms: data goes through them in one order, and each has a door."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections import Counter
from pathlib import Path

import pytest

import lockstep
from lockstep import parity

ROOT = Path(lockstep.__file__).parent
ROOMS = ["trace", "recording", "floors", "comparison", "locate", "causes", "report"]
FOUNDATIONS = {"errors", "lazy"}
OWN = sorted((ROOT / "parity").rglob("*.py")) + sorted((ROOT / "cli" / "parity").rglob("*.py"))


def test_every_room_is_in_the_plan():
    folders = {p.name for p in (ROOT / "parity").iterdir() if (p / "__init__.py").is_file()}
    assert folders == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_from_those_before_it(room):
    allowed = FOUNDATIONS | set(ROOMS[: ROOMS.index(room) + 1])
    for path in (ROOT / "parity" / room).rglob("*.py"):
        package = ["parity", *path.relative_to(ROOT / "parity").parent.parts]
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                target = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
                assert target[1] in allowed, f"{path.name} of {room} imports {'.'.join(target)}"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_has_a_door(room):
    module = importlib.import_module(f"lockstep.parity.{room}")
    assert module.__doc__
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_no_room_hides_a_function():
    """`import lockstep.parity.x` binds the name x in the package: no room may be called like a public name."""
    for found in pkgutil.walk_packages(parity.__path__, "lockstep.parity."):
        importlib.import_module(found.name)
    for name in parity.__all__:
        assert callable(getattr(parity, name)), name


def class_names(paths) -> Counter:
    return Counter(n.name for p in paths for n in ast.walk(ast.parse(p.read_text())) if isinstance(n, ast.ClassDef))


def test_no_class_of_parity_shares_its_name():
    everywhere = class_names(ROOT.rglob("*.py"))
    assert not {name: everywhere[name] for name in class_names(OWN) if everywhere[name] > 1}
