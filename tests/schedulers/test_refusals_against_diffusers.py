"""What the reference refuses is refused here, with an error of the same family and no later."""

import diffusers
import pytest
import torch

import lockstep.schedulers
from lockstep.errors import ConfigError, InputError, UnsupportedError
from schedulers.side_by_side import SHAPE, assert_same_refusal

ALL = [name for name in lockstep.schedulers.__all__ if name.endswith("Scheduler")]
TRAINED_ON_BETAS = [name for name in ALL if "Flow" not in name]
SPACED = [
    name for name in TRAINED_ON_BETAS if name not in ("DPMSolverSinglestepScheduler", "LCMScheduler", "TCDScheduler")
]
RESPACED = [
    name
    for name in ALL
    if "use_beta_sigmas" in lockstep.configuration.config_defaults(getattr(lockstep.schedulers, name))
]


def run(library, name, *, steps=4, step_options=None, **options):
    """A whole life: build, lay a grid, step."""
    scheduler = getattr(library, name)(**options)
    scheduler.set_timesteps(steps)
    for timestep in scheduler.timesteps:
        scheduler.step(torch.ones(SHAPE), timestep, torch.ones(SHAPE), **(step_options or {}))


def lay(library, name, options, *arguments, **grid):
    getattr(library, name)(**options).set_timesteps(*arguments, **grid)


def step_at(library, name, timestep, set_timesteps=True):
    scheduler = getattr(library, name)()
    if set_timesteps:
        scheduler.set_timesteps(4)
    scheduler.step(torch.ones(SHAPE), timestep, torch.ones(SHAPE))


CASES = {
    **{f"{n}: unknown beta_schedule": lambda lib, n=n: run(lib, n, beta_schedule="bumpy") for n in TRAINED_ON_BETAS},
    **{
        f"{n}: unknown prediction_type": lambda lib, n=n: run(lib, n, prediction_type="guess") for n in TRAINED_ON_BETAS
    },
    **{f"{n}: unknown timestep_spacing": lambda lib, n=n: run(lib, n, timestep_spacing="random") for n in SPACED},
    **{
        f"{n}: two spacings": lambda lib, n=n: run(lib, n, use_karras_sigmas=True, use_beta_sigmas=True)
        for n in RESPACED
    },
    **{
        f"{n}: more steps than trained": lambda lib, n=n: run(lib, n, steps=1001)
        for n in ("DDIMScheduler", "DDIMInverseScheduler", "DDPMScheduler", "LCMScheduler", "TCDScheduler")
    },
    **{
        f"{n}: no timesteps set": lambda lib, n=n: step_at(lib, n, 999, set_timesteps=False)
        for n in (
            "DDIMScheduler",
            "PNDMScheduler",
            "DPMSolverMultistepScheduler",
            "DPMSolverSinglestepScheduler",
            "UniPCMultistepScheduler",
            "DEISMultistepScheduler",
            "LCMScheduler",
            "TCDScheduler",
        )
    },
    **{
        f"{n}: an index as timestep": lambda lib, n=n, t=t: step_at(lib, n, t)
        for n in (
            "EulerDiscreteScheduler",
            "EulerAncestralDiscreteScheduler",
            "FlowMatchEulerDiscreteScheduler",
            "FlowMatchHeunDiscreteScheduler",
        )
        for t in (0, torch.tensor(1), torch.tensor(2, dtype=torch.int32))
    },
    **{
        f"{n}: a timestep off the grid": lambda lib, n=n: step_at(
            lib, n, torch.tensor(123 if n == "DDPMScheduler" else 123.0)
        )
        for n in (
            "EulerDiscreteScheduler",
            "HeunDiscreteScheduler",
            "LMSDiscreteScheduler",
            "LCMScheduler",
            "DDPMScheduler",
            "FlowMatchEulerDiscreteScheduler",
        )
    },
    **{
        f"{n}: timesteps with use_{kind}": lambda lib, n=n, kind=kind: lay(
            lib, n, {f"use_{kind}": True}, timesteps=[999, 500]
        )
        for n in (
            "EulerDiscreteScheduler",
            "HeunDiscreteScheduler",
            "DPMSolverMultistepScheduler",
            "DPMSolverSinglestepScheduler",
        )
        for kind in ("karras_sigmas", "exponential_sigmas", "beta_sigmas")
    },
    **{
        f"{n}: a number of steps and timesteps": lambda lib, n=n: lay(lib, n, {}, 4, timesteps=[999, 500])
        for n in (
            "DDPMScheduler",
            "EulerDiscreteScheduler",
            "HeunDiscreteScheduler",
            "DPMSolverMultistepScheduler",
            "DPMSolverSinglestepScheduler",
            "LCMScheduler",
            "TCDScheduler",
        )
    },
    **{f"{n}: no grid at all": lambda lib, n=n: lay(lib, n, {}) for n in ALL},
    **{
        f"{n}: rising timesteps": lambda lib, n=n: lay(lib, n, {}, timesteps=[20, 500])
        for n in ("DDPMScheduler", "LCMScheduler", "TCDScheduler")
    },
    **{
        f"{n}: an untrained timestep": lambda lib, n=n: lay(lib, n, {}, timesteps=[1000, 500])
        for n in ("DDPMScheduler", "LCMScheduler", "TCDScheduler")
    },
    **{
        f"{n}: unknown final_sigmas_type": lambda lib, n=n: run(lib, n, final_sigmas_type="one")
        for n in (
            "EulerDiscreteScheduler",
            "DPMSolverMultistepScheduler",
            "DPMSolverSinglestepScheduler",
            "UniPCMultistepScheduler",
        )
    },
    **{
        f"{n}: unknown {key}": lambda lib, n=n, key=key: run(lib, n, **{key: "magic"})
        for n in ("DPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler", "DEISMultistepScheduler")
        for key in ("algorithm_type", "solver_type")
    },
    **{
        f"{n}: mu without dynamic shifting": lambda lib, n=n: lay(lib, n, {}, 4, mu=0.5)
        for n in ("DPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler", "DEISMultistepScheduler")
    },
    **{
        f"{n}: dynamic shifting without mu": lambda lib, n=n: lay(lib, n, {"use_dynamic_shifting": True}, 4)
        for n in ("UniPCMultistepScheduler", "FlowMatchEulerDiscreteScheduler")
    },
    **{
        f"{n}: {algorithm} to zero": lambda lib, n=n, algorithm=algorithm: run(lib, n, algorithm_type=algorithm)
        for n in ("DPMSolverMultistepScheduler", "DPMSolverSinglestepScheduler")
        for algorithm in ("dpmsolver", "sde-dpmsolver")
    },
    "UniPC: unknown solver_type": lambda lib: run(lib, "UniPCMultistepScheduler", solver_type="magic"),
    "UniPC: sigmas without flow": lambda lib: lay(lib, "UniPCMultistepScheduler", {}, sigmas=[1.0, 0.5]),
    "UniPC: shift_terminal without flow": lambda lib: run(lib, "UniPCMultistepScheduler", shift_terminal=0.1),
    "UniPC: flow in eps": lambda lib: run(
        lib, "UniPCMultistepScheduler", prediction_type="flow_prediction", use_flow_sigmas=True, predict_x0=False
    ),
    "DPM: flow in eps": lambda lib: run(
        lib,
        "DPMSolverMultistepScheduler",
        prediction_type="flow_prediction",
        algorithm_type="dpmsolver",
        final_sigmas_type="sigma_min",
    ),
    "DPM: sde-dpmsolver of third order": lambda lib: run(
        lib,
        "DPMSolverMultistepScheduler",
        algorithm_type="sde-dpmsolver",
        solver_order=3,
        final_sigmas_type="sigma_min",
        steps=20,
    ),
    "DPM: timesteps with lu": lambda lib: lay(
        lib, "DPMSolverMultistepScheduler", {"use_lu_lambdas": True}, timesteps=[999, 500]
    ),
    "DPM: timesteps with flow": lambda lib: lay(
        lib, "DPMSolverMultistepScheduler", {"use_flow_sigmas": True}, timesteps=[999, 500]
    ),
    "Singlestep: fourth order": lambda lib: run(lib, "DPMSolverSinglestepScheduler", solver_order=4),
    "Singlestep: sde-dpmsolver": lambda lib: run(lib, "DPMSolverSinglestepScheduler", algorithm_type="sde-dpmsolver"),
    "Euler: timesteps and sigmas": lambda lib: lay(
        lib, "EulerDiscreteScheduler", {}, timesteps=[999], sigmas=[14.0, 0.0]
    ),
    "Euler: a number of steps and sigmas": lambda lib: lay(lib, "EulerDiscreteScheduler", {}, 4, sigmas=[14.0, 0.0]),
    "Euler: timesteps with continuous ones": lambda lib: lay(
        lib,
        "EulerDiscreteScheduler",
        {"timestep_type": "continuous", "prediction_type": "v_prediction"},
        timesteps=[999],
    ),
    "Euler: unknown interpolation": lambda lib: run(lib, "EulerDiscreteScheduler", interpolation_type="cubic"),
    "Euler ancestral: sample": lambda lib: run(lib, "EulerAncestralDiscreteScheduler", prediction_type="sample"),
    "KDPM2: sample": lambda lib: run(lib, "KDPM2DiscreteScheduler", prediction_type="sample"),
    "PNDM: sample": lambda lib: run(lib, "PNDMScheduler", prediction_type="sample"),
    "PNDM: too few steps for Runge-Kutta": lambda lib: run(lib, "PNDMScheduler", steps=3),
    "DDIM inverse: linspace": lambda lib: run(lib, "DDIMInverseScheduler", timestep_spacing="linspace"),
    "DDIM: two kinds of noise": lambda lib: run(
        lib,
        "DDIMScheduler",
        step_options={"eta": 1.0, "generator": torch.Generator(), "variance_noise": torch.ones(SHAPE)},
    ),
    "DDPM: learned variance that the model lacks": lambda lib: run(lib, "DDPMScheduler", variance_type="learned_range"),
    "TCD: eta above 1": lambda lib: run(lib, "TCDScheduler", step_options={"eta": 1.5}),
    "LCM: more original steps than trained": lambda lib: lay(lib, "LCMScheduler", {}, 4, original_inference_steps=2000),
    "LCM: more steps than distilled": lambda lib: lay(lib, "LCMScheduler", {}, 60),
    "LCM: more steps than the strength leaves": lambda lib: lay(lib, "LCMScheduler", {}, 30, strength=0.5),
    "TCD: more steps than distilled": lambda lib: lay(lib, "TCDScheduler", {}, 60, original_inference_steps=50),
    "Flow: as many sigmas as timesteps": lambda lib: lay(
        lib, "FlowMatchEulerDiscreteScheduler", {}, sigmas=[1.0, 0.5], timesteps=[900.0]
    ),
    "Flow: as many sigmas as steps": lambda lib: lay(lib, "FlowMatchEulerDiscreteScheduler", {}, 4, sigmas=[1.0, 0.5]),
    "Flow: unknown time_shift_type": lambda lib: run(lib, "FlowMatchEulerDiscreteScheduler", time_shift_type="cubic"),
}


@pytest.mark.parametrize("what", CASES)
def test_the_reference_refuses_it_too(what):
    call = CASES[what]
    assert_same_refusal(lambda: call(diffusers), lambda: call(lockstep.schedulers), what)


# --- what the reference lets pass and cannot work or is ignored there -----------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("DPMSolverMultistepScheduler", {"use_flow_sigmas": True, "use_karras_sigmas": True}, ConfigError),
        ("DPMSolverMultistepScheduler", {"use_lu_lambdas": True, "use_karras_sigmas": True}, ConfigError),
        ("DPMSolverMultistepScheduler", {"solver_order": 4}, ConfigError),
        ("DEISMultistepScheduler", {"solver_order": 0}, ConfigError),
        ("UniPCMultistepScheduler", {"thresholding": True, "predict_x0": False}, ConfigError),
        ("UniPCMultistepScheduler", {"solver_p": "ddim"}, UnsupportedError),
        ("DDPMScheduler", {"variance_type": "fixed"}, ConfigError),
        ("DDIMScheduler", {"num_train_timesteps": 0}, ConfigError),
        ("DDIMScheduler", {"beta_start": "small"}, ConfigError),
        ("DDIMScheduler", {"steps_offset": 1.5}, ConfigError),
        ("FlowMatchEulerDiscreteScheduler", {"shift": 0.0}, ConfigError),
    ],
)
def test_options_that_cannot_work_are_refused(name, options, error):
    with pytest.raises(error, match=name):
        getattr(lockstep.schedulers, name)(**options)


def test_a_list_of_generators_has_one_per_sample():
    scheduler = lockstep.schedulers.DDPMScheduler()
    scheduler.set_timesteps(4)
    with pytest.raises(InputError, match="2 for this batch, got 3"):
        scheduler.step(torch.ones(SHAPE), scheduler.timesteps[0], torch.ones(SHAPE), generator=[torch.Generator()] * 3)


def test_a_stretch_of_one_step_is_refused():
    scheduler = lockstep.schedulers.FlowMatchEulerDiscreteScheduler(shift_terminal=0.1)
    with pytest.raises(InputError, match="shift_terminal"):
        scheduler.set_timesteps(1)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("num_steps", [0, -1, 2.5, True, "ten"])
def test_a_number_of_steps_is_a_whole_number_above_zero(name, num_steps):
    with pytest.raises(InputError, match="num_inference_steps"):
        getattr(lockstep.schedulers, name)().set_timesteps(num_steps)
