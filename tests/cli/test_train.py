"""`lockstep train lora` as a person runs it, and stops it."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

SETTINGS = """
rank = 2
steps = {steps}
batch_size = 1
sample_steps = 1
prompts = ["a cat"]
[cadence]
log_steps = 1
evaluate_steps = 1000000
"""


@pytest.fixture
def pictures(tmp_path):
    (tmp_path / "pictures").mkdir()
    for name in ("one", "two"):
        pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"pictures/{name}.png")
        (tmp_path / f"pictures/{name}.txt").write_text("a red cat")
    return tmp_path / "pictures"


def test_a_lora_is_trained_and_can_be_used(lockstep, folder, pictures, tmp_path):
    (tmp_path / "short.toml").write_text(SETTINGS.format(steps=2))
    code, out, err = lockstep("train", "lora", pictures, "style", "-m", folder, "--config", "short.toml")
    assert code == 0, err
    assert out.strip().endswith("pytorch_lora_weights.safetensors")
    size = ["--height", "16", "--width", "16", "--steps", "1"]
    assert lockstep("generate", "a cat", "-m", folder, "--lora", "style", *size)[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_training_says_so_and_goes_on(lockstep, folder, pictures, tmp_path, number):
    config = tmp_path / "long.toml"
    config.write_text(SETTINGS.format(steps=100000))
    words = ["train", "lora", pictures, tmp_path / "style", "-m", folder, "--config", config]
    log = tmp_path / "style/training/log.jsonl"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "lockstep", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + 120
        while not log.is_file():
            assert process.poll() is None, process.stderr.read().decode()
            assert time.monotonic() < deadline, "no step after two minutes"
            time.sleep(0.05)
        process.send_signal(number)
        told = process.stderr.read().decode()
        assert process.wait() == 130, told
    assert told.startswith("interrupted")
    assert "same command again" in told
    assert "Traceback" not in told
    assert not (tmp_path / "style/pytorch_lora_weights.safetensors").exists(), "half a training is not a LoRA"
    stopped_at = len(log.read_text().splitlines())
    config.write_text(SETTINGS.format(steps=stopped_at + 2))
    code, out, err = lockstep(*words)
    assert code == 0, err
    assert f"from step {stopped_at}" in out
    assert load_file(tmp_path / "style/pytorch_lora_weights.safetensors")
