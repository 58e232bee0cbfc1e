"""The samplers of CogVideoX (arXiv:2408.06072): latent diffusion's schedule, with less signal to noise."""

from __future__ import annotations

import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .betas import TrainedBetas, make_betas, stretch_to_zero_terminal_snr
from .dpm_solver import Integrator
from .log_snr import Level
from .noise import Generators, draw_noise
from .predictions import predicted_original
from .template import Grid, SchedulerOutput, Step, StepOutput, lays_grid, takes_step
from .variance_preserving import TrainedTimestepScheduler


class CogVideoXScheduler(TrainedTimestepScheduler):
    """The shifted schedule, and DDIM's grid on it. Published configs ask for clipping, which the model never had."""

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.00085, beta_end: float = 0.012,
        beta_schedule: str = "scaled_linear", trained_betas: TrainedBetas = None,
        clip_sample: bool = True, set_alpha_to_one: bool = True, steps_offset: int = 0,
        prediction_type: str = "epsilon", clip_sample_range: float = 1.0, sample_max_value: float = 1.0,
        timestep_spacing: str = "leading", rescale_betas_zero_snr: bool = False, snr_shift_scale: float = 3.0,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.final_alpha_cumprod = torch.tensor(1.0) if set_alpha_to_one else self.alphas_cumprod[0]
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)

    def _build_training_noise(self) -> None:
        super()._build_training_noise()
        shift, alpha_bar = self.config.snr_shift_scale, self.alphas_cumprod
        alpha_bar = alpha_bar / (shift + (1 - shift) * alpha_bar)
        zero_snr = self.config.rescale_betas_zero_snr
        self.alphas_cumprod = stretch_to_zero_terminal_snr(alpha_bar) if zero_snr else alpha_bar

    def _betas(self) -> Tensor:
        """In float64 where the published class has it so; the shift comes before the rescaling to zero SNR."""
        config = self.config
        ends, num_train = (config.beta_start, config.beta_end), config.num_train_timesteps
        if config.trained_betas is None and config.beta_schedule == "scaled_linear":
            return torch.linspace(ends[0] ** 0.5, ends[1] ** 0.5, num_train, dtype=torch.float64) ** 2
        return make_betas(config.beta_schedule, *ends, num_train, config.trained_betas)

    def _predicted_original(self, output: Tensor, sample: Tensor, alpha_bar: Tensor) -> Tensor:
        return predicted_original(self.config.prediction_type, output, sample, alpha_bar**0.5, (1 - alpha_bar) ** 0.5)

    def _previous(self, timestep: int | Tensor) -> int | Tensor:
        return timestep - self.config.num_train_timesteps // self._require_timesteps_set()

    def _levels(self, timestep: int | Tensor) -> tuple[Tensor, Tensor]:
        """alpha_bar at a timestep and at the one that a step from it leads to."""
        before_first = self.final_alpha_cumprod
        return self.alphas_cumprod[timestep], self._alpha_bar(self._previous(timestep), before_first)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        return Grid(self._spaced(num_inference_steps, at_most=self.config.num_train_timesteps))


class CogVideoXDDIMScheduler(CogVideoXScheduler):
    """DDIM without noise, written as a mix of the sample and x0."""

    @takes_step
    def step(self, at: Step, eta: float = 0.0, *, generator: Generators = None) -> SchedulerOutput:
        if eta != 0:
            raise InputError(
                f"CogVideoXDDIMScheduler adds no noise: eta wants 0, got {eta}. Use CogVideoXDPMScheduler."
            )
        alpha_bar, alpha_bar_previous = self._levels(at.timestep)
        original = self._predicted_original(at.output, at.sample, alpha_bar)
        sample_weight = ((1 - alpha_bar_previous) / (1 - alpha_bar)) ** 0.5
        original_weight = alpha_bar_previous**0.5 - alpha_bar**0.5 * sample_weight
        return SchedulerOutput(sample_weight * at.sample + original_weight * original, original)


class CogVideoXDPMScheduler(CogVideoXScheduler):
    """SDE-DPM-Solver++ of second order; the caller keeps the x0 and the timestep of the step before."""

    def step(  # type: ignore[override]
        self,
        model_output: Tensor,
        old_pred_original_sample: Tensor | None,
        timestep: int | Tensor,
        timestep_back: int | Tensor | None,
        sample: Tensor,
        generator: Generators = None,
        return_dict: bool = False,
    ) -> StepOutput | tuple[Tensor, ...]:
        """The sample one step further along, and the x0 to give to the next step."""
        self._enter_step(model_output, timestep, sample)
        alpha_bar, alpha_bar_previous = self._levels(timestep)
        original = self._predicted_original(model_output, sample, alpha_bar)
        integrator = Integrator("sde-dpmsolver++", level_of(alpha_bar), level_of(alpha_bar_previous))
        noise = draw_noise(sample.shape, generator, sample.device, sample.dtype)
        slope = None
        if old_pred_original_sample is not None and timestep_back is not None and self._previous(timestep) >= 0:
            before = level_of(self.alphas_cumprod[timestep_back])
            r = (integrator.start.log_snr - before.log_snr) / integrator.h
            slope = 1.0 / r * (original - old_pred_original_sample)
            noise = draw_noise(sample.shape, generator, sample.device, sample.dtype)  # published seeds count two draws
        result = SchedulerOutput(integrator.step(sample, original, slope, noise=noise, midpoint=True), original)
        return result if return_dict else result.to_tuple()


def level_of(alpha_bar: Tensor) -> Level:
    alpha, sigma = alpha_bar**0.5, (1 - alpha_bar) ** 0.5
    return Level(alpha, sigma, torch.log(alpha) - torch.log(sigma))
