"""Calls of the denoiser that are left out: what it would say is foretold from what it said last.

A prediction means a clean picture x0, and along a run x0 changes slowly and evenly, far more so than the prediction
itself. So x0 is extrapolated, with half of its last slope. Each time the denoiser is called, the difference of what
it says to what would have been foretold is measured; it says how many calls can be left out next within the bound.
"""

from __future__ import annotations

import torch

from ...blocks import BlockView, InputParam, OutputParam
from ...errors import InputError
from ...schedulers import SchedulerMixin
from ...schedulers.levels import ModelLevel

Tensor = torch.Tensor
Computed = tuple[int, Tensor, float]  # the step, its x0, and by how much a foretelling fails for each step ahead
SLOPE = 0.5  # of the last slope; none and the whole are both worse (docs/performance.md)
LONGEST = 5  # calls left out in a row at most

BOUND = InputParam(
    "foretell", float, default=0.0, minimum=0.0, maximum=1.0,
    description="Leave out calls of the denoiser whose result can be foretold with this relative error (0.02 is "
    "hardly seen); 0 leaves out none.",
)  # fmt: skip
EARLIER = OutputParam("earlier_predictions", list, description="What the denoiser said last, to foretell by.")
FORETOLD = OutputParam("foretold_steps", list, description="The steps at which the denoiser was not called.")
MAKES = [EARLIER, FORETOLD]
READS = [BOUND, *(InputParam(made.name, list, given=False, description=made.description) for made in MAKES)]


def foretell(scheduler: SchedulerMixin, state: BlockView, step: int, t: Tensor) -> Tensor | None:
    """The prediction of a step, or None where the denoiser has to be called: at the first two steps and the last."""
    earlier = _earlier(state, step)
    if not state.foretell or len(earlier) < 2 or step == len(state.timesteps) - 1:
        return None
    latest, original, growth = earlier[-1]
    ahead, level = step - latest, _level(scheduler, t)
    if ahead > LONGEST or growth * ahead * _weight(scheduler, state, step, level) > state.foretell:
        return None
    return level.output(_extrapolated(earlier, step), _seen(state, original))


def remember(scheduler: SchedulerMixin, state: BlockView, step: int, t: Tensor, was_computed: bool) -> None:
    """Keep the last two computed steps, with what a foretelling of the last would have failed by."""
    earlier, told = _earlier(state, step), [] if step == 0 else state.foretold_steps or []
    if state.foretell and was_computed:
        original = _level(scheduler, t).original(state.noise_pred, _seen(state, state.noise_pred))
        earlier = [*earlier[-1:], (step, original, _growth(earlier, step, original))]
    state.earlier_predictions, state.foretold_steps = earlier, told if was_computed else [*told, step]


def _earlier(state: BlockView, step: int) -> list[Computed]:
    """What is remembered; each loop begins anew."""
    return [] if step == 0 else state.earlier_predictions or []


def check(scheduler: SchedulerMixin, bound: float) -> None:
    """Refuse a bound where nothing is known of how the models were trained."""
    if bound and ModelLevel.at(scheduler, 1.0) is None:
        raise InputError(
            f"'foretell' knows models of diffusion and of flow matching; {type(scheduler).__name__} is for others. "
            "Leave it out (or pipe.accelerate('exact')): every step is computed then."
        )


def _level(scheduler: SchedulerMixin, t: Tensor) -> ModelLevel:
    level = ModelLevel.at(scheduler, t)
    assert level is not None  # see check
    return level


def _weight(scheduler: SchedulerMixin, state: BlockView, step: int, here: ModelLevel) -> float:
    """How much of an error of x0 a step takes into the latents: little where they are mostly noise."""
    t = state.timesteps[step]
    following = next((other for other in state.timesteps[step:] if other != t), t)
    there = _level(scheduler, following)
    return abs(there.alpha - there.sigma * here.alpha / here.sigma)


def _seen(state: BlockView, like: Tensor) -> Tensor:
    """The latents as the denoiser sees them, without what was appended for it."""
    return state.model_input[tuple(slice(size) for size in like.shape)]


def _growth(earlier: list[Computed], step: int, original: Tensor) -> float:
    """Relative L2 between what would have been foretold and what was computed, for each step ahead: the worst row's."""
    if not earlier:
        return float("inf")
    latest, before, _ = earlier[-1]
    guess = _extrapolated(earlier, step) if len(earlier) > 1 else before
    rows = (guess - original).flatten(1).float().norm(dim=1) / original.flatten(1).float().norm(dim=1).clamp_min(1e-12)
    return float(rows.max()) / (step - latest)


def _extrapolated(earlier: list[Computed], step: int) -> Tensor:
    (first, before, _), (latest, now, _) = earlier
    return now + (now - before) * (SLOPE * (step - latest) / (latest - first))
