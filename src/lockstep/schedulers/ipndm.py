"""Improved PNDM (crowsonkb's v-diffusion): four-step Adams-Bashforth on the circle alpha² + sigma² = 1."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from .noise import Generators
from .pndm import adams_bashforth
from .scheduling import SchedulerMixin
from .spacing import check_num_steps, check_num_train
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


class IPNDMScheduler(SchedulerMixin):
    """The model predicts v at an angle that goes evenly from pure noise (1) to the clean sample (0)."""

    betas: Tensor  # sigma of each step of the grid
    alphas: Tensor
    ets: list[Tensor]  # the noises of the last steps, newest last

    @register_to_config
    def __init__(self, num_train_timesteps: int = 1000, trained_betas: np.ndarray | list[float] | None = None) -> None:
        check_num_train(type(self).__name__, num_train_timesteps)
        self.set_timesteps(num_train_timesteps)

    def _restart(self) -> None:
        super()._restart()
        self.ets = []

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        steps = check_num_steps(num_inference_steps)
        if self.config.trained_betas is None:
            even = torch.cat([torch.linspace(1, 0, steps + 1)[:-1], torch.zeros(1)])
            self.betas = torch.sin(even * math.pi / 2) ** 2
        else:
            self.betas = torch.tensor(np.asarray(self.config.trained_betas), dtype=torch.float32)
        self.alphas = (1.0 - self.betas**2) ** 0.5
        return Grid((torch.atan2(self.betas, self.alphas) / math.pi * 2)[:-1], num_inference_steps=steps)

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        alpha, sigma = self.alphas[at.index], self.betas[at.index]
        alpha_next, sigma_next = self.alphas[at.index + 1], self.betas[at.index + 1]
        self.ets = [*self.ets[-3:], at.sample * sigma + at.output * alpha]
        noise = adams_bashforth(self.ets)
        original = (at.sample - sigma * noise) / max(float(alpha), 1e-8)
        return SchedulerOutput(alpha_next * original + noise * sigma_next)
