"""Every scheduler beside the reference's, over a grid of options: same grids, same steps, same dtypes."""

import copy
import math
import types

import numpy as np
import pytest
import scipy.integrate
import torch

from schedulers.side_by_side import (
    NOISY,
    SHAPE,
    assert_same_grid,
    both,
    compare_all,
    describe,
    difference,
    quiet_reference,
    reference,
    step_together,
)

BETAS = ["linear", "scaled_linear", "squaredcos_cap_v2"]
SPACING = ["linspace", "leading", "trailing"]
SIGMAS = [{}, {"use_karras_sigmas": True}, {"use_exponential_sigmas": True}, {"use_beta_sigmas": True}]
PREDICTIONS = ["epsilon", "sample", "v_prediction"]
FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True}

# name -> options of which every combination is tried, options that take turns, options of `step`
GRID = {
    "DDIMScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": SPACING, "rescale_betas_zero_snr": [False, True]},
        {
            "beta_schedule": BETAS,
            "limit": [
                {"clip_sample": False},
                {"clip_sample": True, "clip_sample_range": 1.5},
                {"thresholding": True, "sample_max_value": 2.0},
            ],
            "set_alpha_to_one": [True, False],
            "steps_offset": [0, 1],
        },
        [{}, {"eta": 0.7, "seeded": True}, {"eta": 0.95, "seeded": True, "use_clipped_model_output": True}],
    ),
    "DDIMInverseScheduler": (
        {"prediction_type": PREDICTIONS, "timestep_spacing": ["leading", "trailing"], "clip_sample": [False, True]},
        {"beta_schedule": BETAS, "set_alpha_to_one": [True, False], "rescale_betas_zero_snr": [False, False, True]},
        [{}],
    ),
    "DDPMScheduler": (
        {
            "prediction_type": PREDICTIONS,
            "timestep_spacing": SPACING,
            "variance_type": ["fixed_small", "fixed_small_log", "fixed_large"],
        },
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
            "prediction_type": PREDICTIONS,
            "timestep_spacing": SPACING,
            "sigma": [
                *SIGMAS,
                {"use_karras_sigmas": True, "sigma_min": 0.03, "sigma_max": 12.0},
                {"interpolation_type": "log_linear"},
            ],
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
        {
            "prediction_type": ["epsilon", "v_prediction"],
            "timestep_spacing": SPACING,
            "rescale_betas_zero_snr": [False, True],
        },
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
        {"beta_schedule": BETAS, "steps_offset": [0, 1], "num_train_timesteps": [1000, 200, 200, 200, 200, 200, 200]},
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
            "sigma": [*SIGMAS, {"use_lu_lambdas": True}],
        },
        {
            "algorithm": [
                {"algorithm_type": "dpmsolver++"},
                {"algorithm_type": "sde-dpmsolver++"},
                {"algorithm_type": "dpmsolver++", "solver_order": 3},
                {"algorithm_type": "dpmsolver++", "solver_order": 1},
                {"algorithm_type": "sde-dpmsolver++", "solver_order": 3},
                {"algorithm_type": "sde-dpmsolver++", "solver_order": 1},
                {"algorithm_type": "dpmsolver++", "solver_type": "heun"},
                {"algorithm_type": "sde-dpmsolver++", "solver_type": "heun"},
            ],
            "beta_schedule": BETAS,
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
            "solver_type": ["midpoint", "heun"],
        },
        {
            "algorithm": [
                {"algorithm_type": "dpmsolver"},
                {"algorithm_type": "dpmsolver", "solver_order": 3},
                {"algorithm_type": "sde-dpmsolver"},
            ],
            "final_sigmas_type": ["sigma_min"],
            "timestep_spacing": SPACING,
            "beta_schedule": ["linear", "scaled_linear", "scaled_linear", "squaredcos_cap_v2"],
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
            "sigma": SIGMAS,
        },
        {
            "solver_order": [2, 3, 1, 2, 4],
            "solver_type": ["bh2", "bh1", "bh2"],
            "beta_schedule": BETAS,
            "lower_order_final": [True, True, False, True],
            "disable_corrector": [[], [], [0, 1]],
            "steps_offset": [0, 1],
            "thresholding": [False] * 6 + [True],
            "predict_x0": [True, True, True, False],
            "rescale_betas_zero_snr": [False, False, False, False, True],
            "final_sigmas_type": ["zero", "sigma_min"],
        },
        [{}],
    ),
    "DEISMultistepScheduler": (
        {"prediction_type": [*PREDICTIONS, {**FLOW, "flow_shift": 3.0}], "timestep_spacing": SPACING, "sigma": SIGMAS},
        {
            "solver_order": [1, 2, 3],
            "beta_schedule": BETAS,
            "lower_order_final": [True, False],
            "thresholding": [False] * 6 + [True],
        },
        [{}],
    ),
    "LCMScheduler": (
        {
            "prediction_type": PREDICTIONS,
            "original_inference_steps": [50, 100],
            "rescale_betas_zero_snr": [False, True],
        },
        {
            "beta_schedule": BETAS,
            "limit": [{}, {"clip_sample": True}, {"thresholding": True}],
            "timestep_scaling": [10.0, 1.0],
        },
        [{"seeded": True}],
    ),
    "TCDScheduler": (
        {
            "prediction_type": PREDICTIONS,
            "original_inference_steps": [50, 100],
            "rescale_betas_zero_snr": [False, True],
        },
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
    if options.get("use_flow_sigmas") and any(
        options.get(f"use_{kind}_sigmas") for kind in ("karras", "exponential", "beta")
    ):
        return False
    if options.get("use_flow_sigmas") and (options.get("use_lu_lambdas") or not options.get("predict_x0", True)):
        return False
    if options.get("thresholding") and not options.get("predict_x0", True):
        return False
    if name == "UniPCMultistepScheduler" and options["final_sigmas_type"] == "zero":
        return options["solver_type"] == "bh2" and options["predict_x0"] and options["lower_order_final"]
    return True


def prepare(name: str, theirs) -> None:
    if name == "LMSDiscreteScheduler":
        integrate_in_float64(theirs)


def integrate_in_float64(theirs) -> None:
    """Let the reference's LMS integrate the polynomial it means: it evaluates it in float32,
    where close sigmas cancel."""

    def get_lms_coefficient(self, order, t, current_order):
        sigmas = self.sigmas.double().tolist()
        others = [sigmas[t - k] for k in range(order) if k != current_order]

        def basis(tau):
            return math.prod((tau - other) / (sigmas[t - current_order] - other) for other in others)

        return scipy.integrate.quad(basis, sigmas[t], sigmas[t + 1], epsrel=1e-10)[0]

    theirs.get_lms_coefficient = types.MethodType(get_lms_coefficient, theirs)


@pytest.mark.parametrize("name", GRID)
def test_steps_equal_the_reference(name, record_property):
    tally = compare_all(name.split()[0], *GRID[name], usable=usable, prepare=prepare)
    record_property("tally", repr(tally))
    assert tally.steps > 200
    assert tally.finite > 0.8 * tally.compared  # a model of eps at zero SNR has no finite x0


# --- the way into a grid: explicit timesteps and sigmas, mu, a begin in the middle ---------------------------------

EXPLICIT = [
    ("DDPMScheduler", {}, {"timesteps": [900, 500, 250, 20]}),
    ("LCMScheduler", {}, {"timesteps": [999, 759, 499, 259]}),
    ("TCDScheduler", {}, {"timesteps": [999, 759, 499, 259]}),
    ("TCDScheduler", {}, {"num_inference_steps": 7, "original_inference_steps": 50}),
    ("LCMScheduler", {}, {"num_inference_steps": 4, "original_inference_steps": 20}),
    ("LCMScheduler", {}, {"num_inference_steps": 4, "strength": 0.5}),
    ("TCDScheduler", {}, {"num_inference_steps": 4, "strength": 0.5}),
    ("EulerDiscreteScheduler", {}, {"timesteps": [999, 850, 736, 645, 24]}),
    ("EulerDiscreteScheduler", {"final_sigmas_type": "sigma_min"}, {"timesteps": [999.0, 736.5, 24.25]}),
    ("EulerDiscreteScheduler", {}, {"sigmas": [14.615, 6.475, 1.886, 0.652, 0.152, 0.0]}),
    ("EulerDiscreteScheduler", {"use_karras_sigmas": True}, {"sigmas": [14.615, 6.475, 1.886, 0.0]}),
    (
        "EulerDiscreteScheduler",
        {"timestep_type": "continuous", "prediction_type": "v_prediction"},
        {"sigmas": [700.0, 54.5, 15.886, 0.034, 0.0]},
    ),
    ("HeunDiscreteScheduler", {}, {"timesteps": [999, 850, 736, 645, 24]}),
    ("DPMSolverMultistepScheduler", {}, {"timesteps": [999, 850, 736, 645, 24]}),
    ("DPMSolverSinglestepScheduler", {"solver_order": 3}, {"timesteps": [999, 850, 736, 645, 24]}),
    ("DPMSolverMultistepScheduler", {**FLOW, "use_dynamic_shifting": True}, {"num_inference_steps": 7, "mu": 0.8}),
    ("DPMSolverSinglestepScheduler", {**FLOW, "use_dynamic_shifting": True}, {"num_inference_steps": 7, "mu": 0.8}),
    ("DEISMultistepScheduler", {**FLOW, "use_dynamic_shifting": True}, {"num_inference_steps": 7, "mu": 0.8}),
    ("UniPCMultistepScheduler", {**FLOW, "use_dynamic_shifting": True}, {"num_inference_steps": 7, "mu": 0.8}),
    (
        "UniPCMultistepScheduler",
        {**FLOW, "use_dynamic_shifting": True, "time_shift_type": "linear"},
        {"num_inference_steps": 7, "mu": 0.8},
    ),
    ("UniPCMultistepScheduler", {**FLOW, "flow_shift": 3.0}, {"sigmas": np.linspace(1, 0.1, 6)}),
    ("UniPCMultistepScheduler", {**FLOW, "use_karras_sigmas": True}, {"num_inference_steps": 7}),
    (
        "UniPCMultistepScheduler",
        {**FLOW, "use_karras_sigmas": True, "sigma_min": 0.01, "sigma_max": 200.0},
        {"num_inference_steps": 7},
    ),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {"sigmas": [1.0, 0.8, 0.5, 0.2]}),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {"timesteps": [1000, 700, 300, 50]}),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}, {"timesteps": [990.0, 400.0], "sigmas": [0.9, 0.3]}),
    (
        "FlowMatchEulerDiscreteScheduler",
        {"use_dynamic_shifting": True},
        {"sigmas": np.linspace(1, 1 / 8, 8), "mu": 1.15},
    ),
    (
        "FlowMatchEulerDiscreteScheduler",
        {"use_dynamic_shifting": True, "shift": 3.0},
        {"num_inference_steps": 8, "mu": 0.5},
    ),
    (
        "FlowMatchEulerDiscreteScheduler",
        {"use_dynamic_shifting": True, "time_shift_type": "linear", "shift_terminal": 0.02},
        {"num_inference_steps": 8, "mu": 0.5},
    ),
]


@pytest.mark.parametrize(
    ("name", "options", "grid"), EXPLICIT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_explicit_grids_equal_the_reference(name, options, grid):
    ours, theirs = both(name, **options)
    ours.set_timesteps(**grid)
    reference(lambda: theirs.set_timesteps(**grid))
    what = describe(name, options, grid)
    assert_same_grid(ours, theirs, what)
    seeded = {"seeded": True} if name in NOISY else {}
    reference(lambda: step_together(ours, theirs, what=what, **seeded))


BEGINNERS = [
    ("EulerDiscreteScheduler", {}),
    ("EulerDiscreteScheduler", {"use_karras_sigmas": True}),
    ("EulerAncestralDiscreteScheduler", {}),
    ("HeunDiscreteScheduler", {}),
    ("KDPM2DiscreteScheduler", {}),
    ("LMSDiscreteScheduler", {}),
    ("DPMSolverMultistepScheduler", {}),
    ("DPMSolverMultistepScheduler", {"solver_order": 3, "use_karras_sigmas": True}),
    ("DPMSolverSinglestepScheduler", {}),
    ("DPMSolverSinglestepScheduler", {"solver_order": 3, "lower_order_final": True}),
    ("UniPCMultistepScheduler", {"solver_order": 3}),
    ("DEISMultistepScheduler", {"solver_order": 3}),
    ("LCMScheduler", {}),
    ("TCDScheduler", {}),
    ("FlowMatchEulerDiscreteScheduler", {"shift": 3.0}),
    ("FlowMatchHeunDiscreteScheduler", {}),
]


@pytest.mark.parametrize("declared", [True, False], ids=["set_begin_index", "looked_up"])
@pytest.mark.parametrize(("name", "options"), BEGINNERS)
def test_a_run_that_begins_in_the_middle_equals_the_reference(name, options, declared):
    for begin in (1, 2, 5, 8):
        ours, theirs = both(name, **options)
        if name == "LMSDiscreteScheduler":
            integrate_in_float64(theirs)
        for scheduler in (ours, theirs):
            reference(lambda scheduler=scheduler: scheduler.set_timesteps(9))
            assert scheduler.begin_index is None
            assert scheduler.step_index is None
            if declared:
                scheduler.set_begin_index(begin * theirs.order)
        what = describe(name, options, "from", begin)
        begin_at = begin * theirs.order
        seeded = {"seeded": True} if name in NOISY else {}
        with quiet_reference():
            step_together(ours, theirs, what=what, begin=begin_at, **seeded)
        assert ours.step_index == theirs.step_index
        assert ours.begin_index == theirs.begin_index


@pytest.mark.parametrize("name", [name for name in GRID if " " not in name and name != "DDIMInverseScheduler"])
def test_adding_noise_equals_the_reference(name):
    """One timestep per sample, in both precisions, before the run, at its begin and inside it."""
    for dtype in (torch.float32, torch.bfloat16):
        sample, noise = (torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(k)).to(dtype) for k in (0, 1))
        ours, theirs = both(name)
        ours.set_timesteps(9)
        reference(lambda theirs=theirs: theirs.set_timesteps(9))
        timesteps = theirs.timesteps[[1, 4, 8]]
        if name == "FlowMatchHeunDiscreteScheduler":
            timesteps = timesteps[:1]  # the reference's takes one for all samples, and sets the place of the run by it
        forward = (
            [("scale_noise", (sample, timesteps, noise))]
            if "Flow" in name
            else [("add_noise", (sample, noise, timesteps))]
        )
        if name in ("DDIMScheduler", "DDPMScheduler", "LCMScheduler", "TCDScheduler"):
            forward.append(("get_velocity", (sample, noise, timesteps)))
        for method, arguments in forward:
            ours, theirs = ours.fresh(), copy.deepcopy(theirs)
            assert_same(
                getattr(ours, method)(*arguments), getattr(theirs, method)(*arguments), f"{name}.{method} {dtype}"
            )
        if hasattr(theirs, "set_begin_index"):
            ours, theirs = both(name)
            for scheduler in (ours, theirs):
                reference(lambda scheduler=scheduler: scheduler.set_timesteps(9))
                scheduler.set_begin_index(3)
            method, arguments = forward[0]
            assert_same(
                getattr(ours, method)(*arguments), getattr(theirs, method)(*arguments), f"{name}.{method} from 3"
            )
            start = theirs.timesteps[3]
            ours.step(sample, start, sample)
            reference(lambda theirs=theirs, sample=sample, start=start: theirs.step(sample, start, sample))
            assert_same(
                getattr(ours, method)(*arguments), getattr(theirs, method)(*arguments), f"{name}.{method} after a step"
            )


def assert_same(ours, theirs, what):
    assert ours.dtype == theirs.dtype, f"{what}: {ours.dtype}, wanted {theirs.dtype}"
    assert torch.equal(ours, theirs), f"{what} differs by {difference(ours, theirs):.3g}"


@pytest.mark.parametrize("variance_type", ["learned", "learned_range"])
@pytest.mark.parametrize("prediction_type", PREDICTIONS)
def test_ddpm_with_a_learned_variance_equals_the_reference(variance_type, prediction_type):
    ours, theirs = both("DDPMScheduler", variance_type=variance_type, prediction_type=prediction_type)
    ours.set_timesteps(20)
    theirs.set_timesteps(20)
    step_together(ours, theirs, what=variance_type, channels=2, seeded=True)


@pytest.mark.parametrize("algorithm", ["dpmsolver++", "dpmsolver"])
@pytest.mark.parametrize("name", ["DPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler"])
def test_dpm_solver_drops_a_learned_variance_as_the_reference(name, algorithm):
    ours, theirs = both(name, variance_type="learned_range", algorithm_type=algorithm, final_sigmas_type="sigma_min")
    ours.set_timesteps(8)
    reference(lambda: theirs.set_timesteps(8))
    step_together(ours, theirs, what=algorithm, channels=2)


def test_trained_betas_replace_the_schedule():
    betas = np.linspace(0.001, 0.05, 100).tolist()
    for name in ("DDIMScheduler", "EulerDiscreteScheduler", "UniPCMultistepScheduler"):
        ours, theirs = both(name, trained_betas=betas, num_train_timesteps=100)
        assert torch.equal(ours.alphas_cumprod, theirs.alphas_cumprod)
        ours.set_timesteps(10)
        theirs.set_timesteps(10)
        step_together(ours, theirs, what=name)


def test_noise_is_drawn_as_in_the_reference_for_a_list_of_generators():
    """Everything that draws noise, one generator per sample."""
    noisy = [
        ("DDIMScheduler", {}, {"eta": 1.0}),
        ("DDPMScheduler", {}, {}),
        ("EulerDiscreteScheduler", {}, {"s_churn": 5.0}),
        ("EulerAncestralDiscreteScheduler", {}, {}),
        ("DPMSolverMultistepScheduler", {"algorithm_type": "sde-dpmsolver++"}, {}),
        ("DPMSolverSinglestepScheduler", {"algorithm_type": "sde-dpmsolver++"}, {}),
        ("LCMScheduler", {}, {}),
        ("TCDScheduler", {}, {}),
        ("FlowMatchEulerDiscreteScheduler", {"stochastic_sampling": True}, {}),
        ("FlowMatchHeunDiscreteScheduler", {}, {"s_churn": 5.0}),
    ]
    for name, options, step_options in noisy:
        ours, theirs = both(name, **options)
        ours.set_timesteps(4)
        reference(lambda theirs=theirs: theirs.set_timesteps(4))
        sample, output = torch.randn(2, *SHAPE)
        results = []
        for scheduler in (ours, theirs):
            generators = [torch.Generator().manual_seed(seed) for seed in (3, 4)]
            results.append(
                scheduler.step(output, scheduler.timesteps[0], sample, generator=generators, **step_options)[0]
            )
        assert torch.equal(*results), name


def test_per_token_timesteps_equal_the_reference():
    """Tokens at different noise levels, as the models that condition on clean frames use them."""
    for options in ({}, {"stochastic_sampling": True}):
        ours, theirs = both("FlowMatchEulerDiscreteScheduler", **options)
        ours.set_timesteps(6)
        theirs.set_timesteps(6)
        sample, output = torch.randn(2, 2, 5, 3).to(torch.bfloat16)
        tokens = theirs.timesteps[torch.tensor([[0, 1, 2, 3, 5], [0, 0, 0, 0, 0]])]
        results = []
        for scheduler in (ours, theirs):
            generator = torch.Generator().manual_seed(0)
            results.append(
                scheduler.step(
                    output, scheduler.timesteps[0], sample, per_token_timesteps=tokens, generator=generator
                ).prev_sample
            )
        assert_same(*results, f"per token {options}")


def test_ddim_takes_given_noise():
    ours, theirs = both("DDIMScheduler")
    ours.set_timesteps(4)
    theirs.set_timesteps(4)
    sample, output, noise = torch.randn(3, *SHAPE)
    t = theirs.timesteps[1]
    arguments = {"eta": 0.5, "variance_noise": noise}
    assert_same(
        ours.step(output, t, sample, **arguments)[0], theirs.step(output, t, sample, **arguments)[0], "variance_noise"
    )
