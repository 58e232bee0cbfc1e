"""The schedulers of particular model families beside the reference's: EDM, SDE solvers, consistency models, video."""

import copy

import pytest
import torch

from lockstep.schedulers.brownian import BrownianNoise, BrownianPath
from schedulers.side_by_side import (
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
EDM = {
    "sigma": [{}, {"sigma_schedule": "exponential"}, {"sigma_min": 0.01, "sigma_max": 50.0, "rho": 5.0}],
    "prediction_type": ["epsilon", "v_prediction"],
    "final_sigmas_type": ["zero", "sigma_min"],
}

# name -> options of which every combination is tried, options that take turns, options of `step`
GRID = {
    "EDMEulerScheduler": (
        EDM,
        {"sigma_data": [0.5, 1.0], "num_train_timesteps": [1000, 200]},
        [
            {},
            {"s_churn": 5.0, "s_noise": 1.01, "seeded": True},
            {"s_churn": 5.0, "s_tmin": 0.1, "s_tmax": 20.0, "seeded": True},
        ],
    ),
    "EDMDPMSolverMultistepScheduler": (
        {**EDM, "algorithm_type": ["dpmsolver++", "sde-dpmsolver++"], "solver_type": ["midpoint", "heun"]},
        {
            "solver_order": [2, 1],
            "lower_order_final": [True, False, True],
            "euler_at_final": [False, False, False, True],
            "thresholding": [False, False, False, False, True],
            "sigma_data": [0.5, 1.0, 0.5],
        },
        [{"seeded": True}],
    ),
    "KDPM2AncestralDiscreteScheduler": (
        {"prediction_type": ["epsilon", "v_prediction"], "timestep_spacing": SPACING, "sigma": SIGMAS},
        {"beta_schedule": BETAS, "steps_offset": [0, 1], "num_train_timesteps": [1000, 200, 200, 200, 200, 200, 200]},
        [{"seeded": True}],
    ),
    "DPMSolverSDEScheduler": (
        {"prediction_type": ["epsilon", "v_prediction"], "timestep_spacing": SPACING, "sigma": SIGMAS},
        {
            "beta_schedule": BETAS,
            "steps_offset": [0, 1],
            "noise_sampler_seed": [0, 7],
            "num_train_timesteps": [1000, 200, 200, 200, 200],
        },
        [{}, {"s_noise": 0.9}],
    ),
    "IPNDMScheduler": ({"num_train_timesteps": [1000, 100, 50]}, {}, [{}]),
    "SASolverScheduler": (
        {
            "prediction_type": ["epsilon", "sample", "v_prediction"],
            "sigma": SIGMAS,
            "orders": [
                {},
                {"predictor_order": 1, "corrector_order": 1},
                {"predictor_order": 3, "corrector_order": 2},
                {"predictor_order": 2, "corrector_order": 3},
            ],
        },
        {
            "timestep_spacing": SPACING,
            "beta_schedule": ["linear", "linear", "scaled_linear", "squaredcos_cap_v2"],
            "algorithm_type": ["data_prediction", "data_prediction", "noise_prediction"],
            "lower_order_final": [True, True, True, False],
            "steps_offset": [0, 1],
            "lambda_min_clipped": [-float("inf"), -5.1],
        },
        [{"seeded": True}],
    ),
    "UnCLIPScheduler": (
        {
            "prediction_type": ["epsilon", "sample"],
            "clip": [{"clip_sample": False}, {}, {"clip_sample_range": 2.0}],
            "num_train_timesteps": [1000, 100, 200],
        },
        {},
        [{"seeded": True}],
    ),
    "CogVideoXDDIMScheduler": (
        {
            "prediction_type": ["epsilon", "sample", "v_prediction"],
            "timestep_spacing": SPACING,
            "rescale_betas_zero_snr": [False, True],
        },
        {
            "beta_schedule": ["scaled_linear", "linear", "squaredcos_cap_v2"],
            "set_alpha_to_one": [True, False],
            "snr_shift_scale": [3.0, 1.0],
            "steps_offset": [0, 1],
        },
        [{}],
    ),
    "CMStochasticIterativeScheduler": (
        {
            "clip_denoised": [True, False],
            "sigma": [{}, {"sigma_min": 0.01, "sigma_max": 50.0, "rho": 5.0}],
            "num_train_timesteps": [40, 201],
        },
        {"s_noise": [1.0, 1.1], "sigma_data": [0.5, 1.0]},
        [{"seeded": True}],
    ),
    "FlowMatchLCMScheduler": (
        {"shift": [1.0, 3.0], "sigma": SIGMAS, "end": [{}, {"shift_terminal": 0.1}, {"invert_sigmas": True}]},
        {},
        [{"seeded": True}],
    ),
}
STEPS = {
    "UnCLIPScheduler": (2, 7, 20, 50),
    "CMStochasticIterativeScheduler": (1, 2, 7, 20),
    "DPMSolverSDEScheduler": (1, 2, 7, 20),
    "SASolverScheduler": (1, 2, 7, 20),
}


@pytest.mark.parametrize("name", GRID)
def test_steps_equal_the_reference(name, record_property):
    tally = compare_all(name, *GRID[name], num_steps=STEPS.get(name, (1, 2, 7, 20, 50)))
    record_property("tally", repr(tally))
    assert tally.steps > 100
    assert tally.finite > 0.8 * tally.compared


# --- what the grid of options does not reach ------------------------------------------------------------------------

FLOW = {"prediction_type": "flow_prediction", "use_flow_sigmas": True, "flow_shift": 3.0}


@pytest.mark.parametrize(
    ("name", "options", "grid"),
    [
        ("EDMEulerScheduler", {}, {"sigmas": torch.linspace(0, 1, 6) ** 2}),
        ("CMStochasticIterativeScheduler", {}, {"timesteps": [22, 0]}),
        ("SASolverScheduler", FLOW, {"num_inference_steps": 8}),
        ("FlowMatchLCMScheduler", {"use_dynamic_shifting": True}, {"num_inference_steps": 5, "mu": 0.8}),
        ("FlowMatchLCMScheduler", {"shift": 3.0}, {"sigmas": [1.0, 0.8, 0.5, 0.2]}),
        ("FlowMatchLCMScheduler", {"shift": 3.0}, {"timesteps": [1000, 700, 300, 50]}),
        ("IPNDMScheduler", {"trained_betas": [1.0, 0.8, 0.5, 0.2, 0.1, 0.0]}, {"num_inference_steps": 5}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_explicit_grids_equal_the_reference(name, options, grid):
    ours, theirs = both(name, **options)
    ours.set_timesteps(**grid)
    reference(lambda: theirs.set_timesteps(**grid))
    what = describe(name, options, grid)
    assert_same_grid(ours, theirs, what)
    seeded = {"seeded": True} if name not in ("IPNDMScheduler",) else {}
    with quiet_reference():
        step_together(ours, theirs, what=what, **seeded)


@pytest.mark.parametrize("declared", [True, False], ids=["set_begin_index", "looked_up"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("EDMEulerScheduler", {}),
        ("EDMDPMSolverMultistepScheduler", {"solver_order": 3}),
        ("KDPM2AncestralDiscreteScheduler", {}),
        ("DPMSolverSDEScheduler", {"noise_sampler_seed": 3}),
        ("IPNDMScheduler", {}),
        ("SASolverScheduler", {"predictor_order": 3, "corrector_order": 3}),
        ("CMStochasticIterativeScheduler", {}),
        ("FlowMatchLCMScheduler", {"shift": 3.0}),
    ],
)
def test_a_run_that_begins_in_the_middle_equals_the_reference(name, options, declared):
    for begin in (1, 2, 5, 8):
        ours, theirs = both(name, **options)
        for scheduler in (ours, theirs):
            reference(lambda scheduler=scheduler: scheduler.set_timesteps(9))
            if declared:
                scheduler.set_begin_index(begin * theirs.order)
        seeded = {} if name in ("IPNDMScheduler", "DPMSolverSDEScheduler") else {"seeded": True}
        with quiet_reference():
            step_together(
                ours, theirs, what=describe(name, options, "from", begin), begin=begin * theirs.order, **seeded
            )
        assert ours.step_index == theirs.step_index
        assert ours.begin_index == theirs.begin_index


@pytest.mark.parametrize("name", [name for name in GRID if name != "IPNDMScheduler"])
def test_adding_noise_equals_the_reference(name):
    sample, noise = (torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    ours, theirs = both(name)
    ours.set_timesteps(9)
    reference(lambda: theirs.set_timesteps(9))
    timesteps = theirs.timesteps[[1, 4, 8]]
    method = "scale_noise" if "Flow" in name else "add_noise"
    arguments = (sample, timesteps, noise) if "Flow" in name else (sample, noise, timesteps)
    assert torch.equal(getattr(ours, method)(*arguments), getattr(theirs, method)(*arguments))
    if "CogVideoX" in name:
        assert torch.equal(ours.get_velocity(*arguments), theirs.get_velocity(*arguments))


@pytest.mark.parametrize("options",
    [{}, {"rescale_betas_zero_snr": True, "prediction_type": "v_prediction", "timestep_spacing": "trailing"},
        {"set_alpha_to_one": False, "beta_schedule": "linear"}])  # fmt: skip
@pytest.mark.parametrize("num_steps", [2, 7, 20])
def test_cogvideox_dpm_equals_the_reference(options, num_steps):
    """Its caller keeps the x0 and the timestep of the step before, and it gives tuples."""
    ours, theirs = both("CogVideoXDPMScheduler", **options)
    samples, olds, generators = [torch.randn(SHAPE)] * 2, [None, None], [torch.Generator().manual_seed(1) for _ in "12"]
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(num_steps)
    for k, timestep in enumerate(theirs.timesteps):
        back = theirs.timesteps[k - 1] if k > 0 else None
        output = torch.randn(SHAPE)
        for who, scheduler in enumerate((ours, theirs)):
            samples[who], olds[who] = scheduler.step(
                output, olds[who], timestep, back, samples[who], generator=generators[who]
            )
        assert difference(samples[0], samples[1]) < 1e-6, f"step {k}"
        assert torch.equal(olds[0], olds[1]) or difference(olds[0], olds[1]) < 1e-6
    named = ours.step(output, None, timestep, None, samples[0], return_dict=True)
    assert named.pred_original_sample is not None


@pytest.mark.parametrize("variance_type", ["fixed_small_log", "learned_range"])
def test_unclip_steps_to_a_named_timestep_as_the_reference(variance_type):
    ours, theirs = both("UnCLIPScheduler", variance_type=variance_type)
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(25)
    channels = 2 if variance_type == "learned_range" else 1
    sample, output = torch.randn(SHAPE), torch.randn(SHAPE[0], channels * SHAPE[1], *SHAPE[2:])
    for timestep, previous in ((833, 791), (500, None), (42, 0), (0, None), (999, -1)):
        if previous == -1 and variance_type == "learned_range":
            continue  # the reference takes the logarithm of a variance of zero
        results = [
            scheduler.step(output, timestep, sample, prev_timestep=previous, generator=torch.Generator().manual_seed(0))
            for scheduler in (ours, theirs)
        ]
        assert difference(results[0].prev_sample, results[1].prev_sample) < 1e-6
        assert torch.equal(results[0].pred_original_sample, results[1].pred_original_sample)


def test_flow_lcm_grows_as_the_reference():
    options = {"shift": 3.0, "scale_factors": [1.5, 2.0, 3.0], "upscale_mode": "bicubic"}
    ours, theirs = both("FlowMatchLCMScheduler", **options)
    samples = [torch.randn(SHAPE)] * 2
    generators = [torch.Generator().manual_seed(1) for _ in "12"]
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(4)
    for timestep in theirs.timesteps:
        output = torch.randn(samples[0].shape)
        for who, scheduler in enumerate((ours, theirs)):
            samples[who] = scheduler.step(output, timestep, samples[who], generator=generators[who]).prev_sample
        assert torch.equal(*samples)
    assert samples[0].shape[-1] == 12


def test_sa_solver_takes_a_tau_of_its_own():
    ours, theirs = both("SASolverScheduler", tau_func=lambda t: 0.5 if t > 300 else 0.2)
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(10)
    step_together(ours, theirs, what="tau", seeded=True)


# --- Brownian motion ------------------------------------------------------------------------------------------------


def test_brownian_paths_are_those_of_torchsde():
    import torchsde

    for seed, (start, end) in ((0, (0.0292, 14.6146)), (123456789, (0.002, 80.0))):
        theirs = torchsde.BrownianInterval(
            t0=start, t1=end, size=(2, 3), entropy=seed, tol=1e-6, pool_size=24, halfway_tree=True
        )
        ours = BrownianPath(start, end, torch.Size((2, 3)), torch.float32, torch.device("cpu"), seed)
        times = torch.rand(20, generator=torch.Generator().manual_seed(seed)).mul(end - start).add(start).tolist()
        for a, b in zip([start, *times], [*times, end], strict=True):
            a, b = sorted((a, b))
            assert torch.equal(ours.increment(a, b), theirs(a, b))


def test_a_brownian_path_is_one_path():
    """Increments add up, have the variance of their length, and do not depend on what was asked before."""
    path = BrownianPath(0.0, 4.0, torch.Size((20000,)), torch.float32, torch.device("cpu"), 5)
    whole, parts = path.increment(0.5, 3.7), path.increment(0.5, 1.25) + path.increment(1.25, 3.7)
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-5)
    assert float(whole.var()) == pytest.approx(3.2, rel=0.05)
    assert abs(float((path.increment(0.0, 0.5) * whole).mean())) < 0.05
    assert torch.equal(path.increment(0.5, 3.7), whole)
    assert torch.equal(path.increment(1.0, 1.0), torch.zeros(20000))


def test_a_row_has_its_own_brownian_path():
    sample, high, low = torch.zeros(3, 2, 4), torch.tensor(3.0), torch.tensor(1.0)
    together = BrownianNoise(sample, 0.03, 14.6, [1, 2, 3])(high, low)
    alone = BrownianNoise(sample[:1], 0.03, 14.6, [2])(high, low)
    assert torch.equal(together[1], alone[0])
    assert not torch.equal(together[0], together[1])


def test_the_path_of_a_run_comes_from_the_seed_the_generator_or_torch():
    """In this order; without either it is the reference's, which asks torch's global generator."""
    ours, theirs = both("DPMSolverSDEScheduler")
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(5)
    results = []
    for scheduler in (ours, theirs):
        torch.manual_seed(11)
        with quiet_reference():
            results.append(scheduler.step(torch.ones(SHAPE), scheduler.timesteps[0], torch.ones(SHAPE)).prev_sample)
    assert torch.equal(*results)
    seeded = [
        ours.fresh().step(torch.ones(SHAPE), ours.timesteps[0], torch.ones(SHAPE),
            generator=torch.Generator().manual_seed(k))[0]
        for k in (1, 1, 2)
    ]  # fmt: skip
    assert torch.equal(seeded[0], seeded[1])
    assert not torch.equal(seeded[0], seeded[2])
    in_the_middle = copy.deepcopy(ours)
    for scheduler in (ours, in_the_middle):
        results.append(scheduler.step(torch.ones(SHAPE), ours.timesteps[1], torch.ones(SHAPE)).prev_sample)
    assert torch.equal(results[-1], results[-2])
