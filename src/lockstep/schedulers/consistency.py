"""Few-step schedulers for distilled models: LCM (arXiv:2310.04378) and TCD (arXiv:2402.19159)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, InputError
from .noise import Generators, draw_noise
from .predictions import predicted_noise, predicted_original
from .scheduling import StepOutput, on_device
from .spacing import check_descending, check_num_steps, explicit_grid
from .variance_preserving import VariancePreservingScheduler

SIGMA_DATA = 0.5  # arXiv:2303.01469, the boundary condition's scale


@dataclass
class LCMSchedulerOutput(StepOutput):
    """The sample one step further, and the clean sample that the model's consistency function gave."""

    denoised: Tensor | None = None


@dataclass
class TCDSchedulerOutput(StepOutput):
    """The sample one step further, and the less noisy one before fresh noise was added."""

    pred_noised_sample: Tensor | None = None


class DistilledGridScheduler(VariancePreservingScheduler):
    """A grid that is a subset of the timesteps that the distillation used; spacing and offset have no say in it."""

    interchangeable = ()

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        original_inference_steps: int | None = None,
        *,
        timesteps: Sequence[float] | None = None,
        sigmas: Sequence[float] | None = None,
        strength: float = 1.0,
    ) -> None:
        self._refuse_custom_grid(sigmas=sigmas)
        self._refuse_two_grids(num_inference_steps, timesteps)
        num_train = self.config.num_train_timesteps
        if not 0 < strength <= 1:
            raise InputError(f"strength wants a value above 0 and up to 1, got {strength}.")
        distilled = self._distilled_timesteps(original_inference_steps, strength)
        if timesteps is None:
            steps = check_num_steps(num_inference_steps, num_train)
            most = min(len(distilled), original_inference_steps or num_train)
            if steps > most:
                raise InputError(
                    f"num_inference_steps wants at most {most}, of the distillation's at strength {strength}, got {steps}."
                )
            places = np.floor(np.linspace(0, len(distilled), num=steps, endpoint=False)).astype(np.int64)
            grid = distilled[::-1][places]
        else:
            grid = explicit_grid("timesteps", timesteps, np.int64)
            check_descending(grid, num_train)
            grid = grid[len(grid) - int(len(grid) * strength) :]
        self._begin_grid(on_device(grid, device, torch.int64), len(grid))

    def _distilled_timesteps(self, original_inference_steps: int | None, strength: float) -> np.ndarray:
        """Evenly spaced and rising, up to the strength."""
        steps, num_train = (
            original_inference_steps or self.config.original_inference_steps,
            self.config.num_train_timesteps,
        )
        if steps > num_train:
            raise InputError(
                f"original_inference_steps wants at most {num_train}, the number of training timesteps, got {steps}."
            )
        return np.arange(1, int(steps * strength) + 1) * (num_train // steps) - 1

    def _is_last(self, index: int) -> bool:
        return index == len(self.timesteps) - 1


class LCMScheduler(DistilledGridScheduler):
    """Jump to x0 with the consistency function, then noise back to the next timestep (algorithm 3)."""

    @register_to_config
    def __init__(
        self,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.00085,
        beta_end: float = 0.012,
        beta_schedule: str = "scaled_linear",
        trained_betas: np.ndarray | list[float] | None = None,
        original_inference_steps: int = 50,
        clip_sample: bool = False,
        clip_sample_range: float = 1.0,
        set_alpha_to_one: bool = True,
        steps_offset: int = 0,
        prediction_type: str = "epsilon",
        thresholding: bool = False,
        dynamic_thresholding_ratio: float = 0.995,
        sample_max_value: float = 1.0,
        timestep_spacing: str = "leading",
        timestep_scaling: float = 10.0,
        rescale_betas_zero_snr: bool = False,
    ) -> None:
        self._build_training_noise()
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    def step(
        self,
        model_output: Tensor,
        timestep: int | Tensor,
        sample: Tensor,
        generator: Generators = None,
        return_dict: bool = True,
    ) -> LCMSchedulerOutput | tuple[Tensor, ...]:
        self._require_timesteps_set()
        self._check_trained_step(model_output, timestep, sample)
        index = self._locate(timestep)
        alpha_bar = self.alphas_cumprod[timestep]
        original = predicted_original(
            self.config.prediction_type, model_output, sample, alpha_bar.sqrt(), (1 - alpha_bar).sqrt()
        )
        scaled = timestep * self.config.timestep_scaling
        skip = SIGMA_DATA**2 / (scaled**2 + SIGMA_DATA**2)
        out = scaled / (scaled**2 + SIGMA_DATA**2) ** 0.5
        denoised = out * self._limit_original(original) + skip * sample

        previous_sample = denoised
        if not self._is_last(index):
            noise = draw_noise(model_output.shape, generator, model_output.device, denoised.dtype)
            alpha_bar_next = self.alphas_cumprod[self.timesteps[index + 1]]
            previous_sample = alpha_bar_next.sqrt() * denoised + (1 - alpha_bar_next).sqrt() * noise
        self._step_index = index + 1
        return LCMSchedulerOutput(previous_sample, denoised) if return_dict else (previous_sample, denoised)


class TCDScheduler(DistilledGridScheduler):
    """Jump below the next timestep, by the share eta, and noise back up to it ("strategic stochastic sampling")."""

    @register_to_config
    def __init__(
        self,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.00085,
        beta_end: float = 0.012,
        beta_schedule: str = "scaled_linear",
        trained_betas: np.ndarray | list[float] | None = None,
        original_inference_steps: int = 50,
        clip_sample: bool = False,
        clip_sample_range: float = 1.0,
        set_alpha_to_one: bool = True,
        steps_offset: int = 0,
        prediction_type: str = "epsilon",
        thresholding: bool = False,
        dynamic_thresholding_ratio: float = 0.995,
        sample_max_value: float = 1.0,
        timestep_spacing: str = "leading",
        timestep_scaling: float = 10.0,
        rescale_betas_zero_snr: bool = False,
    ) -> None:
        if clip_sample or thresholding:
            raise ConfigError("TCDScheduler limits no predicted sample: set clip_sample=False and thresholding=False.")
        self._build_training_noise()
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    def _distilled_timesteps(self, original_inference_steps: int | None, strength: float) -> np.ndarray:
        """As in LCM by default; a caller who gives a number of steps gets all the training timesteps to choose from."""
        if original_inference_steps is None:
            return super()._distilled_timesteps(None, strength)
        return np.arange(int(self.config.num_train_timesteps * strength))

    def step(
        self,
        model_output: Tensor,
        timestep: int | Tensor,
        sample: Tensor,
        eta: float = 0.3,
        generator: Generators = None,
        return_dict: bool = True,
    ) -> TCDSchedulerOutput | tuple[Tensor, ...]:
        self._require_timesteps_set()
        if not 0 <= eta <= 1:
            raise InputError(f"eta wants a value from 0 to 1, got {eta}.")
        self._check_trained_step(model_output, timestep, sample)
        index = self._locate(timestep)
        next_timestep = torch.tensor(0) if self._is_last(index) else self.timesteps[index + 1]
        target = torch.floor((1 - eta) * next_timestep).to(torch.long)
        alpha_bar, alpha_bar_next = self.alphas_cumprod[timestep], self.alphas_cumprod[next_timestep]
        alpha_bar_target = self.alphas_cumprod[target]
        alpha, sigma = alpha_bar.sqrt(), (1 - alpha_bar).sqrt()

        kind = self.config.prediction_type
        original = predicted_original(kind, model_output, sample, alpha, sigma)
        noise = predicted_noise(kind, model_output, sample, alpha, sigma)
        noised = alpha_bar_target.sqrt() * original + (1 - alpha_bar_target).sqrt() * noise

        previous_sample = noised
        if eta > 0 and not self._is_last(index):
            fresh = draw_noise(model_output.shape, generator, model_output.device, noised.dtype)
            kept = alpha_bar_next / alpha_bar_target
            previous_sample = kept.sqrt() * noised + (1 - kept).sqrt() * fresh
        self._step_index = index + 1
        return TCDSchedulerOutput(previous_sample, noised) if return_dict else (previous_sample, noised)
