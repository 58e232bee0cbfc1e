"""Consistency models (arXiv:2303.01469): jump to x0, noise back to the next sigma."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, InputError
from .noise import Generators, draw_noise
from .scheduling import EDM
from .sigma_grid import SigmaGridMixin
from .spacing import check_descending, check_num_steps, check_num_train, explicit_grid
from .template import Grid, Step, StepOutput, lays_grid, takes_step


class CMStochasticIterativeScheduler(SigmaGridMixin):
    """Multistep consistency sampling (algorithm 1) on EDM's sigmas."""

    training = EDM
    fractional_timesteps = True

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 40, sigma_min: float = 0.002, sigma_max: float = 80.0,
        sigma_data: float = 0.5, s_noise: float = 1.0, rho: float = 7.0, clip_denoised: bool = True,
    ) -> None:  # fmt: skip
        check_num_train(type(self).__name__, num_train_timesteps)
        if num_train_timesteps < 2:
            raise ConfigError(
                f"CMStochasticIterativeScheduler: num_train_timesteps wants 2 or more, got {num_train_timesteps}."
            )
        self.init_noise_sigma = sigma_max
        sigmas = self._sigmas_along(np.linspace(0, 1, num_train_timesteps))
        self.sigmas, self.timesteps = torch.from_numpy(sigmas), torch.from_numpy(self.sigma_to_t(sigmas))

    def _sigmas_along(self, ramp: np.ndarray) -> np.ndarray:
        """From sigma_max at 0 to sigma_min at 1 (arXiv:2206.00364, equation 5)."""
        rho = self.config.rho
        low, high = self.config.sigma_min ** (1 / rho), self.config.sigma_max ** (1 / rho)
        sigmas: np.ndarray = (high + ramp * (low - high)) ** rho
        return sigmas

    def sigma_to_t(self, sigmas: float | np.ndarray) -> np.ndarray:
        """The timesteps that the model was trained with at these sigmas."""
        timesteps: np.ndarray = 1000 * 0.25 * np.log(np.asarray(sigmas, dtype=np.float64) + 1e-44)
        return timesteps

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, timesteps: Sequence[float] | None = None) -> Grid:
        """`timesteps` count the training's sigmas, of which there are `num_train_timesteps`."""
        num_train = self.config.num_train_timesteps
        self._refuse_two_grids(num_inference_steps, timesteps)
        if timesteps is None:
            steps = check_num_steps(num_inference_steps, num_train)
            places = np.arange(steps) * (num_train // steps)
        else:
            falling = explicit_grid("timesteps", timesteps, np.int64)
            check_descending(falling, num_train)
            places = falling[::-1]
        sigmas = self._sigmas_along(places / (num_train - 1))
        final = np.append(sigmas, self.config.sigma_min).astype(np.float32)
        return Grid(self.sigma_to_t(sigmas), torch.from_numpy(final))

    def scale_model_input(self, sample: Tensor, timestep: float | Tensor | None = None) -> Tensor:
        if timestep is None:
            raise InputError("CMStochasticIterativeScheduler scales by the timestep's sigma: pass the timestep.")
        return sample / (self.sigmas[self._locate(timestep)] ** 2 + self.config.sigma_data**2) ** 0.5

    def get_scalings_for_boundary_condition(self, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """c_skip and c_out, of which the first is 1 and the second 0 at sigma_min (appendix C)."""
        above, data = sigma - self.config.sigma_min, self.config.sigma_data
        return data**2 / (above**2 + data**2), above * data / (sigma**2 + data**2) ** 0.5

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> StepOutput:
        config, sigma = self.config, self.sigmas[at.index]
        sigma_next = self.sigmas[min(at.index + 1, len(self.sigmas) - 1)]
        skip, out = self.get_scalings_for_boundary_condition(sigma)
        denoised = out * at.output + skip * at.sample
        if config.clip_denoised:
            denoised = denoised.clamp(-1, 1)
        if len(self.timesteps) == 1:
            return StepOutput(denoised)
        noise = draw_noise(at.output.shape, generator, at.output.device, at.output.dtype) * config.s_noise
        sigma_next = sigma_next.clamp(min=config.sigma_min, max=config.sigma_max)
        return StepOutput(denoised + noise * (sigma_next**2 - config.sigma_min**2) ** 0.5)
