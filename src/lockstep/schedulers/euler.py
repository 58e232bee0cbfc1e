"""Euler's method in sigma, plain and ancestral (arXiv:2206.00364, algorithm 2; k-diffusion)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError, UnsupportedError
from .noise import Generators, draw_noise
from .predictions import predicted_denoised
from .scheduling import SchedulerOutput, on_device
from .sigma_grid import with_final
from .sigma_space import SigmaSpaceScheduler
from .sigmas import sigmas_to_timesteps, training_sigmas
from .spacing import explicit_grid


class EulerDiscreteScheduler(SigmaSpaceScheduler):
    """One Euler step per sigma, with optional churn: noise added before the step."""

    prediction_types = ("epsilon", "sample", "original_sample", "v_prediction")

    @register_to_config
    def __init__(
        self,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.0001,
        beta_end: float = 0.02,
        beta_schedule: str = "linear",
        trained_betas: np.ndarray | list[float] | None = None,
        prediction_type: str = "epsilon",
        interpolation_type: Literal["linear", "log_linear"] = "linear",
        use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False,
        use_beta_sigmas: bool | None = False,
        sigma_min: float | None = None,
        sigma_max: float | None = None,
        timestep_spacing: str = "linspace",
        timestep_type: Literal["discrete", "continuous"] = "discrete",
        steps_offset: int = 0,
        rescale_betas_zero_snr: bool = False,
        final_sigmas_type: Literal["zero", "sigma_min"] = "zero",
    ) -> None:
        self._build_training_noise()
        _ = self.respacing  # refuses two of them
        self.sigmas = with_final(training_sigmas(self.alphas_cumprod)[::-1])
        timesteps = torch.arange(num_train_timesteps - 1, -1, -1, dtype=torch.float32)
        self.timesteps = self._continuous_timesteps() if self._continuous else timesteps

    @property
    def _continuous(self) -> bool:
        """Whether the model wants log(sigma) / 4 instead of a timestep (arXiv:2206.00364, c_noise)."""
        return bool(self.config.timestep_type == "continuous" and self.config.prediction_type == "v_prediction")

    def _continuous_timesteps(self) -> Tensor:
        return 0.25 * self.sigmas[:-1].log()

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        *,
        timesteps: Sequence[float] | None = None,
        sigmas: Sequence[float] | None = None,
    ) -> None:
        if timesteps is not None and (sigmas is not None or self._continuous):
            raise InputError(
                "Explicit timesteps go neither with explicit sigmas nor with continuous timesteps. Give sigmas."
            )
        if sigmas is None:
            grid, sigma_grid = self._sigma_grid(num_inference_steps, timesteps)
            self.sigmas = with_final(sigma_grid, self._final_sigma())
        else:
            self._refuse_two_grids(num_inference_steps, sigmas)
            self.sigmas = torch.from_numpy(explicit_grid("sigmas", sigmas, np.float32))
            trained = training_sigmas(self.alphas_cumprod)
            grid = sigmas_to_timesteps(self.sigmas[:-1].numpy(), np.log(trained))
        on_grid = (
            self._continuous_timesteps().to(device) if self._continuous else on_device(grid, device, torch.float32)
        )
        self._begin_grid(on_grid, len(grid))

    def _final_sigma(self) -> float:
        return 0.0 if self.config.final_sigmas_type == "zero" else training_sigmas(self.alphas_cumprod)[0]

    def _interpolated(self, timesteps: np.ndarray, trained: np.ndarray) -> np.ndarray:
        if self.config.interpolation_type == "linear":
            return super()._interpolated(timesteps, trained)
        highest, lowest = float(np.log(trained[-1])), float(np.log(trained[0]))
        return torch.linspace(highest, lowest, len(timesteps) + 1).exp().numpy()

    def step(
        self,
        model_output: Tensor,
        timestep: float | Tensor,
        sample: Tensor,
        s_churn: float = 0.0,
        s_tmin: float = 0.0,
        s_tmax: float = float("inf"),
        s_noise: float = 1.0,
        generator: Generators = None,
        return_dict: bool = True,
    ) -> SchedulerOutput | tuple[Tensor, ...]:
        self._refuse_index(timestep)
        index = self._enter_step(model_output, timestep, sample)
        sample = sample.to(torch.float32)  # small differences of large numbers: half precision loses them
        sigma = self.sigmas[index]
        churn = min(s_churn / (len(self.sigmas) - 1), 2**0.5 - 1) if s_tmin <= sigma <= s_tmax else 0.0
        sigma_hat = sigma * (churn + 1)
        if churn > 0:
            noise = draw_noise(model_output.shape, generator, model_output.device, model_output.dtype)
            sample = sample + noise * s_noise * (sigma_hat**2 - sigma**2) ** 0.5

        kind = self.config.prediction_type
        denoised = predicted_denoised(kind, model_output, sample, sigma_hat if kind == "epsilon" else sigma)
        derivative = (sample - denoised) / sigma_hat
        previous_sample = (sample + derivative * (self.sigmas[index + 1] - sigma_hat)).to(model_output.dtype)
        self._step_index = index + 1
        return SchedulerOutput(previous_sample, denoised) if return_dict else (previous_sample, denoised)


class EulerAncestralDiscreteScheduler(SigmaSpaceScheduler):
    """An Euler step to a lower sigma than the next one, and fresh noise up to the next one."""

    prediction_types = ("epsilon", "v_prediction", "sample")
    respacings = {}

    @register_to_config
    def __init__(
        self,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.0001,
        beta_end: float = 0.02,
        beta_schedule: str = "linear",
        trained_betas: np.ndarray | list[float] | None = None,
        prediction_type: str = "epsilon",
        timestep_spacing: str = "linspace",
        steps_offset: int = 0,
        rescale_betas_zero_snr: bool = False,
    ) -> None:
        self._build_training_noise()
        if prediction_type == "sample":
            raise UnsupportedError(
                "EulerAncestralDiscreteScheduler has no prediction_type 'sample'. Use EulerDiscreteScheduler."
            )
        self.sigmas = with_final(training_sigmas(self.alphas_cumprod)[::-1])
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1, dtype=torch.float64)

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        *,
        timesteps: Sequence[float] | None = None,
        sigmas: Sequence[float] | None = None,
    ) -> None:
        self._refuse_custom_grid(timesteps=timesteps, sigmas=sigmas)
        grid, sigma_grid = self._sigma_grid(num_inference_steps)
        self.sigmas = with_final(sigma_grid)
        self._begin_grid(on_device(grid, device), len(grid))

    def step(
        self,
        model_output: Tensor,
        timestep: float | Tensor,
        sample: Tensor,
        generator: Generators = None,
        return_dict: bool = True,
    ) -> SchedulerOutput | tuple[Tensor, ...]:
        self._refuse_index(timestep)
        index = self._enter_step(model_output, timestep, sample)
        sample = sample.to(torch.float32)
        sigma, sigma_next = self.sigmas[index], self.sigmas[index + 1]
        denoised = predicted_denoised(self.config.prediction_type, model_output, sample, sigma)

        sigma_up = (sigma_next**2 * (sigma**2 - sigma_next**2) / sigma**2) ** 0.5
        sigma_down = (sigma_next**2 - sigma_up**2) ** 0.5
        derivative = (sample - denoised) / sigma
        previous_sample = sample + derivative * (sigma_down - sigma)
        noise = draw_noise(model_output.shape, generator, model_output.device, model_output.dtype)
        previous_sample = (previous_sample + noise * sigma_up).to(model_output.dtype)
        self._step_index = index + 1
        return SchedulerOutput(previous_sample, denoised) if return_dict else (previous_sample, denoised)
