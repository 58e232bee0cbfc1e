"""Few-step schedulers for distilled models: LCM (arXiv:2310.04378) and TCD (arXiv:2402.19159)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .betas import TrainedBetas
from .noise import Generators, draw_noise
from .predictions import predicted_noise, predicted_original
from .spacing import check_descending, check_num_steps, explicit_grid
from .template import Grid, Step, StepOutput, lays_grid, takes_step
from .variance_preserving import NextTimestepScheduler

logger = logging.getLogger(__name__)
SIGMA_DATA = 0.5  # arXiv:2303.01469, the boundary condition's scale


@dataclass
class LCMSchedulerOutput(StepOutput):
    """The sample one step further, and the clean sample that the model's consistency function gave."""

    denoised: Tensor


@dataclass
class TCDSchedulerOutput(StepOutput):
    """The sample one step further, and the less noisy one before fresh noise was added."""

    pred_noised_sample: Tensor


class DistilledGridScheduler(NextTimestepScheduler):
    """A grid that is a subset of the timesteps that the distillation used; spacing and offset have no say in it."""

    interchangeable = ()
    keeps_place = True

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.00085, beta_end: float = 0.012,
        beta_schedule: str = "scaled_linear", trained_betas: TrainedBetas = None,
        original_inference_steps: int = 50, clip_sample: bool = False, clip_sample_range: float = 1.0,
        set_alpha_to_one: bool = True, steps_offset: int = 0, prediction_type: str = "epsilon",
        thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995, sample_max_value: float = 1.0,
        timestep_spacing: str = "leading", timestep_scaling: float = 10.0, rescale_betas_zero_snr: bool = False,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    @lays_grid
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        original_inference_steps: int | None = None,
        timesteps: Sequence[float] | None = None,
        strength: float = 1.0,
    ) -> Grid:
        self._refuse_two_grids(num_inference_steps, timesteps)
        num_train = self.config.num_train_timesteps
        if not 0 < strength <= 1:
            raise InputError(f"strength wants a value above 0 and up to 1, got {strength}.")
        distilled = self._distilled_timesteps(original_inference_steps, strength)
        if timesteps is not None:
            grid = explicit_grid("timesteps", timesteps, np.int64)
            check_descending(grid, num_train)
            return Grid(grid[len(grid) - int(len(grid) * strength) :])
        steps = check_num_steps(num_inference_steps, num_train)
        most = min(len(distilled), original_inference_steps or num_train)
        if steps > most:
            raise InputError(
                f"num_inference_steps wants at most {most}, of the distillation's at strength {strength}, got {steps}."
            )
        places = np.floor(np.linspace(0, len(distilled), num=steps, endpoint=False)).astype(np.int64)
        return Grid(distilled[::-1][places])

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

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> LCMSchedulerOutput:
        alpha_bar = self.alphas_cumprod[at.timestep]
        original = predicted_original(
            self.config.prediction_type, at.output, at.sample, alpha_bar.sqrt(), (1 - alpha_bar).sqrt()
        )
        scaled = at.timestep * self.config.timestep_scaling
        skip = SIGMA_DATA**2 / (scaled**2 + SIGMA_DATA**2)
        out = scaled / (scaled**2 + SIGMA_DATA**2) ** 0.5
        denoised = out * self._limit_original(original) + skip * at.sample

        if self._is_last(at.index):
            return LCMSchedulerOutput(denoised, denoised)
        noise = draw_noise(at.output.shape, generator, at.output.device, denoised.dtype)
        alpha_bar_next = self.alphas_cumprod[self.timesteps[at.index + 1]]
        return LCMSchedulerOutput(alpha_bar_next.sqrt() * denoised + (1 - alpha_bar_next).sqrt() * noise, denoised)


class TCDScheduler(DistilledGridScheduler):
    """Jump below the next timestep, by the share eta, and noise back up to it ("strategic stochastic sampling")."""

    def _build_training_noise(self) -> None:
        super()._build_training_noise()
        if self.config.clip_sample or self.config.thresholding:
            logger.warning("TCDScheduler limits no predicted sample: clip_sample and thresholding have no effect.")

    def _distilled_timesteps(self, original_inference_steps: int | None, strength: float) -> np.ndarray:
        """As in LCM by default; a caller who gives a number of steps gets all the training timesteps to choose from."""
        if original_inference_steps is None:
            return super()._distilled_timesteps(None, strength)
        return np.arange(int(self.config.num_train_timesteps * strength))

    @takes_step
    def step(self, at: Step, eta: float = 0.3, generator: Generators = None) -> TCDSchedulerOutput:
        if not 0 <= eta <= 1:
            raise InputError(f"eta wants a value from 0 to 1, got {eta}.")
        last = self._is_last(at.index)
        next_timestep = torch.tensor(0) if last else self.timesteps[at.index + 1]
        target = torch.floor((1 - eta) * next_timestep).to(torch.long)
        alpha_bar, alpha_bar_next = self.alphas_cumprod[at.timestep], self.alphas_cumprod[next_timestep]
        alpha_bar_target = self.alphas_cumprod[target]
        alpha, sigma = alpha_bar.sqrt(), (1 - alpha_bar).sqrt()

        kind = self.config.prediction_type
        original = predicted_original(kind, at.output, at.sample, alpha, sigma)
        noise = predicted_noise(kind, at.output, at.sample, alpha, sigma)
        noised = alpha_bar_target.sqrt() * original + (1 - alpha_bar_target).sqrt() * noise

        if eta == 0 or last:
            return TCDSchedulerOutput(noised, noised)
        fresh = draw_noise(at.output.shape, generator, at.output.device, noised.dtype)
        kept = alpha_bar_next / alpha_bar_target
        return TCDSchedulerOutput(kept.sqrt() * noised + (1 - kept).sqrt() * fresh, noised)
