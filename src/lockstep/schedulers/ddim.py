"""DDIM (arXiv:2010.02502): deterministic at eta 0, DDPM's noise at eta 1; and the same path backwards."""

from __future__ import annotations

import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .betas import TrainedBetas
from .noise import Generators, draw_noise
from .predictions import predicted_noise, predicted_original
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step
from .variance_preserving import TrainedTimestepScheduler


class DDIMScheduler(TrainedTimestepScheduler):
    """Steps between any two timesteps along the path that x0 and eps span (equation 12)."""

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, clip_sample: bool = True,
        set_alpha_to_one: bool = True, steps_offset: int = 0, prediction_type: str = "epsilon",
        thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995, clip_sample_range: float = 1.0,
        sample_max_value: float = 1.0, timestep_spacing: str = "leading", rescale_betas_zero_snr: bool = False,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.final_alpha_cumprod = torch.tensor(1.0) if set_alpha_to_one else self.alphas_cumprod[0]
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        return Grid(self._spaced(num_inference_steps, at_most=self.config.num_train_timesteps))

    @takes_step
    def step(
        self,
        at: Step,
        eta: float = 0.0,
        use_clipped_model_output: bool = False,
        generator: Generators = None,
        variance_noise: Tensor | None = None,
    ) -> SchedulerOutput:
        if variance_noise is not None and generator is not None:
            raise InputError("DDIM takes a generator or variance_noise, got both. Leave one out.")
        previous = at.timestep - self.config.num_train_timesteps // self._require_timesteps_set()
        alpha_bar = self.alphas_cumprod[at.timestep]
        alpha_bar_previous = self._alpha_bar(previous, before_first=self.final_alpha_cumprod)
        alpha, sigma = alpha_bar**0.5, (1 - alpha_bar) ** 0.5

        kind = self.config.prediction_type
        noise = predicted_noise(kind, at.output, at.sample, alpha, sigma)
        original = self._limit_original(predicted_original(kind, at.output, at.sample, alpha, sigma))
        if use_clipped_model_output:
            noise = (at.sample - alpha * original) / sigma

        deviation = eta * self._get_variance(at.timestep, previous) ** 0.5
        room = 1 - alpha_bar_previous - deviation**2
        if eta <= 1:
            room = room.clamp(min=0)  # it is zero at the least, but for rounding
        direction = room**0.5 * noise
        previous_sample = alpha_bar_previous**0.5 * original + direction
        if eta > 0:
            if variance_noise is None:
                variance_noise = draw_noise(at.output.shape, generator, at.output.device, at.output.dtype)
            previous_sample = previous_sample + deviation * variance_noise
        return SchedulerOutput(previous_sample, original)

    def _get_variance(self, timestep: int | Tensor, prev_timestep: int | Tensor) -> Tensor:
        """The variance of a step at eta 1 (equation 16)."""
        alpha_bar = self.alphas_cumprod[timestep]
        alpha_bar_previous = self._alpha_bar(prev_timestep, before_first=self.final_alpha_cumprod)
        return (1 - alpha_bar_previous) / (1 - alpha_bar) * (1 - alpha_bar / alpha_bar_previous)


class DDIMInverseScheduler(TrainedTimestepScheduler):
    """DDIM read backwards: from a picture to the noise that DDIM would make it from (arXiv:2105.05233, appendix F)."""

    interchangeable = ()
    timestep_spacings = ("leading", "trailing")

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, clip_sample: bool = True,
        set_alpha_to_one: bool = True, steps_offset: int = 0, prediction_type: str = "epsilon",
        clip_sample_range: float = 1.0, timestep_spacing: str = "leading", rescale_betas_zero_snr: bool = False,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.initial_alpha_cumprod = torch.tensor(1.0) if set_alpha_to_one else self.alphas_cumprod[0]
        self.timesteps = torch.arange(num_train_timesteps)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        return Grid(self._spaced(num_inference_steps, at_most=self.config.num_train_timesteps)[::-1])

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        num_train = self.config.num_train_timesteps
        # The sample is one step cleaner than the timestep that the model is asked about.
        cleaner = min(at.timestep - num_train // self._require_timesteps_set(), num_train - 1)
        alpha_bar = self._alpha_bar(cleaner, before_first=self.initial_alpha_cumprod)
        alpha_bar_noisier = self.alphas_cumprod[at.timestep]
        alpha, sigma = alpha_bar**0.5, (1 - alpha_bar) ** 0.5

        kind = self.config.prediction_type
        noise = predicted_noise(kind, at.output, at.sample, alpha, sigma)
        original = self._limit_original(predicted_original(kind, at.output, at.sample, alpha, sigma))
        direction = (1 - alpha_bar_noisier) ** 0.5 * noise
        return SchedulerOutput(alpha_bar_noisier**0.5 * original + direction, original)
