"""A library that was just compiled is tried before it is installed, and refused where a kernel is wrong."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep import kernels
from lockstep.kernels import built, trial
from lockstep.kernels.library import Library

own = kernels.library()
pytestmark = pytest.mark.skipif(own is None, reason="no kernels were compiled here")
ROOT = Path(__file__).parents[2]
PLANTED = (  # an error in a source, and the kernels that it makes wrong
    ("winograd.h", "(81.f / 64) + (d[4] - d[2]", "(81.f / 63) + (d[4] - d[2]", "convolution"),
    ("attention.h", "1.f) / run.total[v]", "1.01f) / run.total[v]", "attention"),
    ("attention.h", "Split(sum[i + n][v] - ref", "Split(sum[i + n][v] * 1.000001f - ref", "attention"),  # large scores
    ("patches.h", "(y >= 0 && y < p.height", "(y > 0 && y < p.height", "patches"),
)


class Spoilt(built.Tried):
    """A library one of whose kernels writes one wrong number."""

    def __init__(self, path, kernel, place):
        super().__init__(path)
        self.kernel, self.place = kernel, place

    def run(self, name, kinds, *arguments):
        answer = super().run(name, kinds, *arguments)
        if name == self.kernel:
            arguments[self.place][7] += 0.01
        return answer


def test_what_was_compiled_here_is_right():
    assert not built.wrong(built.results(built.Tried(str(own.path))))


@pytest.mark.parametrize(
    ("kernel", "place", "named"),
    [
        ("pack_linear", 1, "linear patches"),
        ("linear", 4, "linear"),
        ("pack_convolution", 1, "convolution"),
        ("convolution", 4, "convolution"),
        ("group_norm", 3, "group_norm"),
        ("attention", 4, "attention"),
        ("patches", 3, "patches"),
        ("join", 2, "join"),
    ],
)
def test_one_wrong_number_is_seen(kernel, place, named):
    assert built.wrong(built.results(Spoilt(str(own.path), kernel, place))) == named.split()


@pytest.mark.parametrize("answer", [0, 1])
def test_a_comparison_that_always_says_the_same_is_seen(answer, monkeypatch):
    right = built.Tried.run
    said = lambda self, name, *rest: answer if name == "same" else right(self, name, *rest)  # noqa: E731
    monkeypatch.setattr(built.Tried, "run", said)
    assert built.wrong(built.results(built.Tried(str(own.path)))) == ["same"]
    planted = Library(own.path)
    planted._functions["same"] = lambda *given: answer
    assert any("same" in one for one in trial.wrong_results(planted))


@pytest.mark.slow
@pytest.mark.parametrize(("header", "right", "wrong", "named"), PLANTED)
def test_a_build_with_an_error_in_its_source_is_not_installed(header, right, wrong, named, tmp_path):
    """The real build, of the set of instructions that this processor has, from sources with one wrong number."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no compiler")
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copytree(
        ROOT / "src/lockstep/kernels", tmp_path / "src/lockstep/kernels", ignore=shutil.ignore_patterns("*.so")
    )
    source = tmp_path / "src/lockstep/kernels/native" / header
    text = source.read_text()
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong))
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert f"computes wrong results and is not installed: {named}" in said
    assert not list(tmp_path.glob("src/lockstep/kernels/*.so"))
