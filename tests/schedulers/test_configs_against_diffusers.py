"""Configurations in both libraries: what one writes the other reads, and one class gives to another."""

import diffusers
import pytest

import lockstep.schedulers
from lockstep.configuration import config_defaults
from lockstep.schedulers.scheduling import INTERCHANGEABLE
from schedulers.side_by_side import NOISY, assert_same_grid, both, reference, step_together

LATENT = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "num_train_timesteps": 1000}
PUBLISHED = {
    "Stable Diffusion 1.5": ("PNDMScheduler",
        {**LATENT, "clip_sample": False, "skip_prk_steps": True, "set_alpha_to_one": False, "steps_offset": 1,
            "trained_betas": None}),
    "Stable Diffusion 2.1": ("DDIMScheduler",
        {**LATENT, "clip_sample": False, "prediction_type": "v_prediction", "set_alpha_to_one": False,
            "skip_prk_steps": True, "steps_offset": 1}),
    "SDXL": ("EulerDiscreteScheduler",
        {**LATENT, "clip_sample": False, "interpolation_type": "linear", "prediction_type": "epsilon",
            "sample_max_value": 1.0, "set_alpha_to_one": False, "skip_prk_steps": True, "steps_offset": 1,
            "timestep_spacing": "leading", "use_karras_sigmas": False}),
    "SDXL Turbo": ("EulerAncestralDiscreteScheduler", {**LATENT, "timestep_spacing": "trailing", "steps_offset": 1}),
    "Playground 2": ("DPMSolverMultistepScheduler",
        {**LATENT, "algorithm_type": "dpmsolver++", "use_karras_sigmas": True, "solver_order": 2,
            "lambda_min_clipped": -float("inf")}),
    "LCM Dreamshaper": ("LCMScheduler",
        {**LATENT, "clip_sample": False, "steps_offset": 0, "original_inference_steps": 50}),
    "Stable Diffusion 3": ("FlowMatchEulerDiscreteScheduler", {"num_train_timesteps": 1000, "shift": 3.0}),
    "FLUX.1 schnell": ("FlowMatchEulerDiscreteScheduler",
        {"shift": 1.0, "base_image_seq_len": 256, "base_shift": 0.5, "max_image_seq_len": 4096, "max_shift": 1.15,
            "use_dynamic_shifting": False}),
    "Wan 2.1": ("UniPCMultistepScheduler",
        {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0, "num_train_timesteps": 1000,
            "sample_max_value": 1.0, "solver_p": None, "trained_betas": None}),
}  # fmt: skip


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_configs_run_as_in_the_reference_from_either_side(model, tmp_path):
    """Read what the reference wrote and the other way round, with unknown keys kept; then step both."""
    name, config = PUBLISHED[model]
    ours_class, their_class = getattr(lockstep.schedulers, name), getattr(diffusers, name)
    theirs = reference(lambda: their_class.from_config(config))
    reference(lambda: theirs.save_pretrained(tmp_path / "theirs" / "scheduler"))
    ours = ours_class.from_pretrained(tmp_path / "theirs", subfolder="scheduler")
    ours.save_pretrained(tmp_path / "ours")
    theirs = reference(lambda: their_class.from_pretrained(tmp_path / "ours"))
    assert {key: theirs.config[key] for key in config} == config
    assert {key: ours.config[key] for key in config} == config
    ours.set_timesteps(8)
    reference(lambda: theirs.set_timesteps(8))
    assert_same_grid(ours, theirs, model)
    reference(lambda: step_together(ours, theirs, what=model, **({"seeded": True} if name in NOISY else {})))


SLOW_THERE = ("KDPM2DiscreteScheduler", "KDPM2AncestralDiscreteScheduler", "DPMSolverSDEScheduler")
INTERCHANGED = [name for name in INTERCHANGEABLE if name not in SLOW_THERE] + ["LCMScheduler", "TCDScheduler"]
ALL = [name for name in lockstep.schedulers.__all__ if name.endswith("Scheduler")]


@pytest.mark.parametrize("name", ALL)
def test_a_class_has_the_options_and_defaults_of_the_reference(name):
    """In the same order, as people give them by position; what is ours alone comes last and is off."""
    ours, theirs = (config_defaults(getattr(library, name)) for library in (lockstep.schedulers, diffusers))
    own = set(getattr(lockstep.schedulers, name).added_config_keys)
    assert [key for key in ours if key not in own] == [key for key in theirs if key != "kwargs"]
    assert {key: ours[key] for key in theirs} == theirs


@pytest.mark.parametrize("source", INTERCHANGEABLE)
def test_a_config_goes_to_another_class_as_in_the_reference(source):
    """What was given carries over, what was a default of the source does not, and nothing of it is lost."""
    given = {**LATENT, "prediction_type": "v_prediction", "steps_offset": 1}
    if "clip_sample" in config_defaults(getattr(lockstep.schedulers, source)):
        given["clip_sample"] = False
    ours, theirs = both(
        source,
        **{key: value for key, value in given.items() if key in config_defaults(getattr(lockstep.schedulers, source))},
    )
    for target in INTERCHANGED:
        our_target = getattr(lockstep.schedulers, target).from_config(ours.config)
        their_target = reference(lambda target=target: getattr(diffusers, target).from_config(theirs.config))
        wanted = {key: value for key, value in their_target.config.items() if not key.startswith("_")}
        got = {key: value for key, value in our_target.config.items() if not key.startswith("_")}
        assert got == wanted, f"{source} -> {target}"
        from_theirs = getattr(lockstep.schedulers, target).from_config(theirs.config)
        assert {key: value for key, value in from_theirs.config.items() if not key.startswith("_")} == wanted
    assert {cls.__name__ for cls in ours.compatibles} == {cls.__name__ for cls in theirs.compatibles} & set(
        INTERCHANGEABLE
    )
