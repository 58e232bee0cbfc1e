"""What scripts written for the reference do with schedulers, beyond stepping them."""

import logging
import time

import diffusers
import numpy as np
import pytest
import torch

import lockstep.schedulers
from lockstep import ConfigMixin, register_to_config
from lockstep.errors import ConfigError, InputError
from lockstep.schedulers import (
    DDIMScheduler,
    DDPMScheduler,
    EulerAncestralDiscreteScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    IPNDMScheduler,
    LCMScheduler,
    PNDMScheduler,
    SchedulerMixin,
    TCDScheduler,
)
from lockstep.schedulers.scheduling import INTERCHANGEABLE
from schedulers.side_by_side import SHAPE, both, quiet_reference, reference

ALL = [name for name in lockstep.schedulers.__all__ if name.endswith("Scheduler")]
LATENT = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "num_train_timesteps": 1000}


# --- one scheduler for another --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", INTERCHANGEABLE)
def test_any_of_the_compatible_classes_takes_the_config_and_gives_it_back(source):
    """`X.from_config(pipe.scheduler.config)`, there and back: what was given is still given."""
    scheduler = getattr(lockstep.schedulers, source)(num_train_timesteps=1000)
    assert len(scheduler.compatibles) == (1 if source == "EDMEulerScheduler" else len(INTERCHANGEABLE))
    for other in scheduler.compatibles:
        there = other.from_config(scheduler.config)
        there.set_timesteps(4)
        back = type(scheduler).from_config(there.config)
        assert {key: back.config[key] for key in scheduler.config} == dict(scheduler.config), other


@pytest.mark.parametrize(("source", "target"),
    [("DDPMScheduler", "DPMSolverMultistepScheduler"), ("DPMSolverMultistepScheduler", "DDPMScheduler")])  # fmt: skip
def test_the_kind_of_variance_is_no_reason_to_refuse_a_swap(source, target):
    """DDPM calls a fixed one `fixed_small`, the solvers None; neither means anything to the other."""
    given = getattr(lockstep.schedulers, source)(variance_type="fixed_small" if source == "DDPMScheduler" else None)
    scheduler = getattr(lockstep.schedulers, target).from_config(given.config)
    theirs = reference(lambda: getattr(diffusers, target).from_config(dict(given.config)))
    assert scheduler.config.variance_type == theirs.config.variance_type
    results = []
    for one in (scheduler, theirs):
        reference(lambda one=one: one.set_timesteps(4))
        step = one.step(
            torch.ones(SHAPE), one.timesteps[0], torch.ones(SHAPE), generator=torch.Generator().manual_seed(0)
        )
        results.append(step.prev_sample)
    assert torch.equal(*results)


def test_an_option_that_does_not_apply_is_noted_by_name(caplog):
    karras = EulerDiscreteScheduler(use_karras_sigmas=True, **LATENT)
    with caplog.at_level(logging.WARNING, logger="lockstep"):
        EulerAncestralDiscreteScheduler.from_config(karras.config)
    assert caplog.messages == [
        "EulerAncestralDiscreteScheduler has no use for use_karras_sigmas=True: left out of account."
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="lockstep"):
        EulerAncestralDiscreteScheduler.from_config(DDIMScheduler(**LATENT).config)
        DDIMScheduler.from_config(karras.config, clip_sample=False)
    assert caplog.messages == ["DDIMScheduler has no use for use_karras_sigmas=True: left out of account."]


def test_published_files_are_read_without_a_word_unless_nobody_knows_the_option(caplog):
    published = {**LATENT, "_class_name": "EulerDiscreteScheduler", "skip_prk_steps": True, "set_alpha_to_one": False}
    with caplog.at_level(logging.WARNING, logger="lockstep"):
        EulerDiscreteScheduler.from_config(published)
        assert not caplog.messages
        EulerDiscreteScheduler.from_config({**published, "sharpness": 3})
    assert caplog.messages == ["EulerDiscreteScheduler has no use for sharpness=3: left out of account."]


def test_tcd_says_that_it_limits_nothing(caplog):
    with caplog.at_level(logging.WARNING, logger="lockstep"):
        limited = TCDScheduler(clip_sample=True)
    assert "have no effect" in caplog.text
    results = []
    for scheduler in (limited, TCDScheduler()):
        scheduler.set_timesteps(4)
        results.append(scheduler.step(torch.ones(SHAPE), 999, 5 * torch.ones(SHAPE), eta=0.0).prev_sample)
    assert torch.equal(*results)


# --- classes and configs of one's own -------------------------------------------------------------------------------


def test_a_scheduler_of_ones_own_registers_its_arguments(tmp_path):
    class Steady(SchedulerMixin, ConfigMixin):
        config_name = "config.json"

        @register_to_config
        def __init__(self, a=2, b=(2, 5), c="for diffusion", d=[1, 3]):  # noqa: B006 (as such classes are written)
            self.doubled = 2 * a

    steady = Steady(a=7)
    steady.register_to_config(note="tuned")
    assert (steady.doubled, steady.config.a, steady.config["c"], steady.config.note) == (
        14,
        7,
        "for diffusion",
        "tuned",
    )
    steady.save_config(tmp_path)
    again = Steady.from_config(Steady.load_config(tmp_path))
    assert (again.config.a, again.config.note) == (7, "tuned")


def test_a_config_value_is_read_from_the_scheduler_with_a_warning():
    scheduler = DDIMScheduler(num_train_timesteps=100)
    with pytest.warns(FutureWarning, match="scheduler.config.num_train_timesteps"):
        assert scheduler.num_train_timesteps == 100
    with pytest.raises(AttributeError, match="'DDIMScheduler' object has no attribute 'does_not_exist'"):
        scheduler.does_not_exist
    assert not hasattr(scheduler, "sigmas")


def test_a_file_with_all_values_leaves_none_to_defaults(tmp_path):
    scheduler = DDIMScheduler(**LATENT)
    scheduler.save_pretrained(tmp_path)
    loaded = DDIMScheduler.from_pretrained(tmp_path)
    assert dict(loaded.config) == {
        key: value for key, value in scheduler.config.items() if key != "_use_default_values"
    }


def test_an_output_reads_as_a_dictionary_too():
    scheduler = DDIMScheduler()
    scheduler.set_timesteps(4)
    output = scheduler.step(torch.ones(SHAPE), 750, torch.ones(SHAPE))
    assert list(output.keys()) == ["prev_sample", "pred_original_sample"]
    assert torch.equal(output.values()[0], output["prev_sample"])
    assert dict(output.items())["pred_original_sample"] is output.pred_original_sample


# --- methods that scripts call --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"skip_prk_steps": True}, {"prediction_type": "v_prediction"}])
def test_pndm_in_two_loops_equals_the_reference(options):
    """`step_prk` over `prk_timesteps`, then `step_plms` over `plms_timesteps`."""
    results = []
    for scheduler in both("PNDMScheduler", **options):
        scheduler.set_timesteps(10)
        sample = torch.linspace(-1, 1, 96).reshape(2, 3, 4, 4)
        for timestep in scheduler.prk_timesteps:
            sample = scheduler.step_prk(torch.tanh(sample) * float(timestep) / 1000, timestep, sample).prev_sample
        for timestep in scheduler.plms_timesteps:
            sample = scheduler.step_plms(torch.tanh(sample) * float(timestep) / 1000, timestep, sample).prev_sample
        results.append(sample)
    assert torch.equal(*results)


def test_pndm_multistep_needs_the_runge_kutta_steps():
    scheduler = PNDMScheduler()
    with pytest.raises(InputError, match="call set_timesteps"):
        scheduler.step_plms(torch.ones(SHAPE), 1, torch.ones(SHAPE))
    scheduler.set_timesteps(10)
    with pytest.raises(InputError, match="3 noises of the Runge-Kutta steps before it, got 0"):
        scheduler.step_plms(torch.ones(SHAPE), 1, torch.ones(SHAPE))


@pytest.mark.parametrize("name", ["PNDMScheduler", "IPNDMScheduler"])
def test_past_noises_can_be_put_in(name):
    """Under the name `ets`, as scripts that resume a run do."""
    noises = [torch.full(SHAPE, value) for value in (0.2, 0.15, 0.1)]
    results = []
    for scheduler in both(name, **({"skip_prk_steps": True} if name == "PNDMScheduler" else {})):
        scheduler.set_timesteps(10)
        scheduler.ets = noises[:]
        results.append(scheduler.step(torch.ones(SHAPE), scheduler.timesteps[0], torch.ones(SHAPE)).prev_sample)
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["DDPMScheduler", "LCMScheduler", "TCDScheduler"])
def test_previous_timestep_equals_the_reference(name):
    ours, theirs = both(name)
    assert ours.previous_timestep(torch.tensor(500)) == theirs.previous_timestep(torch.tensor(500)) == 499
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(timesteps=[900, 500, 250, 20])
    for timestep in theirs.timesteps:
        mine, wanted = ours.previous_timestep(timestep), theirs.previous_timestep(timestep)
        assert isinstance(mine, torch.Tensor)
        assert mine.item() == wanted.item()


def test_the_variance_of_a_step_equals_the_reference():
    ours, theirs = both("DDIMScheduler")
    for timestep, previous in ((0, 0), (420, 400), (980, 960), (999, 998)):
        assert torch.equal(ours._get_variance(timestep, previous), theirs._get_variance(timestep, previous))
    ours, theirs = both("DDPMScheduler")
    for timestep in (1, 487, 999):
        assert torch.equal(ours._get_variance(timestep), theirs._get_variance(timestep))


# --- under pressure -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zero_snr", [False, True])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize("schedule", ["linear", "scaled_linear", "squaredcos_cap_v2"])
def test_full_noise_in_few_steps_has_a_limit(spacing, schedule, zero_snr):
    """At eta 1 the part of the step along eps shrinks to zero, and rounding must not take it below."""
    options = {"timestep_spacing": spacing, "beta_schedule": schedule, "rescale_betas_zero_snr": zero_snr}
    options["prediction_type"] = "v_prediction" if zero_snr else "epsilon"
    for num_steps in (1, 2, 3, 5):
        ours, theirs = both("DDIMScheduler", clip_sample=False, **options)
        for scheduler in (ours, theirs):
            scheduler.set_timesteps(num_steps)
        for timestep in ours.timesteps:
            output, sample = torch.randn(2, *SHAPE)
            noises = [{"eta": 1.0, "generator": torch.Generator().manual_seed(0)} for _ in "12"]
            mine = ours.step(output, timestep, sample, **noises[0]).prev_sample
            wanted = theirs.step(output, timestep, sample, **noises[1]).prev_sample
            assert mine.isfinite().all()
            assert torch.equal(mine, wanted) or wanted.isnan().all()


@pytest.mark.parametrize("name", ALL)
def test_absurd_numbers_of_training_timesteps_are_refused_at_once(name):
    began = time.perf_counter()
    with pytest.raises(ConfigError, match=r"1,000,000,000,000: its tables would take about 40,000 GB"):
        getattr(lockstep.schedulers, name)(num_train_timesteps=10**12)
    assert time.perf_counter() - began < 1
    with pytest.raises(ConfigError, match="num_train_timesteps wants at least 1"):
        getattr(lockstep.schedulers, name)(num_train_timesteps=0)


# --- inside the other library ---------------------------------------------------------------------------------------


def test_the_reference_finds_the_arguments_that_it_asks_for():
    """Its pipelines look at the signatures of `step` and `set_timesteps` before they pass anything."""
    from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion import retrieve_timesteps

    grids = []
    for scheduler in both("EulerDiscreteScheduler"):
        with quiet_reference():
            timesteps, num_steps = retrieve_timesteps(scheduler, sigmas=[14.0, 3.0, 0.5, 0.0])
        grids.append(timesteps)
        assert num_steps == 3
    assert torch.equal(*grids)
    with pytest.raises(ValueError, match="does not support custom"):
        retrieve_timesteps(DDIMScheduler(), timesteps=[900, 400])
    assert retrieve_timesteps(FlowMatchEulerDiscreteScheduler(), sigmas=np.linspace(1, 0.25, 4))[1] == 4
    assert retrieve_timesteps(LCMScheduler(), 4, original_inference_steps=50)[1] == 4
    assert len(retrieve_timesteps(IPNDMScheduler(), 5)[0]) == 5
    assert retrieve_timesteps(DDPMScheduler(), timesteps=[900, 400])[1] == 2
