"""Calls of the denoiser that are left out: fewer calls within a bound, told, continued, refused where it cannot be."""

import math

import pytest
import torch

from lockstep import (
    Checkpoint,
    DDIMScheduler,
    DiffusionPipeline,
    EDMEulerScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    UniPCMultistepScheduler,
)
from lockstep.errors import InputError, UnknownNameError
from lockstep.pipelines.common.foretelling import check
from lockstep.pipelines.speed import BOUND
from lockstep.schedulers.levels import ModelLevel

STEPS = 16
CALL = {"prompt": "a red heart", "seed": 3, "num_inference_steps": STEPS, "output_type": "pt"}


@pytest.fixture(scope="module")
def pipe():
    pipe = DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")
    pipe.set_progress_bar_config(disable=True)
    return pipe


@pytest.fixture(scope="module")
def exact(pipe):
    return pipe(**CALL).images


def psnr(one, other):
    return -10 * math.log10(float(((one - other) ** 2).mean()) + 1e-12)


def counted(pipe, **call):
    """A run, and how often it called the denoiser."""
    calls = []
    hook = pipe.unet.register_forward_hook(lambda *_: calls.append(1))
    try:
        return pipe(**{**CALL, **call}), len(calls)
    finally:
        hook.remove()


def test_a_third_of_the_calls_is_left_out_within_the_bound_and_told(pipe, exact):
    result, calls = counted(pipe, foretell=BOUND)
    assert calls <= STEPS * 2 / 3
    assert calls + len(result.manifest["foretold_steps"]) == STEPS
    assert psnr(result.images, exact) > 34


def test_a_smaller_bound_leaves_out_less_and_none_nothing(pipe, exact):
    small, few = counted(pipe, foretell=0.005)
    _, fewest = counted(pipe, foretell=0.05)
    assert fewest < few <= STEPS
    assert psnr(small.images, exact) > 44
    none, all_of_them = counted(pipe, foretell=0.0)
    assert all_of_them == STEPS
    assert torch.equal(none.images, exact)
    assert "foretold_steps" not in none.manifest.to_dict()


@pytest.mark.parametrize("kind", [EulerDiscreteScheduler, UniPCMultistepScheduler])
def test_the_bound_means_the_same_with_other_samplers(pipe, kind):
    before = pipe.scheduler
    pipe.scheduler = kind.from_config(before.config)
    try:
        plain = pipe(**CALL).images
        result, calls = counted(pipe, foretell=BOUND)
    finally:
        pipe.scheduler = before
    assert calls < STEPS
    assert psnr(result.images, plain) > 32


def test_a_run_goes_on_where_it_stopped(pipe):
    whole = pipe(**CALL, foretell=BOUND).images
    after = Checkpoint(save=True, stop=True)
    pipe(**CALL, foretell=BOUND, checkpoints={"after_step_6": after})
    resumed = Checkpoint(load=True, data=after.data, components=after.components)
    assert torch.equal(pipe(**CALL, foretell=BOUND, checkpoints={"after_step_6": resumed}).images, whole)


def test_fast_is_a_level_of_the_pipeline(pipe):
    try:
        pipe.accelerate("fast")
        result, calls = counted(pipe)
        assert calls < STEPS
        assert result.manifest["inputs"]["foretell"] == BOUND
        assert counted(pipe, foretell=0.0)[1] == STEPS
        assert pipe.accelerate("fast", bound=0.01).folder_defaults["foretell"] == 0.01
    finally:
        pipe.accelerate("off")
    assert counted(pipe)[1] == STEPS


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"level": "fst"}, UnknownNameError, "fast"),
        ({"level": "fast", "bound": 0}, InputError, "above 0"),
        ({"level": "fast", "bound": "much"}, InputError, "above 0"),
        ({"level": "exact", "bound": 0.1}, InputError, "'fast'"),
        ({"level": "fast", "components": ["unet"]}, InputError, "whole run"),
    ],
)
def test_what_cannot_be_meant_is_refused(pipe, arguments, error, said):
    with pytest.raises(error, match=said):
        pipe.accelerate(**arguments)


def test_models_that_are_trained_in_other_ways_are_refused():
    with pytest.raises(InputError, match="'foretell' knows models of diffusion"):
        check(EDMEulerScheduler(), 0.1)


@pytest.mark.parametrize(
    "scheduler",
    [
        *(DDIMScheduler(prediction_type=kind) for kind in ("epsilon", "sample", "v_prediction")),
        FlowMatchEulerDiscreteScheduler(),
    ],
    ids=["epsilon", "sample", "v_prediction", "flow"],
)
def test_output_and_clean_sample_say_the_same(scheduler):
    level = ModelLevel.at(scheduler, 412.0)
    seen, clean, noise = torch.randn(3, 2, 4, 8, 8, dtype=torch.float64)
    output, seen = torch.randn_like(seen), level.alpha * clean + level.sigma * noise
    assert torch.allclose(level.output(level.original(output, seen), seen), output)
    wanted = {
        "epsilon": noise,
        "sample": clean,
        "v_prediction": level.alpha * noise - level.sigma * clean,
        "flow_prediction": noise - clean,
    }[level.kind]
    assert torch.allclose(level.original(wanted, seen), clean)
