"""The pytest plugin, run as other projects run it: in a pytest of its own."""

import importlib.metadata
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

MODELS = """
import torch
from torch import nn

class Port(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.embed, self.norm, self.head = nn.Linear(8, 16), nn.LayerNorm(16, eps=eps), nn.Linear(16, 4)
    def forward(self, sample):
        return self.head(self.norm(self.embed(sample) * 0.01))

def make(eps=1e-5):
    torch.manual_seed(0)
    return Port(eps).eval()

SAMPLE = torch.randn(2, 8, generator=torch.Generator().manual_seed(1))
"""

TESTS = """
import pytest
import torch
from models import SAMPLE, make

def test_fresh(parity):
    result = parity.assert_same(ref=make(), cand=make(), inputs=(SAMPLE,))
    assert result.verdict == "PASS" and result.coverage.fraction == 1

def test_other_eps(parity):
    parity.assert_same(ref=make(), cand=make(1e-3), inputs=(SAMPLE,))

def test_golden(parity):
    model = make()
    parity.assert_same(ref="goldens/port.trace", cand=lambda: model(**parity.inputs), fresh=_fresh())

def _fresh():
    model = make()
    return model, lambda: model(SAMPLE)

@pytest.mark.parity(dtype="bfloat16")
def test_half(parity):
    model = make()
    result = parity.assert_same(ref=make(), cand=model, inputs=(SAMPLE,))
    assert result.verdict == "NOISE", "bfloat16 can never PASS"
    assert model.head.weight.dtype == torch.float32, "the test's own model is left alone"
    with pytest.raises(pytest.fail.Exception):
        parity.assert_same(ref=make(), cand=model, inputs=(SAMPLE,), strict=True)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    (folder / "models.py").write_text(MODELS)
    (folder / "test_port.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --strict-markers\n")
    return folder


def run(project, *arguments):
    installed = importlib.metadata.entry_points(group="pytest11", name="lockstep_parity")
    plugin = [] if installed else ["-p", "lockstep.parity.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *plugin, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=600)


def test_without_a_golden_it_says_how_to_record_one(project):
    result = run(project, "-k", "golden")
    assert result.returncode == 1
    assert "--parity-update" in result.stdout


def test_a_whole_run(project):
    update = run(project, "-k", "golden", "--parity-update")
    assert update.returncode == 0, update.stdout
    golden = project / "goldens/port.trace"
    assert (golden.with_suffix(".floor")).is_file()
    assert sum(f.stat().st_size for f in golden.iterdir()) < 100_000, "a golden has to be small enough to be committed"
    before = (golden / "events.jsonl").read_bytes()

    result = run(project, "--parity-report=html", "--junitxml=out.xml")
    assert result.returncode == 1
    assert "1 failed, 3 passed" in result.stdout, result.stdout
    assert "first difference: `model.norm` out" in " ".join(result.stdout.split())
    assert "'--parity-at=-|model.norm|out'" in result.stdout
    assert (golden / "events.jsonl").read_bytes() == before
    assert len(list((project / "parity-report").glob("*.html"))) == 5
    cases = {c.get("name"): c for c in ElementTree.parse(project / "out.xml").iter("testcase")}
    properties = {p.get("name"): p.get("value") for p in cases["test_other_eps"].iter("property")}
    assert properties["verdict"] == "BUG"
    assert properties["first"] == "-|model.norm|out"
    assert properties["cause"] == "norm_eps"
    assert float(properties["R"]) > 1


def test_fresh_mode_and_one_node_alone(project):
    result = run(project, "-k", "golden", "--parity-mode=fresh")
    assert result.returncode == 0, result.stdout
    alone = run(project, "-k", "other_eps", "--parity-at=-|model.norm|out")
    assert alone.returncode == 1
    assert "model.head" not in alone.stdout, "the run ends behind the node"


def test_loading_the_plugin_imports_no_torch():
    code = (
        "import sys, lockstep.parity.pytest_plugin; heavy = {'torch', 'numpy', 'rich'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
