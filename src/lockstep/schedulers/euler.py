"""Euler's method in sigma, plain and ancestral (arXiv:2206.00364, algorithm 2; k-diffusion)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError, UnsupportedError
from .betas import TrainedBetas
from .noise import Churn, Generators, draw_noise
from .predictions import predicted_denoised
from .sigma_grid import with_final
from .sigma_space import SigmaSpaceScheduler
from .sigmas import ancestral_sigmas, sigmas_to_timesteps, training_sigmas
from .spacing import explicit_grid
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


class EulerDiscreteScheduler(SigmaSpaceScheduler):
    """One Euler step per sigma, with optional churn: noise added before the step."""

    prediction_types = ("epsilon", "sample", "original_sample", "v_prediction")
    fractional_timesteps = True

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, prediction_type: str = "epsilon",
        interpolation_type: Literal["linear", "log_linear"] = "linear", use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False, use_beta_sigmas: bool | None = False,
        sigma_min: float | None = None, sigma_max: float | None = None, timestep_spacing: str = "linspace",
        timestep_type: Literal["discrete", "continuous"] = "discrete", steps_offset: int = 0,
        rescale_betas_zero_snr: bool = False, final_sigmas_type: Literal["zero", "sigma_min"] = "zero",
    ) -> None:  # fmt: skip
        self._build_training_noise()
        _ = self.respacing  # refuses two of them
        self.sigmas = with_final(training_sigmas(self.alphas_cumprod)[::-1])
        timesteps = torch.arange(num_train_timesteps - 1, -1, -1, dtype=torch.float32)
        self.timesteps = continuous_timesteps(self.sigmas) if self._continuous else timesteps

    @property
    def _continuous(self) -> bool:
        """Whether the model wants log(sigma) / 4 instead of a timestep (arXiv:2206.00364, c_noise)."""
        return bool(self.config.timestep_type == "continuous" and self.config.prediction_type == "v_prediction")

    @lays_grid
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        timesteps: Sequence[float] | None = None,
        sigmas: Sequence[float] | None = None,
    ) -> Grid:
        if timesteps is not None and (sigmas is not None or self._continuous):
            raise InputError(
                "Explicit timesteps go neither with explicit sigmas nor with continuous timesteps. Give sigmas."
            )
        if sigmas is None:
            grid, sigma_grid = self._sigma_grid(num_inference_steps, timesteps)
            levels = with_final(sigma_grid, self._final_sigma())
        else:
            self._refuse_two_grids(num_inference_steps, sigmas)
            levels = torch.from_numpy(explicit_grid("sigmas", sigmas, np.float32))
            grid = sigmas_to_timesteps(levels[:-1].numpy(), np.log(training_sigmas(self.alphas_cumprod)))
        return Grid(continuous_timesteps(levels) if self._continuous else grid.astype(np.float32), levels)

    def _final_sigma(self) -> float:
        return 0.0 if self.config.final_sigmas_type == "zero" else training_sigmas(self.alphas_cumprod)[0]

    def _interpolated(self, timesteps: np.ndarray, trained: np.ndarray) -> np.ndarray:
        if self.config.interpolation_type == "linear":
            return super()._interpolated(timesteps, trained)
        highest, lowest = float(np.log(trained[-1])), float(np.log(trained[0]))
        return torch.linspace(highest, lowest, len(timesteps) + 1).exp().numpy()

    @takes_step
    def step(
        self, at: Step, s_churn: float = 0.0, s_tmin: float = 0.0, s_tmax: float = float("inf"), s_noise: float = 1.0,
        generator: Generators = None,
    ) -> SchedulerOutput:  # fmt: skip
        sample = at.sample.to(torch.float32)  # small differences of large numbers: half precision loses them
        sigma = self.sigmas[at.index]
        churn = Churn(s_churn, s_tmin, s_tmax, s_noise)
        sample, sigma_hat = churn.add(sample, sigma, len(self.sigmas) - 1, at.output, generator)

        kind = self.config.prediction_type
        denoised = predicted_denoised(kind, at.output, sample, sigma_hat if kind == "epsilon" else sigma)
        derivative = (sample - denoised) / sigma_hat
        previous_sample = sample + derivative * (self.sigmas[at.index + 1] - sigma_hat)
        return SchedulerOutput(previous_sample.to(at.output.dtype), denoised)


def continuous_timesteps(sigmas: Tensor) -> Tensor:
    """log(sigma) / 4 of each but the last."""
    return 0.25 * sigmas[:-1].log()


class EulerAncestralDiscreteScheduler(SigmaSpaceScheduler):
    """An Euler step to a lower sigma than the next one, and fresh noise up to the next one."""

    prediction_types = ("epsilon", "v_prediction", "sample")
    fractional_timesteps = True
    respacings = {}

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, prediction_type: str = "epsilon",
        timestep_spacing: str = "linspace", steps_offset: int = 0, rescale_betas_zero_snr: bool = False,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        if prediction_type == "sample":
            raise UnsupportedError(
                "EulerAncestralDiscreteScheduler has no prediction_type 'sample'. Use EulerDiscreteScheduler."
            )
        self.sigmas = with_final(training_sigmas(self.alphas_cumprod)[::-1])
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1, dtype=torch.float64)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        grid, sigma_grid = self._sigma_grid(num_inference_steps)
        return Grid(grid, with_final(sigma_grid))

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        sample = at.sample.to(torch.float32)
        sigma, sigma_next = self.sigmas[at.index], self.sigmas[at.index + 1]
        denoised = predicted_denoised(self.config.prediction_type, at.output, sample, sigma)

        sigma_up, sigma_down = ancestral_sigmas(sigma, sigma_next)
        derivative = (sample - denoised) / sigma
        previous_sample = sample + derivative * (sigma_down - sigma)
        noise = draw_noise(at.output.shape, generator, at.output.device, at.output.dtype)
        return SchedulerOutput((previous_sample + noise * sigma_up).to(at.output.dtype), denoised)
