"""A command that starts its ranks itself, by the real torchrun."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from lockstep.blocks.manifest import read_manifest

SIZE = ("--height", "32", "--width", "32", "--num-inference-steps", "2", "--dtype", "float32", "--seed", "7", "--json")


def generated(folder, path, *more):
    words = ["-m", "lockstep", "generate", "a red house", "--model", str(folder), "-o", str(path), *SIZE, *more]
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    subprocess.run([sys.executable, *words], check=True, env={**environment, "OMP_NUM_THREADS": "1"})
    return np.asarray(Image.open(path)).astype(int)


@pytest.mark.slow
def test_generate_starts_its_ranks_and_one_process_makes_the_picture_again(folder, tmp_path, lockstep):
    alone = generated(folder, tmp_path / "alone.png")
    spread = generated(folder, tmp_path / "spread.png", "--parallel", "cfg=2")
    assert abs(spread - alone).max() <= 1
    assert read_manifest(tmp_path / "spread.png")["parallel"] == {"cfg": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.png", "spread.png"]
    code, out, _ = lockstep("replay", tmp_path / "spread.png")
    assert code == 0
    assert "identical" in out
