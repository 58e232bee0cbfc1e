"""Every wrong number that can be planted in the guiders turns these tests red."""

import subprocess
import sys
from pathlib import Path

from helpers import slow


@slow
def test_every_planted_error_is_seen():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.planted_guiders"], cwd=root, capture_output=True, text=True, timeout=7200
    )
    assert done.returncode == 0, done.stdout + done.stderr
