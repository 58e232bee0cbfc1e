"""Every scheduler beside the reference's, over a grid of options: same grids, same steps, same dtypes."""

import copy

import pytest
import torch

from schedulers.side_by_side import NUM_STEPS, Tally, assert_same_grid, both, combinations, describe, reference, step_together

BETAS = ["linear", "scaled_linear", "squaredcos_cap_v2"]
SPACING = ["linspace", "leading", "trailing"]
SIGMAS = [{}, {"use_karras_sigmas": True}, {"use_exponential_sigmas": True}, {"use_beta_sigmas": True}]
PREDICTIONS = ["epsilon", "sample", "v_prediction"]
LATENT = {"beta_start": 0.00085, "beta_end": 0.012}
FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}

# name -> options of which every combination is tried, options that take turns, options of `step`
GRID = {
    "DDIMScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": SPACING, "rescale_betas_zero_snr": [False, True]},
        {
            "beta_schedule": BETAS,
            "limit": [{"clip_sample": False}, {"clip_sample": True, "clip_sample_range": 1.5}, {"thresholding": True, "sample_max_value": 2.0}],
            "set_alpha_to_one": [True, False],
            "steps_offset": [0, 1],
        },
        [{}, {"eta": 0.7, "seeded": True}, {"eta": 1.0, "seeded": True, "use_clipped_model_output": True}],
    ),
    "DDIMInverseScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": ["leading", "trailing"], "clip_sample": [False, True]},
        {"beta_schedule": BETAS, "set_alpha_to_one": [True, False], "rescale_betas_zero_snr": [False, False, True]},
        [{}],
    ),
    "DDPMScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": SPACING, "variance_type": ["fixed_small", "fixed_small_log", "fixed_large"]},
        {
            "beta_schedule": [*BETAS, "sigmoid", "laplace"],
            "limit": [{"clip_sample": False}, {"clip_sample": True}, {"thresholding": True}],
            "rescale_betas_zero_snr": [False, True],
            "steps_offset": [0, 1],
        },
        [{"seeded": True}],
    ),
    "PNDMScheduler": (
        {"prediction_type": ["epsilon", "v_prediction"], "timestep_spacing": SPACING, "skip_prk_steps": [True, False]},
        {"beta_schedule": BETAS, "set_alpha_to_one": [True, False], "steps_offset": [0, 1]},
        [{}],
    ),
    "EulerDiscreteScheduler": (
        {
            "prediction_type": [*PREDICTIONS, "original_sample"],
            "timestep_spacing": SPACING,
            "sigma": [*SIGMAS, {"use_karras_sigmas": True, "sigma_min": 0.03, "sigma_max": 12.0}, {"interpolation_type": "log_linear"}],
        },
        {
            "beta_schedule": BETAS,
            "final_sigmas_type": ["zero", "sigma_min"],
            "steps_offset": [0, 1],
            "timestep_type": ["discrete", "continuous", "discrete"],
            "rescale_betas_zero_snr": [False, False, False, True],
        },
        [{}, {"s_churn": 5.0, "s_noise": 1.01, "seeded": True}],
    ),
    "EulerAncestralDiscreteScheduler": (
        {"prediction_type": ["epsilon", "v_prediction"], "timestep_spacing": SPACING, "rescale_betas_zero_snr": [False, True]},
        {"beta_schedule": BETAS, "steps_offset": [0, 1]},
        [{"seeded": True}],
    ),
    "HeunDiscreteScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": SPACING, "sigma": SIGMAS},
        {"beta_schedule": [*BETAS, "exp"], "clip_sample": [False, True], "steps_offset": [0, 1]},
        [{}],
    ),
    "KDPM2DiscreteScheduler": (
        {"prediction_type": ["epsilon", "v_prediction"], "timestep_spacing": SPACING, "sigma": SIGMAS},
        {"beta_schedule": BETAS, "steps_offset": [0, 1]},
        [{}],
    ),
    "LMSDiscreteScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": SPACING, "sigma": SIGMAS},
        {"beta_schedule": BETAS, "steps_offset": [0, 1]},
        [{}, {"order": 2}, {"order": 3}],
    ),
    "DPMSolverMultistepScheduler": (
        {
            "prediction_type": [*PREDICTIONS, FLOW, {**FLOW, "flow_shift": 3.0}],
            "timestep_spacing": SPACING,
            "algorithm": [
                {"algorithm_type": "dpmsolver++", "solver_order": 1},
                {"algorithm_type": "dpmsolver++"},
                {"algorithm_type": "dpmsolver++", "solver_order": 3},
                {"algorithm_type": "sde-dpmsolver++"},
                {"algorithm_type": "sde-dpmsolver++", "solver_order": 3},
            ],
        },
        {
            "sigma": [*SIGMAS, {"use_lu_lambdas": True}],
            "beta_schedule": BETAS,
            "solver_type": ["midpoint", "heun"],
            "final_sigmas_type": ["zero", "sigma_min", "zero"],
            "lower_order_final": [True, True, False],
            "euler_at_final": [False, True, False, False],
            "steps_offset": [0, 1],
            "rescale_betas_zero_snr": [False, False, False, False, True],
            "thresholding": [False] * 6 + [True],
            "lambda_min_clipped": [-float("inf"), -5.1, -float("inf")],
        },
        [{"seeded": True}],
    ),
    "DPMSolverMultistepScheduler in eps": (
        {
            "prediction_type": PREDICTIONS,
            "sigma": [*SIGMAS, {"use_lu_lambdas": True}],
            "algorithm": [
                {"algorithm_type": "dpmsolver"},
                {"algorithm_type": "dpmsolver", "solver_order": 3},
                {"algorithm_type": "sde-dpmsolver"},
            ],
        },
        {
            "final_sigmas_type": ["sigma_min"],
            "timestep_spacing": SPACING,
            "beta_schedule": BETAS,
            "solver_type": ["midpoint", "heun"],
            "lower_order_final": [True, True, False],
            "thresholding": [False] * 4 + [True],
        },
        [{"seeded": True}],
    ),
    "DPMSolverSinglestepScheduler": (
        {
            "prediction_type": [*PREDICTIONS, {**FLOW, "flow_shift": 3.0}],
            "algorithm": [
                {"algorithm_type": "dpmsolver++"},
                {"algorithm_type": "dpmsolver++", "solver_order": 3},
                {"algorithm_type": "sde-dpmsolver++"},
                {"algorithm_type": "sde-dpmsolver++", "solver_order": 3},
            ],
            "solver_type": ["midpoint", "heun"],
        },
        {
            "sigma": SIGMAS,
            "beta_schedule": BETAS,
            "lower_order_final": [True, True, False],
            "final_sigmas_type": ["zero", "sigma_min", "zero", "zero"],
            "thresholding": [False] * 6 + [True],
        },
        [{"seeded": True}],
    ),
    "DPMSolverSinglestepScheduler in eps": (
        {"prediction_type": PREDICTIONS, "solver_order": [1, 2, 3], "solver_type": ["midpoint", "heun"]},
        {
            "algorithm_type": ["dpmsolver"],
            "final_sigmas_type": ["sigma_min"],
            "sigma": SIGMAS,
            "beta_schedule": BETAS,
            "lower_order_final": [True, False],
        },
        [{}],
    ),
    "UniPCMultistepScheduler": (
        {
            "prediction_type": [*PREDICTIONS, FLOW, {**FLOW, "flow_shift": 3.0, "shift_terminal": 0.1}],
            "timestep_spacing": SPACING,
            "solver_order": [1, 2, 3],
            "solver_type": ["bh1", "bh2"],
        },
        {
            "sigma": SIGMAS,
            "beta_schedule": BETAS,
            "lower_order_final": [True, True, False],
            "disable_corrector": [[], [], [0, 1]],
            "steps_offset": [0, 1],
            "thresholding": [False] * 6 + [True],
            "predict_x0": [True, True, False],
            "rescale_betas_zero_snr": [False, False, False, False, True],
            "final_sigmas_type": ["sigma_min", "zero"],
        },
        [{}],
    ),
    "DEISMultistepScheduler": (
        {"prediction_type": [*PREDICTIONS, {**FLOW, "flow_shift": 3.0}], "timestep_spacing": SPACING, "sigma": SIGMAS},
        {"solver_order": [1, 2, 3], "beta_schedule": BETAS, "lower_order_final": [True, False], "thresholding": [False] * 6 + [True]},
        [{}],
    ),
    "LCMScheduler": (
        {"prediction_type": PREDICTIONS, "original_inference_steps": [50, 100], "rescale_betas_zero_snr": [False, True]},
        {
            "beta_schedule": BETAS,
            "limit": [{}, {"clip_sample": True}, {"thresholding": True}],
            "timestep_scaling": [10.0, 1.0],
        },
        [{"seeded": True}],
    ),
    "TCDScheduler": (
        {"prediction_type": PREDICTIONS, "original_inference_steps": [50, 100], "rescale_betas_zero_snr": [False, True]},
        {"beta_schedule": BETAS, "set_alpha_to_one": [True, False]},
        [{"eta": 0.3, "seeded": True}, {"eta": 0.0}, {"eta": 1.0, "seeded": True}],
    ),
    "FlowMatchEulerDiscreteScheduler": (
        {"shift": [1.0, 3.0], "sigma": SIGMAS, "end": [{}, {"shift_terminal": 0.1}, {"invert_sigmas": True}]},
        {"stochastic_sampling": [False, False, True]},
        [{"seeded": True}],
    ),
    "FlowMatchHeunDiscreteScheduler": (
        {"shift": [1.0, 3.0], "num_train_timesteps": [1000, 500]},
        {},
        [{}, {"s_churn": 2.0, "s_noise": 1.01, "seeded": True}],
    ),
}


def usable(name: str, options: dict) -> bool:
    """Leaves out what has no finite value in the reference or is refused; both have tests of their own below."""
    if options.get("use_flow_sigmas") and any(options.get(f"use_{kind}_sigmas") for kind in ("karras", "exponential", "beta")):
        return False
    if options.get("use_flow_sigmas") and (options.get("use_lu_lambdas") or not options.get("predict_x0", True)):
        return False
    if options.get("thresholding") and not options.get("predict_x0", True):
        return False
    if name == "UniPCMultistepScheduler" and options["final_sigmas_type"] == "zero":
        return options["solver_type"] == "bh2" and options["predict_x0"] and options["lower_order_final"]
    return True


def compare_all(name: str) -> Tally:
    product, rotating, step_options = GRID[name]
    class_name, tally = name.split()[0], Tally()
    for number, options in enumerate(combinations(product, rotating)):
        if not usable(class_name, options):
            continue
        ours, theirs = both(class_name, **options)
        for num_steps in NUM_STEPS:
            if num_steps < 4 and not options.get("skip_prk_steps", True) or num_steps < 2 and options.get("shift_terminal"):
                continue  # refused
            if class_name == "DPMSolverSinglestepScheduler":  # the reference changes its own config in set_timesteps
                ours, theirs = both(class_name, **options)
            ours.set_timesteps(num_steps)
            reference(lambda theirs=theirs, n=num_steps: theirs.set_timesteps(n))
            what = describe(class_name, options, num_steps, "steps")
            assert_same_grid(ours, theirs, what)
            for dtype in (torch.float32, torch.bfloat16):
                run, their_run = ours.fresh(), copy.deepcopy(theirs)
                if begins_twice(theirs):
                    run.set_begin_index(0)
                    their_run.set_begin_index(0)
                chosen = step_options[number % len(step_options)]
                reference(
                    lambda a=run, b=their_run, d=dtype, w=what, c=chosen: step_together(a, b, what=f"{w} {d}", dtype=d, tally=tally, **c)
                )
                tally.combinations += 1
    return tally


def begins_twice(theirs) -> bool:
    """Whether rounding made the first two timesteps equal: the reference then begins at the second and falls off the end."""
    return hasattr(theirs, "set_begin_index") and len(theirs.timesteps) > 1 and bool(theirs.timesteps[0] == theirs.timesteps[1])


@pytest.mark.parametrize("name", GRID)
def test_steps_equal_the_reference(name, record_property):
    tally = compare_all(name)
    record_property("tally", repr(tally))
    assert tally.steps > 500
