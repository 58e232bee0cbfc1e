"""Schedulers that integrate in lambda = log(alpha / sigma), where the linear part of the ODE is solved exactly.

The grids of DPM-Solver, UniPC and DEIS are the same but for their ends; here is what they share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, InputError
from .predictions import dynamic_threshold, predicted_noise, predicted_original
from .scheduling import LEARNED_VARIANCES
from .sigma_grid import SigmaGridMixin, with_final
from .sigmas import flow_sigmas_from_alphas, lu_sigmas, sigmas_to_timesteps, training_sigmas
from .template import Grid
from .variance_preserving import VariancePreservingScheduler


class Level(NamedTuple):
    """One noise level of the path: x = alpha·x0 + sigma·eps, and log_snr = log alpha - log sigma."""

    alpha: Tensor
    sigma: Tensor
    log_snr: Tensor


@dataclass
class OutputHistory:
    """The converted model outputs of the last steps, newest last."""

    outputs: list[Tensor] = field(default_factory=list)

    def push(self, output: Tensor, keep: int) -> None:
        self.outputs = [*self.outputs, output][-keep:]


class LogSNRScheduler(SigmaGridMixin, VariancePreservingScheduler):
    """Samples as in training, x = alpha·x0 + sigma·eps, on a grid of sigma / alpha."""

    divides_by_alpha = True
    needs_grid = True
    prediction_types = ("epsilon", "sample", "v_prediction", "flow_prediction")
    rounds_karras_timesteps = True
    history = OutputHistory()

    def _prepare(self) -> None:
        """What every `__init__` of this family does after checking its own values."""
        self._build_training_noise()
        if self.respacing is not None and self._option("use_flow_sigmas") and not self._respaces_flow:
            raise ConfigError(
                f"{type(self).__name__}: use_flow_sigmas and {self.respacings[self.respacing]} each bring a grid. "
                "Choose one."
            )
        num_train = self.config.num_train_timesteps
        self.sigmas = torch.from_numpy(training_sigmas(self.alphas_cumprod)[::-1].copy())
        self.timesteps = torch.arange(num_train - 1, -1, -1, dtype=torch.float32)
        self._restart()

    @property
    def _respaces_flow(self) -> bool:
        """Whether a respaced grid can be turned into one of flow matching."""
        return False

    def _index_off_grid(self, timestep: float | Tensor) -> int:
        return len(self.timesteps) - 1  # rounding to whole timesteps can lose the one that was asked for

    def _flow_shift(self, mu: float | None) -> float:
        """How far the flow grid is shifted: by the config, or by the size of the picture."""
        if mu is None:
            return float(self.config.flow_shift)
        if not self.config.use_dynamic_shifting or self.config.time_shift_type != "exponential":
            raise InputError("mu goes with use_dynamic_shifting=True and time_shift_type='exponential' only.")
        return float(np.exp(mu))

    def _refuse_timesteps_with_own_grid(self, timesteps: Sequence[float] | None) -> None:
        self._refuse_timesteps_with_respacing(timesteps)
        if timesteps is not None and self.config.use_flow_sigmas:
            raise InputError("Explicit timesteps and use_flow_sigmas each bring a grid. Choose one.")

    def _spaced(self, num_steps: int | None, **how: Any) -> np.ndarray:
        return super()._spaced(num_steps, one_more=True, **how)

    def _unclipped_timesteps(self) -> int:
        """Training timesteps whose log SNR is not below the config's limit; a cosine schedule's last ones can be."""
        log_snr = torch.log(torch.sqrt(self.alphas_cumprod)) - torch.log(torch.sqrt(1 - self.alphas_cumprod))
        clipped = torch.searchsorted(torch.flip(log_snr, [0]), self.config.lambda_min_clipped)
        return int(self.config.num_train_timesteps - clipped)

    def _sigma_grid(self, timesteps: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
        """Timesteps and sigmas for the number of timesteps given, high to low."""
        config, num_steps = self.config, len(timesteps)
        trained = training_sigmas(self.alphas_cumprod)
        if self._option("use_flow_sigmas", False):
            sigmas = flow_sigmas_from_alphas(num_steps, config.num_train_timesteps, shift)
            return sigmas * config.num_train_timesteps, sigmas
        if self.respacing is None:
            return timesteps, np.interp(timesteps, np.arange(len(trained)), trained)
        log_sigmas = np.log(trained)
        if self.respacing == "lu":
            sigmas = lu_sigmas(log_sigmas[-1].item(), log_sigmas[0].item(), num_steps)
        else:
            sigmas = self._respaced(trained[::-1], num_steps)
        timesteps = sigmas_to_timesteps(sigmas, log_sigmas)
        rounds = self.respacing in ("karras", "lu") and self.rounds_karras_timesteps
        return timesteps.round() if rounds else timesteps, sigmas

    def _grid_above_zero(self, timesteps: np.ndarray, shift: float) -> Grid:
        """For what divides by sigma, so that the grid cannot end at zero; one of its own ends by standing still."""
        grid, sigma_grid = self._sigma_grid(timesteps, shift)
        own_grid = self.respacing is not None or self.config.use_flow_sigmas
        final = sigma_grid[-1] if own_grid else training_sigmas(self.alphas_cumprod)[0]
        return Grid(grid.astype(np.int64), with_final(sigma_grid, final))

    def _level(self, sigma: Tensor) -> Level:
        alpha, sigma = self._alpha_sigma(sigma)
        return Level(alpha, sigma, torch.log(alpha) - torch.log(sigma))

    def _alpha_sigma(self, sigma: Tensor) -> tuple[Tensor, Tensor]:
        if self.config.use_flow_sigmas:
            return 1 - sigma, sigma
        alpha = 1 / (sigma**2 + 1) ** 0.5
        return alpha, sigma * alpha

    def convert_model_output(self, model_output: Tensor, sample: Tensor, to_noise: bool = False) -> Tensor:
        """What the solver integrates: the x0 that the output implies, or the eps."""
        config, kind = self.config, self.config.prediction_type
        if self._option("variance_type") in LEARNED_VARIANCES:
            model_output = model_output[:, : sample.shape[1]]  # the solver has no use for the predicted variance
        alpha, sigma = self._alpha_sigma(self.sigmas[self._step_index or 0])
        if to_noise:
            noise = predicted_noise(kind, model_output, sample, alpha, sigma)
            if not config.thresholding:
                return noise
            original = (sample - sigma * noise) / alpha
        else:
            original = predicted_original(kind, model_output, sample, alpha, sigma)
        if config.thresholding:
            original = dynamic_threshold(original, config.dynamic_thresholding_ratio, config.sample_max_value)
        return (sample - alpha * original) / sigma if to_noise else original

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """alpha·x0 + sigma·eps, one timestep per sample."""
        alpha, sigma = self._alpha_sigma(self._sigmas_at(timesteps, original_samples))
        return alpha * original_samples + sigma * noise

    def get_velocity(self, sample: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """The target of a v_prediction model at timesteps of the grid."""
        alpha, sigma = self._alpha_sigma(self._sigmas_at(timesteps, sample))
        return alpha * noise - sigma * sample
