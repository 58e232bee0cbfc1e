"""Tokens that a run is held to, each with a strength of its own: 1 leaves a token no noise, 0 all that a step has."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import BlockView, InputParam, randn_tensor
from ...errors import InputError
from .denoise import ScaleModelInput, SchedulerStep, step_arguments
from .parts import Components
from .timesteps import SetTimesteps, SetTimestepsByStrength

Tensor = torch.Tensor
STAYS = 1e-6  # how near to 1 a strength is with which a token has no noise
FROM_NOISE = InputParam(
    "denoise_strength", float, default=1.0, minimum=0.0, maximum=1.0,
    description="How much of given latents is made anew; 1 begins with noise.",
)  # fmt: skip
STRENGTHS = InputParam("condition_strengths", Tensor, given=False, description="Of each token; 1 has no noise.")
HELD = InputParam("held_latents", Tensor, given=False, description="The first latents, to which it is held.")


def times_of_tokens(state: BlockView, t: Tensor, samples: int) -> Tensor:
    """The time of each token (samples, tokens or 1): that of the step, or what its strength leaves of the way."""
    time = t.expand(samples)[:, None].float()
    if state.condition_strengths is None:
        return time
    most = (1 - state.condition_strengths) * 1000.0
    return torch.minimum(time, most.repeat(samples // len(most), 1))


class SetConditionTimesteps(SetTimestepsByStrength):
    """Timesteps in small steps at first, then in growing ones; the end of them where latents are given."""

    strength_name = "denoise_strength"
    inputs = [*SetTimesteps.inputs, FROM_NOISE]

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        told = super().grid(scheduler, components, state)
        steps = told.get("num_inference_steps")
        return told if steps is None else {"timesteps": (torch.tensor(slow_then_fast(steps)) * 1000).tolist()}


def slow_then_fast(steps: int, threshold: float = 0.025) -> list[float]:
    """Sigmas whose first half falls evenly to 1 - `threshold`, and whose second half is a parabola to 0."""
    if steps < 2:
        return [1.0]
    even = steps // 2
    rest = steps - even
    excess = even - threshold * steps
    square, straight = excess / (even * rest**2), threshold / even - 2 * excess / rest**2
    fallen = [threshold * i / even for i in range(even)]
    fallen += [square * i**2 + straight * i + square * even**2 for i in range(even, steps)]
    return [1.0 - one for one in fallen]


class NoiseHeld(ScaleModelInput):
    """A little noise on what has none, less with each step, since what is held to one frame alone hardly moves."""

    inputs = [
        *ScaleModelInput.inputs, STRENGTHS, HELD, InputParam.template("generator"),
        InputParam("image_cond_noise_scale", float, default=0.15, minimum=0.0,
                   description="Noise on what the video is held to wholly."),
    ]  # fmt: skip
    outputs = [*ScaleModelInput.outputs, "latents"]

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        if state.held_latents is not None and state.image_cond_noise_scale:
            noise = randn_tensor(state.latents.shape, state.generator, components.device, state.latents.dtype)
            noised = state.held_latents + state.image_cond_noise_scale * noise * (t / 1000.0) ** 2
            state.latents = torch.where((state.condition_strengths > 1 - STAYS)[..., None], noised, state.latents)
        super().__call__(components, state, i, t)


class StepHeld(SchedulerStep):
    """One step down in noise, for each token from its own time; what has less noise than the step stays."""

    inputs = [*SchedulerStep.inputs, STRENGTHS]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        if "per_token_timesteps" not in step_arguments(components.scheduler):
            kind = type(components.scheduler).__name__
            raise InputError(f"{kind} knows one time for all tokens; this pipeline wants one that has many, such as "
                             "FlowMatchEulerDiscreteScheduler.")  # fmt: skip

    def moving(self, components: Components, state: BlockView) -> tuple[Tensor, Tensor]:
        return -state.noise_pred, state.latents

    def stepped(self, components: Components, state: BlockView, t: Tensor) -> Any:
        moved, *rest = super().stepped(components, state, t)
        if state.condition_strengths is not None:
            moves = t / 1000 - STAYS < 1.0 - state.condition_strengths
            moved = torch.where(moves[..., None], moved, state.latents)
        return moved, *rest

    def further(self, state: BlockView, t: Tensor) -> dict[str, Any]:
        return {"per_token_timesteps": times_of_tokens(state, t, len(state.latents))}
