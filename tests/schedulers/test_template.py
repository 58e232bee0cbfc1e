"""The shape that all schedulers share: honest signatures to people, to pipelines and to type checkers."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lockstep.schedulers
from lockstep.errors import InputError, UnsupportedError
from lockstep.schedulers import (
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    LCMScheduler,
    LMSDiscreteScheduler,
    PNDMScheduler,
    SchedulerMixin,
    SchedulerOutput,
)

ONES = torch.ones(1, 3, 4, 4)
ALL = [name for name in lockstep.schedulers.__all__ if name.endswith("Scheduler")]


def names(function) -> list[str]:
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("cls", "own"),
    [
        (DDIMScheduler, ["eta", "use_clipped_model_output", "generator", "variance_noise", "return_dict"]),
        (EulerDiscreteScheduler, ["s_churn", "s_tmin", "s_tmax", "s_noise", "generator", "return_dict"]),
        (DPMSolverMultistepScheduler, ["generator", "variance_noise", "return_dict"]),
        (LMSDiscreteScheduler, ["order", "return_dict", "generator"]),
        (PNDMScheduler, ["return_dict", "generator"]),
        (FlowMatchEulerDiscreteScheduler, ["generator", "per_token_timesteps", "return_dict"]),
    ],
)
def test_step_shows_the_arguments_of_its_scheduler(cls, own):
    assert names(cls.step) == ["self", "model_output", "timestep", "sample", *own]
    assert names(cls().step) == ["model_output", "timestep", "sample", *own]
    assert inspect.signature(DDIMScheduler.step).parameters["eta"].default == 0.0


@pytest.mark.parametrize(
    ("cls", "own"),
    [
        (DDIMScheduler, []),
        (EulerDiscreteScheduler, ["timesteps", "sigmas"]),
        (DPMSolverMultistepScheduler, ["mu", "timesteps"]),
        (LCMScheduler, ["original_inference_steps", "timesteps", "strength"]),
        (FlowMatchEulerDiscreteScheduler, ["sigmas", "mu", "timesteps"]),
    ],
)
def test_set_timesteps_shows_the_arguments_of_its_scheduler(cls, own):
    assert names(cls.set_timesteps) == ["self", "num_inference_steps", "device", *own]


def test_what_a_grid_is_not_made_from_is_refused_by_name():
    with pytest.raises(InputError, match=r"DDIMScheduler.set_timesteps takes no timesteps\..* num_inference_steps"):
        DDIMScheduler().set_timesteps(timesteps=[900, 400])
    with pytest.raises(InputError, match="takes no sigma: did you mean 'sigmas'"):
        EulerDiscreteScheduler().set_timesteps(sigma=[1.0, 0.0])


@pytest.mark.parametrize("name", ALL)
def test_a_refused_grid_leaves_the_one_before(name):
    scheduler = getattr(lockstep.schedulers, name)()
    stage = {"stage_index": 1} if name.startswith("Helios") else {}
    scheduler.set_timesteps(5, **stage)
    before = scheduler.timesteps, getattr(scheduler, "sigmas", None), scheduler.num_inference_steps
    with pytest.raises(InputError):
        scheduler.set_timesteps(0, **stage)
    after = scheduler.timesteps, getattr(scheduler, "sigmas", None), scheduler.num_inference_steps
    assert all(a is b for a, b in zip(before, after, strict=True))


def test_options_go_by_position_too_and_return_dict_is_the_last_of_them():
    scheduler = DDIMScheduler()
    scheduler.set_timesteps(4)
    noise = torch.randn(ONES.shape)
    by_name = scheduler.step(ONES, 500, ONES, eta=0.5, variance_noise=noise)
    by_position = scheduler.step(ONES, 500, ONES, 0.5, False, None, noise, False)
    assert isinstance(by_name, SchedulerOutput)
    assert isinstance(by_position, tuple)
    assert torch.equal(by_name.prev_sample, by_position[0])
    pndm = PNDMScheduler(skip_prk_steps=True)
    pndm.set_timesteps(4)
    assert isinstance(pndm.step(ONES, 750, ONES, False), tuple)


def test_a_scheduler_without_a_formula_says_so():
    class Unfinished(SchedulerMixin):
        timesteps = torch.arange(3)

    with pytest.raises(UnsupportedError, match="Unfinished has no set_timesteps"):
        Unfinished().set_timesteps(3)


SCRIPT = """
import torch
from lockstep.schedulers import DDIMScheduler, LCMScheduler, SchedulerMixin
x = torch.ones(1)
ddim = DDIMScheduler()
reveal_type(ddim.step(x, 5, x).prev_sample)
reveal_type(ddim.step(x, 5, x, eta=0.5, return_dict=False))
reveal_type(LCMScheduler().step(x, 5, x).denoised)
ddim.step(x, 5, x, etaa=0.5)
ddim.step(x, 5, x, eta="much")
ddim.set_timesteps(10, timesteps=[1])
def any_scheduler(scheduler: SchedulerMixin) -> None:
    scheduler.set_timesteps(3, sigmas=[1.0])
    reveal_type(scheduler.step(x, 5, x, generator=None).prev_sample)
"""


@pytest.mark.slow
def test_a_type_checker_sees_the_tensors_and_the_mistakes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.strip())
    source = Path(lockstep.schedulers.__file__).parents[2]
    cache = source.parent / ".mypy_cache" / "of_scripts"  # reading torch takes most of a minute, once
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache), "--no-error-summary", "script.py"]
    said = subprocess.run(command, cwd=tmp_path, env={"MYPYPATH": str(source)}, capture_output=True, text=True).stdout
    said = "\n".join(line for line in said.splitlines() if line.startswith("script.py"))
    lines = [line for line in said.splitlines() if "Revealed" in line or "error:" in line]
    assert [line.split(":")[1] for line in lines] == ["5", "6", "7", "8", "9", "10", "13"], said
    assert '"torch._tensor.Tensor"' in lines[0]
    assert '"tuple[torch._tensor.Tensor, ...]"' in lines[1]
    assert '"torch._tensor.Tensor"' in lines[2]
    assert all("error:" in line for line in lines[3:6])
    assert '"torch._tensor.Tensor"' in lines[6]
