"""DDPM (arXiv:2006.11239): the posterior of the forward process, sampled step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .betas import TrainedBetas
from .noise import Generators, draw_noise
from .predictions import predicted_original
from .scheduling import LEARNED_VARIANCES
from .spacing import check_descending, explicit_grid
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step
from .variance_preserving import NextTimestepScheduler

VarianceType = Literal["fixed_small", "fixed_small_log", "fixed_large", "fixed_large_log", "learned", "learned_range"]


class PosteriorScheduler(NextTimestepScheduler):
    """What is sampled from q(x_{t-1} | x_t, x_0), with a fixed or a learned variance (arXiv:2102.09672)."""

    one: Tensor = torch.tensor(1.0)

    def _sample_posterior(
        self, at: Step, previous: int | Tensor, alpha: Tensor, beta: Tensor, generator: Generators
    ) -> SchedulerOutput:
        """One step down to a timestep; `alpha` and `beta` are those of the way between the two."""
        output, learned = self._split_variance(at.output, at.sample)
        alpha_bar, alpha_bar_previous = self.alphas_cumprod[at.timestep], self._alpha_bar(previous, self.one)
        beta_bar, beta_bar_previous = 1 - alpha_bar, 1 - alpha_bar_previous

        kind = self.config.prediction_type
        original = self._limit_original(predicted_original(kind, output, at.sample, alpha_bar**0.5, beta_bar**0.5))
        # Equation 7: the mean of q(x_{t-1} | x_t, x_0).
        original_weight = alpha_bar_previous**0.5 * beta / beta_bar
        sample_weight = alpha**0.5 * beta_bar_previous / beta_bar
        previous_sample = original_weight * original + sample_weight * at.sample
        if at.timestep > 0:
            posterior = torch.clamp(beta_bar_previous / beta_bar * beta, min=1e-20)
            noise = draw_noise(output.shape, generator, output.device, output.dtype)
            previous_sample = previous_sample + deviation(self.config.variance_type, posterior, beta, learned) * noise
        return SchedulerOutput(previous_sample, original)

    def _split_variance(self, model_output: Tensor, sample: Tensor) -> tuple[Tensor, Tensor | None]:
        """The prediction and, where the variance is learned, the other half of the channels."""
        wanted = sample.shape[1] * (2 if self.config.variance_type in LEARNED_VARIANCES else 1)
        if model_output.shape[1] != wanted:
            raise InputError(
                f"variance_type {self.config.variance_type!r} wants {wanted} channels of model output for "
                f"{sample.shape[1]} channels of sample, got {model_output.shape[1]}."
            )
        if wanted == sample.shape[1]:
            return model_output, None
        prediction, learned = model_output.chunk(2, dim=1)
        return prediction, learned


class DDPMScheduler(PosteriorScheduler):
    """Ancestral sampling."""

    beta_schedules = ("linear", "scaled_linear", "squaredcos_cap_v2", "laplace", "sigmoid")
    needs_grid = False

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None,
        variance_type: VarianceType | None = "fixed_small", clip_sample: bool = True, prediction_type: str = "epsilon",
        thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995, clip_sample_range: float = 1.0,
        sample_max_value: float = 1.0, timestep_spacing: str = "leading", steps_offset: int = 0,
        rescale_betas_zero_snr: bool = False,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, timesteps: Sequence[float] | None = None) -> Grid:
        num_train = self.config.num_train_timesteps
        if timesteps is None:
            return Grid(self._spaced(num_inference_steps, at_most=num_train))
        self._refuse_two_grids(num_inference_steps, timesteps)
        grid = explicit_grid("timesteps", timesteps, np.int64)
        check_descending(grid, num_train)
        return Grid(grid)

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        previous = self.previous_timestep(at.timestep)
        alpha = self.alphas_cumprod[at.timestep] / self._alpha_bar(previous, before_first=self.one)
        return self._sample_posterior(at, previous, alpha, 1 - alpha, generator)

    def _get_variance(self, timestep: int | Tensor) -> Tensor:
        """The variance of the posterior (equation 7)."""
        alpha_bar_previous = self._alpha_bar(self.previous_timestep(timestep), before_first=self.one)
        beta_bar, beta_bar_previous = 1 - self.alphas_cumprod[timestep], 1 - alpha_bar_previous
        return beta_bar_previous / beta_bar * (1 - self.alphas_cumprod[timestep] / alpha_bar_previous)


def deviation(kind: str | None, posterior: Tensor, beta: Tensor, learned: Tensor | None) -> Tensor:
    """The standard deviation of one step: between the posterior's (small) and the forward step's (large)."""
    if kind in ("fixed_small", None):  # None: from the config of a solver that has no use for a variance
        return posterior**0.5
    if kind == "fixed_small_log":
        return torch.exp(0.5 * torch.log(posterior))
    if kind in ("fixed_large", "fixed_large_log"):
        return beta**0.5
    if learned is None:
        raise InputError(f"variance_type {kind!r} wants a model that predicts the variance too.")
    if kind == "learned":
        return learned**0.5
    large = (learned + 1) / 2  # arXiv:2102.09672, equation 15
    return torch.exp(0.5 * (large * torch.log(beta) + (1 - large) * torch.log(posterior)))
