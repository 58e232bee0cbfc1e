"""A package outside of the repository brings a family, a scheduler, a guider and an attention backend.

Nothing in `src/` is edited for it, and its own tests pass as they were written.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lockstep as library
from kit.scaffold import importable, install, written
from lockstep.attention import backends, get_backend
from lockstep.cli.pipelines import make_guider
from lockstep.schedulers.names import find_scheduler

BACKEND = '''"""An attention backend of one's own."""

from lockstep.attention import AttentionBackend
from lockstep.attention.kernels import run_math

SLOW_BUT_SURE = AttentionBackend("slow_but_sure", run_math, "the definition, with all scores in memory")
'''
ENTRY = '\n[project.entry-points."lockstep.attention_backends"]\nslow_but_sure = "dawn_models.backend:SLOW_BUT_SURE"\n'


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = written(
        tmp_path_factory.mktemp("outside") / "dawn-models",
        ("pipeline", "dawn", ["t2i", "i2i", "inpaint"]),
        ("scheduler", "half_moon"),
        ("guider", "fading"),
    )
    (home.root / "src/dawn_models/backend.py").write_text(BACKEND)
    project = home.root / "pyproject.toml"
    project.write_text(project.read_text() + ENTRY)
    install(home)
    return home


def test_its_own_tests_pass_as_they_were_written(home):
    """All but the two that `check` runs in test_check.py: the compiler and peft are slow to import."""
    sources = Path(library.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(sources), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not compile and not lora_starts"]
    done = subprocess.run(command, cwd=home.root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_everything_that_it_brings_is_found_by_its_name(home, tmp_path, monkeypatch):
    monkeypatch.setattr(backends, "_REGISTRY", dict(backends._REGISTRY))
    with importable(home):
        import port_dawn_pipeline

        pipe = port_dawn_pipeline.pipeline()
        pipe.scheduler = find_scheduler("HalfMoonScheduler")[0](shift=2.0)
        pipe.guider = make_guider("FadingGuidance:fade=0.5")
        pipe.transformer.set_attention_backend("slow_but_sure")
        assert get_backend("slow_but_sure").about.startswith("the definition")
        call = {
            "prompt": "a cat",
            "num_inference_steps": 4,
            "height": 16,
            "width": 16,
            "output_type": "latent",
            "seed": 1,
        }
        wanted = pipe(**call).images
        pipe.save_pretrained(tmp_path)
        index = (tmp_path / "model_index.json").read_text()
        assert "HalfMoonScheduler" in index
    with importable(home):  # nothing of it is imported now: the entry points have to be enough
        loaded = library.DiffusionPipeline.from_pretrained(tmp_path)
        loaded.set_progress_bar_config(disable=True)
        assert type(loaded).__module__ == "dawn_models.dawn.pipeline"
        assert type(loaded.scheduler).__name__ == "HalfMoonScheduler"
        assert type(loaded.guider).__name__ == "FadingGuidance"
        assert torch.allclose(loaded(**call).images, wanted, atol=1e-5)
