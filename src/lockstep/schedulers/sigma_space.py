"""Schedulers that integrate in sigma: the sample is x0 + sigma·eps, and the model sees it scaled to unit variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from torch import Tensor

from ..errors import InputError
from .sigma_grid import SigmaGridMixin
from .sigmas import sigmas_to_timesteps, training_sigmas
from .spacing import explicit_grid
from .variance_preserving import VariancePreservingScheduler


class SigmaSpaceScheduler(SigmaGridMixin, VariancePreservingScheduler):
    """The scaling of k-diffusion (arXiv:2206.00364): c_in = 1 / sqrt(sigma² + 1)."""

    divides_by_alpha = True
    grid_dtype: ClassVar[type[np.floating]] = np.float32

    @property
    def init_noise_sigma(self) -> Tensor:  # type: ignore[override]
        """The standard deviation of the first sample; with `leading` the grid ends short of pure noise."""
        highest = self.sigmas.max()
        return highest if self.config.timestep_spacing in ("linspace", "trailing") else (highest**2 + 1) ** 0.5

    def scale_model_input(self, sample: Tensor, timestep: float | Tensor | None = None) -> Tensor:
        if timestep is None:
            raise InputError(f"{type(self).__name__} scales by the timestep's sigma: pass the timestep.")
        sigma = self._model_sigma(self._locate(timestep))
        return sample / (sigma**2 + 1) ** 0.5

    def _model_sigma(self, index: int) -> Tensor:
        """The sigma at which the model is called next."""
        return self.sigmas[index]

    def _sigma_grid(
        self, num_steps: int | None, timesteps: Sequence[float] | None = None, num_train_timesteps: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Timesteps and sigmas, high to low, without the final zero; of all that were trained, or of the first ones."""
        self._refuse_two_grids(num_steps, timesteps)
        self._refuse_timesteps_with_respacing(timesteps)
        if timesteps is None:
            grid = self._spaced(num_steps, trained=num_train_timesteps, dtype=self.grid_dtype)
        else:
            grid = explicit_grid("timesteps", timesteps, self.grid_dtype)
        trained = training_sigmas(self.alphas_cumprod)
        sigmas = self._interpolated(grid, trained)
        if self.respacing is None:
            return grid, sigmas
        sigmas = self._respaced(sigmas, len(grid))
        return sigmas_to_timesteps(sigmas, np.log(trained)), sigmas

    def _interpolated(self, timesteps: np.ndarray, trained: np.ndarray) -> np.ndarray:
        return np.interp(timesteps, np.arange(len(trained)), trained)

    def get_velocity(self, sample: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """The target of a v_prediction model at timesteps of the grid."""
        sigma = self._sigmas_at(timesteps, sample)
        alpha = 1 / (sigma**2 + 1) ** 0.5
        return alpha * noise - sigma * alpha * sample
