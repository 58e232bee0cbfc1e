"""Imports point one way: `tools/quality/imports.py` has the table, which is the plan of the house."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.quality import imports

import lockstep

ROOT = Path(lockstep.__file__).parent


def test_imports_point_one_way():
    assert imports.findings(ROOT) == []


def test_import_is_instant_and_brings_no_torch():
    code = (
        "import time, sys; start = time.perf_counter(); import lockstep; took = time.perf_counter() - start;"
        "heavy = {'torch', 'transformers', 'numpy', 'diffusers'} & set(sys.modules); print(took); assert not heavy, "
        "heavy"
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
    assert not [need for need in project["dependencies"] if need.startswith(tuple(imports.REFERENCES))]


@pytest.mark.parametrize("family", ["flux", "helios", "stable_diffusion_3", "wan"])
def test_a_family_is_its_own_part_alone(family):
    sources = (ROOT / "pipelines" / family).glob("*.py")
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in sources) <= 450
