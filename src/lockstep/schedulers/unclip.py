"""The sampler of unCLIP (arXiv:2204.06125): DDPM's posterior between any two timesteps of a cosine schedule."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .ddpm import PosteriorScheduler
from .noise import Generators
from .spacing import check_num_steps
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


class UnCLIPScheduler(PosteriorScheduler):
    """Steps to the timestep that the caller names, or to the next lower one."""

    interchangeable = ()
    needs_grid = False
    beta_schedules = ("squaredcos_cap_v2",)
    prediction_types = ("epsilon", "sample")

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000,
        variance_type: Literal["fixed_small_log", "learned_range"] = "fixed_small_log", clip_sample: bool = True,
        clip_sample_range: float = 1.0, prediction_type: str = "epsilon",
        beta_schedule: Literal["squaredcos_cap_v2"] = "squaredcos_cap_v2",
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        steps = check_num_steps(num_inference_steps, self.config.num_train_timesteps)
        if steps < 2:
            raise InputError(
                "UnCLIPScheduler goes from the last timestep to the first: num_inference_steps wants 2 or more, got 1."
            )
        ratio = (self.config.num_train_timesteps - 1) / (steps - 1)
        return Grid((np.arange(steps) * ratio).round()[::-1].astype(np.int64))

    @takes_step
    def step(
        self, at: Step, prev_timestep: int | Tensor | None = None, generator: Generators = None
    ) -> SchedulerOutput:
        previous = at.timestep - 1 if prev_timestep is None else prev_timestep
        if previous == at.timestep - 1:
            alpha, beta = self.alphas[at.timestep], self.betas[at.timestep]
        else:
            beta = 1 - self.alphas_cumprod[at.timestep] / self._alpha_bar(previous, before_first=self.one)
            alpha = 1 - beta
        return self._sample_posterior(at, previous, alpha, beta, generator)
