"""The package as it is published: what is inside, and that it runs where nothing else is installed than it asks for."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "lockstep"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EMBEDDED = "lockstep/embedded/emoji"
WEIGHTS = [f"{EMBEDDED}/unet/diffusion_pytorch_model.safetensors", f"{EMBEDDED}/text_encoder/model.safetensors"]
DATA = {
    ".safetensors",
    ".jpg",
    ".json",
    ".toml",
    ".txt",
    ".md",
    ".html",
    ".css",
    ".js",
    ".pyi",
    ".typed",
    ".xz",
    ".cpp",
    ".h",
    "",
}


def run(command, folder, **options):
    """Run without anything of this checkout on the way: no PYTHONPATH, another working folder."""
    clean = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], cwd=folder, env=clean, capture_output=True, text=True, timeout=900, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the source distribution and the wheel that is made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (wheel,) = built.glob("*.whl")
    return wheel


def files_of_the_package():
    """Every file of the source folder that belongs to it; compiled kernels are made anew for each."""
    files = (path for path in SOURCES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    files = (path for path in files if path.suffix != ".so")
    return {path.relative_to(SOURCES.parent).as_posix() for path in files}


def test_the_wheel_has_the_whole_package_and_nothing_else(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    compiled = {name for name in inside if name.endswith(".so")}
    assert all(name.startswith("lockstep/kernels/_") for name in compiled)
    assert bool(compiled) == (shutil.which("c++") is not None)
    inside -= compiled
    assert inside == files_of_the_package()
    assert {*WEIGHTS, "lockstep/py.typed", f"{EMBEDDED}/NOTICE"} <= inside
    (information,) = {name.partition("/")[0] for name in names - inside - compiled}
    assert {f"{information}/licenses/LICENSE", f"{information}/licenses/NOTICE"} <= names
    assert {Path(name).suffix for name in inside} <= {".py", *DATA}


def test_the_source_distribution_has_no_tests_and_no_benchmarks(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    assert {"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert {f"src/{name}" for name in files_of_the_package()} <= names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/", "examples/"))]


def test_the_extra_all_is_all_the_extras():
    extras = PROJECT["optional-dependencies"]
    (one,) = extras["all"]
    assert Requirement(one).extras == set(extras) - {
        "all",
        "frameworks",
    }  # other frameworks, for tests


def distributions(names):
    """The installed distributions of these names and of all that they ask for, without extras."""
    found, pending = {}, [Requirement(name) for name in names]
    while pending:
        wanted = pending.pop()
        if wanted.name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found[wanted.name] = importlib.metadata.distribution(wanted.name)
        pending += [Requirement(name) for name in found[wanted.name].requires or ()]
    return found.values()


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """An environment with the wheel and what it declares, and nothing else; the declared packages are links."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for distribution in distributions(PROJECT["dependencies"]):
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(distribution.locate_file(top))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder / "bin" / "python"]
    run([*pip, "install", "--quiet", "--no-deps", "--no-index", wheel], folder)
    return folder / "bin"


def test_the_installed_command_makes_a_picture(environment, tmp_path):
    imported = run([environment / "python", "-c", "import lockstep; print(lockstep.__file__)"], tmp_path)
    assert Path(imported.strip()).is_relative_to(environment.parent)
    said = run([environment / "lockstep", "env"], tmp_path)
    assert importlib.metadata.version("torch") in said
    asked = ["generate", "a red apple", "--num-inference-steps", "2", "--seed", "1", "--quiet", "--output", "apple.png"]
    run([environment / "lockstep", *asked], tmp_path)
    with Image.open(tmp_path / "apple.png") as picture:
        assert min(picture.size) >= 64
        assert len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0)) > 100
