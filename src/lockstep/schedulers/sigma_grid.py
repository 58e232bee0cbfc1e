"""What schedulers with a grid of sigmas share: choosing the grid and finding a place in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, InputError
from .scheduling import SchedulerMixin, broadcast_to, check_noise_timesteps
from .sigmas import beta_sigmas, exponential_sigmas, karras_sigmas

RESPACINGS = {"karras": karras_sigmas, "exponential": exponential_sigmas, "beta": beta_sigmas}


class SigmaGridMixin(SchedulerMixin):
    """A grid of sigmas beside the grid of timesteps; it stays on the CPU, where a step reads single values of it."""

    respacings: ClassVar[dict[str, str]] = {name: f"use_{name}_sigmas" for name in RESPACINGS}
    sigmas: Tensor

    @property
    def respacing(self) -> str | None:
        """Which of the sigma spacings the config asks for: karras, exponential, beta …, or none."""
        chosen = [name for name, key in self.respacings.items() if self._option(key, False)]
        if len(chosen) > 1:
            keys = " and ".join(self.respacings[name] for name in chosen)
            raise ConfigError(f"{type(self).__name__}: {keys} each bring a sigma grid of their own. Choose one.")
        return chosen[0] if chosen else None

    def _respaced(self, sigmas: np.ndarray, num_steps: int) -> np.ndarray:
        """A grid from the highest to the lowest of the given sigmas, or between the config's limits."""
        high, low = self.config.get("sigma_max"), self.config.get("sigma_min")
        high = sigmas[0].item() if high is None else high
        low = sigmas[-1].item() if low is None else low
        return RESPACINGS[self.respacing or "karras"](high, low, num_steps)

    def _refuse_timesteps_with_respacing(self, timesteps: Sequence[float] | None) -> None:
        if timesteps is not None and self.respacing is not None:
            raise InputError(f"Explicit timesteps and {self.respacings[self.respacing]} each bring a grid. Choose one.")

    def _sigmas_at(self, timesteps: Tensor, sample: Tensor) -> Tensor:
        """The sigma of each sample: of its timestep, or of the place where a run is that began in the middle."""
        check_noise_timesteps(type(self).__name__, timesteps, sample)
        sigmas = self.sigmas.to(device=sample.device, dtype=sample.dtype)
        grid, timesteps = self.timesteps.to(sample.device), timesteps.to(sample.device).flatten()
        if self._begin_index is None:
            places = [self.index_for_timestep(timestep, grid) for timestep in timesteps]
        else:
            here = self._begin_index if self._step_index is None else self._step_index
            places = [here] * timesteps.shape[0]
        return broadcast_to(sigmas[places], sample)

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """x0 + sigma·eps, one timestep per sample."""
        return original_samples + noise * self._sigmas_at(timesteps, original_samples)


def with_final(sigmas: np.ndarray, final: float = 0.0) -> Tensor:
    """The grid as a tensor on the CPU, with the sigma that the last step ends at."""
    return torch.from_numpy(np.concatenate([sigmas, [final]]).astype(np.float32))
