"""Another sampler for the same model: what can serve it is adapted, what cannot is refused."""

import pytest
import torch

import lockstep
from lockstep.errors import UnsupportedError
from lockstep.schedulers import exchanged

FLOW = lockstep.FlowMatchEulerDiscreteScheduler(shift=3.0)
EVERY = [getattr(lockstep, name) for name in lockstep.__all__ if name.endswith("Scheduler")]


def straight_flow(scheduler, x0, noise, steps=8):
    """The sample at the end of a run whose model knows x0: its prediction is noise - x0 everywhere."""
    scheduler.set_timesteps(steps)
    sample = noise * scheduler.init_noise_sigma
    for t in scheduler.timesteps:
        sample = scheduler.step(noise - x0, t, sample, return_dict=False)[0]
    return sample


@pytest.mark.parametrize(
    "kind",
    [
        lockstep.DPMSolverMultistepScheduler,
        lockstep.DPMSolverSinglestepScheduler,
        lockstep.UniPCMultistepScheduler,
        lockstep.EulerDiscreteScheduler,
        lockstep.HeunDiscreteScheduler,
        lockstep.FlowMatchHeunDiscreteScheduler,
    ],
)
@pytest.mark.filterwarnings("ignore:This model was trained by flow matching")
def test_a_sampler_of_diffusion_becomes_one_of_flow_matching(kind):
    made = exchanged(FLOW, kind)
    assert made.trained_for == FLOW.trained_for == "flow matching"
    assert made.config.get("flow_shift", made.config.get("shift")) == 3.0
    x0, noise = torch.randn(2, 1, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    made_of_it = straight_flow(made, x0, noise)
    # a grid that ends just above zero leaves that much noise
    assert torch.linalg.norm(made_of_it - x0) < 0.02 * torch.linalg.norm(x0), kind


@pytest.mark.parametrize("kind", [lockstep.DDIMScheduler, lockstep.DEISMultistepScheduler, lockstep.EDMEulerScheduler])
def test_a_sampler_that_knows_no_flow_is_refused(kind):
    with pytest.raises(UnsupportedError, match="wants a scheduler for flow matching.*DPMSolverMultistepScheduler"):
        exchanged(FLOW, kind)


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind.training != "diffusion"])
@pytest.mark.parametrize("prediction_type", ["epsilon", "v_prediction"])
def test_a_model_of_diffusion_refuses_what_is_for_others(kind, prediction_type):
    own = lockstep.DDIMScheduler(prediction_type=prediction_type)
    with pytest.raises(UnsupportedError, match=r"wants a scheduler for diffusion.*EulerDiscreteScheduler"):
        exchanged(own, kind)


def test_what_a_switch_made_flow_goes_back_to_a_class_of_flow():
    own = lockstep.UniPCMultistepScheduler(use_flow_sigmas=True, prediction_type="flow_prediction", flow_shift=5.0)
    assert exchanged(own, lockstep.FlowMatchEulerDiscreteScheduler).config.shift == 5.0


def test_a_grid_that_flow_matching_does_not_have_is_refused():
    with pytest.raises(UnsupportedError, match="has no use_karras_sigmas"):
        exchanged(FLOW, lockstep.HeunDiscreteScheduler, use_karras_sigmas=True)
