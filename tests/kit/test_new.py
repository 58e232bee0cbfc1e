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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        *((given, "words of letters and digits") for given in ("", "2fast", "a/b", "../x", "späße", "a;b")),
        *((given, f"{given!r} is a word of Python itself") for given in ("class", "import", "lambda")),
    ],
)
def test_a_name_that_cannot_be_one_is_refused(given, told):
    with pytest.raises(InputError, match=told):
        FamilyNames.of(given)


@pytest.mark.parametrize(
    ("kind", "given", "told"),
    [
        ("scheduler", "euler", "EulerDiscreteScheduler .`euler` stands for it., which Lockstep brings"),
        ("scheduler", "dpm2_a", "KDPM2AncestralDiscreteScheduler"),
        ("scheduler", "DDIM", "is there already: DDIMScheduler, which Lockstep brings"),
        ("guider", "classifier_free", "ClassifierFreeGuidance"),
        ("pipeline", "zimage", "ZImagePipeline.*choose another name, such as my_zimage"),
        ("model", "flux", "FluxTransformer2DModel"),
        ("scheduler", "flow_match_euler_discrete", "is there already: FlowMatchEulerDiscreteScheduler"),
        ("guider", "x" * (LONGEST + 1), "at most 24 letters, got 25"),
    ],
)
def test_a_name_that_means_something_already_is_refused(tmp_path, kind, given, told):
    with pytest.raises(InputError, match=told):
        write_new(kind, given, package_at(tmp_path / "moon"))
    assert not (tmp_path / "moon").exists()


FOLDERS = {  # what a folder holds -> what is told, or None where a package may begin there
    "notes.txt": "no package .it has no pyproject.toml. and not empty: notes.txt",
    "src/old/code.py": "not empty: src/",
    ".git/config": None,
    "README.md": None,
}


@pytest.mark.parametrize("held", list(FOLDERS))
def test_a_folder_of_somebody_else_is_left_alone(tmp_path, held):
    file = tmp_path / "moon" / held
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    if FOLDERS[held] is None:
        done = write_new("guider", "wave", package_at(tmp_path / "moon"))
        assert file not in done.new
    else:
        with pytest.raises(InputError, match=FOLDERS[held]):
            package_at(tmp_path / "moon")
    assert file.read_text() == "mine\n"


def test_a_project_that_new_files_would_not_fit_is_refused(tmp_path):
    root = tmp_path / "moon"
    root.mkdir()
    (root / "pyproject.toml").write_text('[tool.poetry]\nname = "moon"\n')
    with pytest.raises(InputError, match=r"no name under \[project\]"):
        package_at(root)
    (root / "pyproject.toml").write_text('[project]\nname = "moon"\nversion = "1"\n')
    (root / "moon").mkdir()
    (root / "moon" / "__init__.py").touch()
    with pytest.raises(InputError, match="its code in moon/, and new code is written to src/moon/"):
        package_at(root)


@pytest.mark.parametrize(
    ("folder", "told"), [("class", "'class' cannot be"), ("torch", "'torch' is installed already")]
)
def test_a_package_that_could_not_be_imported_is_refused(tmp_path, folder, told):
    with pytest.raises(InputError, match=told):
        package_at(tmp_path / folder)


@pytest.mark.parametrize("mine", ["", "\nWhat I found out.\n"], ids=["as written", "edited"])
def test_a_pipeline_comes_after_its_model(tmp_path, mine):
    home = written(tmp_path / "moon", ("model", "owl"))
    page = home.file("page", "owl")
    page.write_text(page.read_text() + mine)
    done = write_new("pipeline", "owl", home)
    assert page in done.edited
    assert home.file("model", "owl") in done.kept
    text = page.read_text()
    assert mine in text
    assert all(text.count(f"`{name}`") >= 1 for name in ("OwlPipeline", "OwlTransformer2DModel"))
    assert (text.count("# Owl"), text.count("## Proof\n")) == (1, 1)


@pytest.mark.parametrize("place", [0, 7, 17])
def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch, place):
    left = iter(range(place))

    def interrupted(path, text):
        if next(left, None) is None:
            raise KeyboardInterrupt
        path.write_text(text)

    monkeypatch.setattr(writing, "write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_new("pipeline", "owl", package_at(tmp_path / "moon"))
    assert not (tmp_path / "moon").exists()


def test_the_folder_to_go_to_can_be_pasted(lockstep, tmp_path):
    _, out, err = lockstep("new", "guider", "wave", "--package", tmp_path / "my pack")
    assert f"cd '{tmp_path / 'my pack'}' &&" in out + err


def test_what_proofs_leave_behind_is_not_committed(tmp_path):
    home = written(tmp_path / "moon", ("guider", "wave"))
    ignored = (home.root / ".gitignore").read_text().split()
    assert {"__pycache__/", "/out/", "*.egg-info/"} <= set(ignored)


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


@pytest.mark.parametrize("name", ["z", "a" * LONGEST, "Q-Image"])
def test_what_is_written_is_in_its_format_whatever_the_name(tmp_path, name):
    workflows = {"z": ["t2i"], "Q-Image": ["t2i", "i2i"]}.get(name, ["t2i", "i2i", "inpaint"])
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
