"""A package outside of the repository brings a family, a scheduler, a guider and an attention backend.

Nothing in `src/` is edited for it, its own tests pass as they were written, and pip installs it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file

import lockstep as library
from kit.scaffold import importable, install, written
from lockstep.attention import backends, get_backend
from lockstep.cli.pipelines import make_guider
from lockstep.schedulers.names import find_scheduler

BACKEND = '''"""An attention backend of one's own."""

from lockstep.attention import AttentionBackend
from lockstep.attention.kernels import run_math

CALLS = []


def run_and_count(call):
    """The definition, and a note that it was asked."""
    CALLS.append(call.query.shape)
    return run_math(call)


SLOW_BUT_SURE = AttentionBackend("slow_but_sure", run_and_count, "the definition, with all scores in memory")
'''
USES_ALL_FOUR = """
import json

import torch
from safetensors.torch import load_file

import lockstep
from lockstep.cli.pipelines import make_guider
from lockstep.schedulers.names import find_scheduler

call, wanted = json.load(open("call.json")), load_file("wanted.safetensors")["latents"]
pipe = lockstep.DiffusionPipeline.from_pretrained(".")  # the index names pipeline, scheduler and guider
pipe.set_progress_bar_config(disable=True)
told = {"pipeline": type(pipe).__module__}
told |= {part: type(getattr(pipe, part)).__name__ for part in ("scheduler", "guider")}
told["as before"] = torch.allclose(pipe(**call).images, wanted, atol=1e-5)
pipe.transformer.set_attention_backend("slow_but_sure")
from dawn_models.backend import CALLS

assert not CALLS
told["as before"] &= torch.allclose(pipe(**call).images, wanted, atol=1e-5)
told["backend is called"] = len(CALLS) > 0
told["by their names"] = [find_scheduler("half_moon")[0].__name__, type(make_guider("Fading:fade=0.5")).__name__]
print(json.dumps(told))
"""
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
        save_file({"latents": wanted}, tmp_path / "wanted.safetensors")
        (tmp_path / "call.json").write_text(json.dumps(call))
    place = installed_by_pip(home, tmp_path / "site-packages")
    told = in_a_fresh_process(place, tmp_path, USES_ALL_FOUR)
    assert told == {
        "pipeline": "dawn_models.dawn.pipeline", "scheduler": "HalfMoonScheduler", "guider": "FadingGuidance",
        "backend is called": True, "as before": True, "by their names": ["HalfMoonScheduler", "FadingGuidance"],
    }  # fmt: skip


def installed_by_pip(home, place):
    """The package as pip installs it, in a folder of its own: nothing of its sources is on the path."""
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation"]
    pip = [sys.executable, "-m", "pip", *words, "--target", str(place), str(home.root)]
    done = subprocess.run(pip, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in place.iterdir()} == {"dawn_models", "dawn_models-0.1.0.dist-info"}
    return place


def in_a_fresh_process(place, folder, program):
    """What a program prints, as JSON, where Lockstep and the installed package are all that there is."""
    paths = os.pathsep.join([str(Path(library.__file__).parents[1]), str(place)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
