"""Second-order methods in sigma that call the model twice per step, and Heun's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .betas import TrainedBetas
from .noise import Generators
from .predictions import predicted_denoised
from .sigma_grid import with_final
from .sigma_space import SigmaSpaceScheduler
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step

MOST_GROWTH = 100.0  # published models stay below 15 even with two steps
NO_SIGNAL = 1000.0  # sigma beyond which a model was trained on (nearly) nothing but noise; others begin below 160


@dataclass
class HalfStep:
    """The first half of a step, waiting for the second model call."""

    sample: Tensor
    derivative: Tensor
    step_size: Tensor


class TwoStageScheduler(SigmaSpaceScheduler):
    """Each step but the last has two model calls, so that timesteps and sigmas stand in pairs."""

    order = 2
    first_half: HalfStep | None = None

    def _restart(self) -> None:
        super()._restart()
        self.first_half = None

    def check_grid(self, begin: int = 0) -> None:
        """Refuse a grid on which the second call makes errors large.

        Both calls share a step of size sigma_a - sigma_b, and the second slope is an error of the model's picture
        divided by
        sigma_b: from sigma 20000 (a model trained down to zero signal) to 16 the picture is off by 600 such errors.
        """
        single = self.sigmas[begin:].unique().flip(0)
        single = single[single > 0]
        growth = (single[:-1] - single[1:]) / (2 * single[1:]) * (single[:-1] > NO_SIGNAL)
        if len(growth) and growth.max() > MOST_GROWTH:
            place = int(growth.argmax())
            raise InputError(
                f"{type(self).__name__} cannot sample this model on this grid: one step leads from sigma "
                f"{single[place]:.0f} to {single[place + 1]:.1f}, and its second model call makes an error "
                f"{growth[place]:.0f} times as large. The model was trained down to (nearly) no signal: take "
                "DPMSolverMultistepScheduler, UniPCMultistepScheduler or EulerDiscreteScheduler."
            )

    @property
    def state_in_first_order(self) -> bool:
        """Whether the next call is the first of its step."""
        return self.first_half is None


class HeunDiscreteScheduler(TwoStageScheduler):
    """Heun's method: the average of the slopes at both ends of a step (arXiv:2206.00364, algorithm 1)."""

    beta_schedules = ("linear", "scaled_linear", "squaredcos_cap_v2", "exp")

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.00085, beta_end: float = 0.012,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, prediction_type: str = "epsilon",
        use_karras_sigmas: bool = False, use_exponential_sigmas: bool = False, use_beta_sigmas: bool = False,
        clip_sample: bool = False, clip_sample_range: float = 1.0, timestep_spacing: str = "linspace",
        steps_offset: int = 0,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.set_timesteps(num_train_timesteps)

    @lays_grid
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        num_train_timesteps: int | None = None,
        timesteps: Sequence[float] | None = None,
    ) -> Grid:
        grid, sigma_grid = self._sigma_grid(num_inference_steps, timesteps, num_train_timesteps)
        single = with_final(sigma_grid)
        sigmas = torch.cat([single[:1], single[1:-1].repeat_interleave(2), single[-1:]])
        return Grid(np.concatenate([grid[:1], grid[1:].repeat(2)]).astype(np.float32), sigmas, len(grid))

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        sample = at.sample
        sigma_here = self.sigmas[at.index]  # where the model was called: the step's start, or its end the second time
        denoised = predicted_denoised(self.config.prediction_type, at.output, sample, sigma_here)
        denoised = self._limit_original(denoised)
        derivative = (sample - denoised) / sigma_here
        if self.first_half is None:
            step_size = self.sigmas[at.index + 1] - sigma_here
            self.first_half = HalfStep(sample, derivative, step_size)
        else:
            first, self.first_half = self.first_half, None
            sample, step_size, derivative = first.sample, first.step_size, (first.derivative + derivative) / 2
        return SchedulerOutput(sample + derivative * step_size, denoised)
