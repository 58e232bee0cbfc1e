"""Every error that can be planted in a weight map turns the tests of its family red."""

import subprocess
import sys
from pathlib import Path

from helpers import slow


@slow
def test_every_planted_error_is_seen():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.planted_maps"], cwd=root, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout + done.stderr
