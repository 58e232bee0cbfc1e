"""The midpoint method in log sigma (DPM2 of k-diffusion; arXiv:2206.00364, appendix C), plain and ancestral."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import UnsupportedError
from .betas import TrainedBetas
from .heun import HalfStep, TwoStageScheduler
from .noise import Generators, draw_noise
from .predictions import predicted_denoised
from .sigma_grid import with_final
from .sigmas import ancestral_sigmas, sigmas_to_timesteps, training_sigmas
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


class MidpointScheduler(TwoStageScheduler):
    """Each step but the last visits a sigma in its middle, so that timesteps and sigmas stand in pairs."""

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.00085, beta_end: float = 0.012,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, use_karras_sigmas: bool = False,
        use_exponential_sigmas: bool = False, use_beta_sigmas: bool = False, prediction_type: str = "epsilon",
        timestep_spacing: str = "linspace", steps_offset: int = 0,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        if prediction_type == "sample":
            raise UnsupportedError(f"{type(self).__name__} has no prediction_type 'sample'. Use HeunDiscreteScheduler.")
        self.set_timesteps(num_train_timesteps)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, num_train_timesteps: int | None = None) -> Grid:
        grid, sigma_grid = self._sigma_grid(num_inference_steps, num_train_timesteps=num_train_timesteps)
        if self.respacing == "karras":
            grid = grid.round()
        single = with_final(sigma_grid)
        middle = self._middle(single)
        log_sigmas = np.log(training_sigmas(self.alphas_cumprod))
        middle_grid = sigmas_to_timesteps(middle[:-1].numpy(), log_sigmas, np.float32).astype(grid.dtype)
        interleaved = np.stack([middle_grid, grid[1:]], axis=-1).flatten()
        self.sigmas_interpol = middle
        sigmas = torch.cat([single[:1], single[1:].repeat_interleave(2), single[-1:]])
        return Grid(np.concatenate([grid[:1], interleaved]), sigmas, len(sigma_grid))

    def _middle(self, sigmas: Tensor) -> Tensor:
        """The sigma in the middle of each step."""
        raise NotImplementedError

    def _model_sigma(self, index: int) -> Tensor:
        return self.sigmas[index] if self.first_half is None else self.sigmas_interpol[index // 2]

    def _slope(self, at: Step) -> tuple[Tensor, Tensor]:
        """The x0 that the output implies, and the slope towards it."""
        sigma = self._model_sigma(at.index)
        denoised = predicted_denoised(self.config.prediction_type, at.output, at.sample, sigma)
        return denoised, (at.sample - denoised) / sigma

    def _to_the_middle(self, at: Step, denoised: Tensor, derivative: Tensor) -> SchedulerOutput:
        step_size = self.sigmas_interpol[at.index // 2] - self.sigmas[at.index]
        self.first_half = HalfStep(at.sample, derivative, step_size)
        return SchedulerOutput(at.sample + derivative * step_size, denoised)


class KDPM2DiscreteScheduler(MidpointScheduler):
    """A step with the slope at its geometric middle."""

    def _middle(self, sigmas: Tensor) -> Tensor:
        return sigmas.log().lerp(sigmas.roll(1).log(), 0.5).exp()[1:]

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        denoised, derivative = self._slope(at)
        if self.first_half is None:
            return self._to_the_middle(at, denoised, derivative)
        first, self.first_half = self.first_half, None
        step_size = self.sigmas[at.index] - self.sigmas[at.index - 1]
        return SchedulerOutput(first.sample + derivative * step_size, denoised)


class KDPM2AncestralDiscreteScheduler(MidpointScheduler):
    """A step below the next sigma, with the slope at its geometric middle, and fresh noise up to the next."""

    def _middle(self, sigmas: Tensor) -> Tensor:
        _, down = ancestral_sigmas(sigmas[:-2], sigmas[1:-1])
        return torch.cat([sigmas[:-2].log().lerp(down.log(), 0.5).exp(), torch.zeros(1)])  # the last step has no middle

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        denoised, derivative = self._slope(at)
        if self.first_half is None:
            return self._to_the_middle(at, denoised, derivative)
        first, self.first_half = self.first_half, None
        sigma = self.sigmas[at.index - 1]
        up, down = ancestral_sigmas(sigma, self.sigmas[at.index])
        noise = draw_noise(at.output.shape, generator, at.output.device, at.output.dtype)
        return SchedulerOutput(first.sample + derivative * (down - sigma) + noise * up, denoised)
