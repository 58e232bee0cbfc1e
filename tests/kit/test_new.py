"""`lockstep new`: names, places, formatted files, registered names, nothing half-written."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep
from kit.scaffold import written
from lockstep.errors import InputError, UnknownNameError, WriteError
from lockstep.kit.new import FamilyNames, house_from, package_at, write_new, writing
from lockstep.kit.new.filling import arranged
from lockstep.kit.new.names import LONGEST

ROOT = Path(lockstep.__file__).parents[2]


@pytest.mark.parametrize(
    ("given", "name", "camel", "title"),
    [
        ("z_image", "z_image", "ZImage", "Z Image"),
        ("Z-Image", "z_image", "ZImage", "Z-Image"),
        ("ZImage", "z_image", "ZImage", "ZImage"),
        ("sunrise", "sunrise", "Sunrise", "Sunrise"),
        ("LTX-Video", "ltx_video", "LTXVideo", "LTX-Video"),
        ("sana 2b", "sana_2b", "Sana2b", "Sana 2b"),
    ],
)
def test_names_that_follow_from_one(given, name, camel, title):
    assert FamilyNames.of(given) == FamilyNames(name, camel, title)


@pytest.mark.parametrize("given", ["", "2fast", "a/b", "../x", "class", "späße", "x" * (LONGEST + 1)])
def test_a_name_that_cannot_be_one_is_refused(given):
    with pytest.raises(InputError, match="A name"):
        FamilyNames.of(given)


def test_imports_stand_as_a_linter_wants_them():
    imports = ["import torch", "from lockstep.models.x import Y", "from lockstep.a import b", "import os"]
    text = "\n".join(['"""Doc."""', "", *imports, "from acme.c import d", ""])
    house = '"""Doc."""\n\nimport os\n\nimport torch\nfrom acme.c import d\n\nfrom ..a import b\nfrom .x import Y\n'
    assert arranged(text, "lockstep.models.here", ("lockstep",)) == house
    third = ["import torch", "from lockstep.a import b", "from lockstep.models.x import Y"]
    package = "\n".join(['"""Doc."""', "", "import os", "", *third, "", "from .c import d", ""])
    assert arranged(text, "acme.here", ("acme",)) == package


def ruff(folder, *words, paths=(".",)):
    done = subprocess.run([sys.executable, "-m", "ruff", *words, *paths], cwd=folder, capture_output=True, text=True)
    return done.stdout if done.returncode else ""


@pytest.mark.parametrize("name", ["z", "a" * LONGEST, "Z-Image"])
def test_what_is_written_is_in_its_format_whatever_the_name(tmp_path, name):
    workflows = {"z": ["t2i"], "Z-Image": ["t2i", "i2i"]}.get(name, ["t2i", "i2i", "inpaint"])
    written(tmp_path / "zoo-of-models", ("pipeline", name, workflows), ("scheduler", name), ("guider", name))
    assert not ruff(tmp_path / "zoo-of-models", "format", "--check", "--diff")
    assert not ruff(tmp_path / "zoo-of-models", "check")


def all_but_python(folder, names):
    return [name for name in names if not name.endswith(".py") and "." in name] + ["__pycache__", "templates"]


@pytest.fixture
def house(tmp_path, monkeypatch):
    """The sources of the house, and the settings of its linter."""
    root = tmp_path / "house"
    shutil.copytree(ROOT / "src" / "lockstep", root / "src" / "lockstep", ignore=all_but_python)
    shutil.copy(ROOT / "pyproject.toml", root)
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "architecture.md", root / "docs")
    monkeypatch.setattr(writing, "_regenerated_stubs", lambda home: None)  # runs a process; `make quality` checks stubs
    return house_from(root / "src" / "lockstep" / "schedulers")


def test_in_the_house_names_become_public_and_files_keep_its_format(house):
    done = [write_new(kind, "half_moon", house, ["t2i", "i2i"]) for kind in ("pipeline", "scheduler", "guider")]
    sources = {path for one in done for path in [*one.new, *one.edited] if path.suffix == ".py"}
    table = ast.parse((house.root / "src/lockstep/__init__.py").read_text())
    assigned = next(n for n in table.body if isinstance(n, ast.Assign) and n.targets[0].id == "_DEFINES")
    defines = eval(compile(ast.Expression(assigned.value), "table", "eval"))
    assert defines["models.transformers.transformer_half_moon"] == ["HalfMoonTransformer2DModel"]
    assert defines["pipelines.half_moon.pipeline"] == ["HalfMoonPipeline"]
    assert {"HalfMoonScheduler", *lockstep._DEFINES["schedulers"]} == set(defines["schedulers"])
    assert {"HalfMoonGuidance", *lockstep._DEFINES["guiders"]} == set(defines["guiders"])
    assert (
        "from .half_moon import HalfMoonScheduler" in (house.root / "src/lockstep/schedulers/__init__.py").read_text()
    )
    assert " half_moon/ …" in (house.root / "docs" / "architecture.md").read_text()
    assert not ruff(house.root, "format", "--check", "--diff", paths=sources)
    assert not ruff(house.root, "check", paths=sources)


def test_a_model_that_is_there_is_kept_by_its_pipeline(tmp_path):
    home = package_at(tmp_path / "moon")
    write_new("model", "sunrise", home)
    model = home.file("model", "sunrise")
    model.write_text(model.read_text() + "# mine\n")
    home.file("page", "sunrise").unlink()
    done = write_new("pipeline", "sunrise", home)
    assert model in done.kept
    assert model.read_text().endswith("# mine\n")


def test_what_is_there_is_never_written_over(tmp_path):
    home = package_at(tmp_path / "moon")
    write_new("scheduler", "tide", home)
    with pytest.raises(InputError, match=r"'tide' is there already: src/moon/scheduler_tide.py"):
        write_new("scheduler", "tide", home)


def test_where_writing_fails_all_is_as_it_was(tmp_path, monkeypatch):
    home = package_at(tmp_path / "moon")
    write_new("scheduler", "tide", home)
    before = {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()}
    real = writing.write_text

    def failing(path, text):
        if path.name.startswith("test_"):
            raise OSError("no space left on device")
        real(path, text)

    monkeypatch.setattr(writing, "write_text", failing)
    with pytest.raises(WriteError, match="no space left on device Nothing was changed"):
        write_new("guider", "wave", home)
    assert {path: path.read_bytes() for path in home.root.rglob("*") if path.is_file()} == before


def test_workflows_that_are_not_offered_are_refused(tmp_path):
    home = package_at(tmp_path / "moon")
    with pytest.raises(UnknownNameError, match="did you mean 't2i'"):
        write_new("pipeline", "tide", home, ["t2"])
    with pytest.raises(InputError, match="t2i,i2i is offered, i2i is not"):
        write_new("pipeline", "tide", home, ["i2i"])
    assert not list(home.root.glob("**/*"))


def test_the_command_says_what_it_wrote_and_what_comes_next(lockstep, tmp_path):
    code, out, err = lockstep("new", "guider", "wave", "--package", "moon-models")
    assert code == 0
    assert "src/moon_models/guider_wave.py" in out
    assert "pytest tests/test_wave_guider.py" in err
    code, _, err = lockstep("new", "guider", "wave")
    assert code == 2
    assert "--package" in err
