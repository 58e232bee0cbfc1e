"""Schedulers trained on betas: x_t = sqrt(alpha_bar)·x0 + sqrt(1 - alpha_bar)·eps, by the training timestep t."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from .betas import ZERO_SNR_FLOOR, check_beta_schedule, make_betas, rescale_to_zero_terminal_snr
from .predictions import check_prediction_type, dynamic_threshold
from .scheduling import INTERCHANGEABLE, SchedulerMixin, broadcast_to, check_noise_timesteps
from .spacing import SPACINGS, check_num_steps, check_spacing, spaced_timesteps


class VariancePreservingScheduler(SchedulerMixin):
    """The training noise of DDPM (arXiv:2006.11239) and what training needs of it."""

    interchangeable: ClassVar[tuple[str, ...]] = INTERCHANGEABLE
    beta_schedules: ClassVar[tuple[str, ...]] = ("linear", "scaled_linear", "squaredcos_cap_v2")
    prediction_types: ClassVar[tuple[str, ...]] = ("epsilon", "sample", "v_prediction")
    timestep_spacings: ClassVar[tuple[str, ...]] = SPACINGS
    divides_by_alpha: ClassVar[bool] = False  # sigma = noise / signal has no value at zero signal: keep a little
    betas: Tensor
    alphas: Tensor
    alphas_cumprod: Tensor

    def _build_training_noise(self) -> None:
        """Betas and their products from the config, after checking what all these classes share."""
        owner, config = type(self).__name__, self.config
        check_beta_schedule(owner, config.beta_schedule, self.beta_schedules, config.num_train_timesteps)
        check_prediction_type(owner, config.prediction_type, self.prediction_types)
        check_spacing(owner, self._option("timestep_spacing", "linspace"), self.timestep_spacings)
        self.betas = self._betas()
        self.alphas = 1.0 - self.betas
        self.alphas_cumprod = torch.cumprod(self.alphas, dim=0)
        if self._option("rescale_betas_zero_snr", False) and self.divides_by_alpha:
            self.alphas_cumprod[-1] = ZERO_SNR_FLOOR

    def _betas(self) -> Tensor:
        config, ends = self.config, (self._option("beta_start", 0.0), self._option("beta_end", 0.0))
        betas = make_betas(config.beta_schedule, *ends, config.num_train_timesteps, self._option("trained_betas"))
        return rescale_to_zero_terminal_snr(betas) if self._option("rescale_betas_zero_snr", False) else betas

    def _spaced(
        self, num_steps: int | None, *, at_most: int | None = None, trained: int | None = None, **how: Any
    ) -> np.ndarray:
        """So many timesteps of those that were trained, from high to low, spaced as the config says."""
        spacing, offset = self._option("timestep_spacing", "linspace"), self._option("steps_offset", 0)
        steps = check_num_steps(num_steps, at_most)
        trained = self.config.num_train_timesteps if trained is None else trained
        return spaced_timesteps(spacing, trained, steps, offset=offset, **how)

    def _alpha_bar(self, timestep: int | Tensor, before_first: Tensor) -> Tensor:
        """alpha_bar of a timestep; `before_first` where a step leads past timestep 0."""
        return self.alphas_cumprod[timestep] if timestep >= 0 else before_first

    def _limit_original(self, original: Tensor) -> Tensor:
        """Threshold or clip a predicted x0 as the config says."""
        config = self.config
        if self._option("thresholding", False):
            return dynamic_threshold(original, config.dynamic_thresholding_ratio, config.sample_max_value)
        if self._option("clip_sample", False):
            return original.clamp(-config.clip_sample_range, config.clip_sample_range)
        return original

    def _training_coefficients(self, timesteps: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
        check_noise_timesteps(type(self).__name__, timesteps, sample)
        num_train = len(self.alphas_cumprod)
        if timesteps.device.type == "cpu" and not 0 <= int(timesteps.min()) <= int(timesteps.max()) < num_train:
            raise InputError(f"Timesteps go from 0 to {num_train - 1}, got {timesteps.tolist()}.")
        alpha_bar = self.alphas_cumprod.to(device=sample.device, dtype=sample.dtype)[timesteps.to(sample.device)]
        return broadcast_to(alpha_bar**0.5, sample), broadcast_to((1 - alpha_bar) ** 0.5, sample)

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """x_t of the forward process, one timestep per sample."""
        alpha, sigma = self._training_coefficients(timesteps, original_samples)
        return alpha * original_samples + sigma * noise

    def get_velocity(self, sample: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """The target of a v_prediction model (arXiv:2202.00512, appendix D)."""
        alpha, sigma = self._training_coefficients(timesteps, sample)
        return alpha * noise - sigma * sample


class TrainedTimestepScheduler(VariancePreservingScheduler):
    """A sampler that looks the noise up by the training timestep."""

    needs_grid = True
    keeps_place = False

    def _check_step(self, model_output: Tensor, timestep: float | Tensor, sample: Tensor) -> None:
        super()._check_step(model_output, timestep, sample)
        num_train = len(self.alphas_cumprod)
        whole = not timestep.is_floating_point() if isinstance(timestep, Tensor) else not isinstance(timestep, float)
        if not whole or not 0 <= int(timestep) < num_train:
            raise InputError(
                f"{type(self).__name__} wants a whole number from 0 to {num_train - 1} as the timestep, got {timestep}."
            )


class NextTimestepScheduler(TrainedTimestepScheduler):
    """A sampler whose step leads to the next timestep of the grid, whatever the grid is."""

    def previous_timestep(self, timestep: int | Tensor) -> Tensor:
        """The timestep after this one in the grid, -1 after the last; the next lower one before there is a grid."""
        if self.num_inference_steps is None:
            return torch.as_tensor(timestep - 1)
        found = (self.timesteps == timestep).nonzero()
        index = int(found[0]) if len(found) else self._index_off_grid(timestep)
        return torch.tensor(-1) if index == len(self.timesteps) - 1 else self.timesteps[index + 1]
