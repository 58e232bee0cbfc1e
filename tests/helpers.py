"""Small things that many tests use."""

import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.kit.testing.closeness import assert_close, relative_l2

__all__ = ["assert_benchmark_passes", "assert_close", "install_entry_point", "relative_l2", "slow"]

slow = pytest.mark.slow


def assert_benchmark_passes(module: str, timeout: float) -> None:
    """Run a program of `benchmarks/` that leaves with 0 where nothing is wrong."""
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run([sys.executable, "-m", module], cwd=root, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr


def install_entry_point(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, place: str) -> None:
    """An installed package that offers a pipeline under a name."""
    package = folder / "offer-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: offer\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[lockstep.pipelines]\n{name} = {place}\n")
    monkeypatch.syspath_prepend(folder)
