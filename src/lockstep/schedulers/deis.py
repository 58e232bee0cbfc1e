"""DEIS (arXiv:2204.13902): an exponential integrator, exact for a polynomial in log rho (rho-AB-DEIS)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from .betas import TrainedBetas
from .dpm_solver import FEW_STEPS, Integrator
from .log_snr import LogSNRScheduler
from .noise import Generators
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


class DEISMultistepScheduler(LogSNRScheduler):
    """Orders 1 to 3 in eps; the first is DDIM."""

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001,
        beta_end: float = 0.02, beta_schedule: str = "linear",
        trained_betas: TrainedBetas = None, solver_order: int = 2,
        prediction_type: str = "epsilon", thresholding: bool = False,
        dynamic_thresholding_ratio: float = 0.995, sample_max_value: float = 1.0,
        algorithm_type: str = "deis", solver_type: str = "logrho",
        lower_order_final: bool = True, use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False, use_beta_sigmas: bool | None = False,
        use_flow_sigmas: bool | None = False, flow_shift: float = 1.0,
        timestep_spacing: str = "linspace", steps_offset: int = 0,
        use_dynamic_shifting: bool = False,
        time_shift_type: Literal["exponential"] = "exponential",
    ) -> None:  # fmt: skip
        self._rename_option("algorithm_type", ("deis",), ("dpmsolver", "dpmsolver++"), "deis")
        self._rename_option("solver_type", ("logrho",), ("midpoint", "heun", "bh1", "bh2"), "logrho")
        self._check_order()
        self._prepare()

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, mu: float | None = None) -> Grid:
        return self._grid_above_zero(self._spaced(num_inference_steps), self._flow_shift(mu))

    def _order_at(self, index: int) -> int:
        left = len(self.timesteps) - index
        order = min(self.config.solver_order, len(self.history.outputs))
        few = self.config.lower_order_final and len(self.timesteps) < FEW_STEPS
        return min(order, left) if few and left <= 2 else order

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        sample, original = at.sample, self.convert_model_output(at.output, at.sample)
        here, end = self._level(self.sigmas[at.index]), self._level(self.sigmas[at.index + 1])
        self.history.push((sample - here.alpha * original) / here.sigma, keep=self.config.solver_order)
        order = self._order_at(at.index)
        if order == 1:
            return SchedulerOutput(Integrator("dpmsolver", here, end).step(sample, self.history.outputs[-1]))
        levels = [self._level(self.sigmas[at.index - back]) for back in range(order)]
        rhos = [(level.sigma / level.alpha).numpy() for level in (end, *levels)]
        total = sample / here.alpha
        for weight, noise in zip(deis_weights(*rhos), reversed(self.history.outputs), strict=False):
            total = total + weight * noise
        return SchedulerOutput(end.alpha * total)


def deis_weights(end: np.ndarray, *nodes: np.ndarray) -> list[Tensor]:
    """The integrals over rho, from the first node to the end, of the nodes' Lagrange polynomials in log rho."""
    antiderivative = _linear_antiderivative if len(nodes) == 2 else _quadratic_antiderivative
    weights = []
    for k in range(len(nodes)):
        own, *others = (*nodes[k:], *nodes[:k])
        weights.append(torch.tensor(antiderivative(end, own, *others) - antiderivative(nodes[0], own, *others)))
    return weights


def _linear_antiderivative(rho: np.ndarray, own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of (log rho - log other) / (log own - log other)."""
    return rho * (-np.log(other) + np.log(rho) - 1) / (np.log(own) - np.log(other))


def _quadratic_antiderivative(rho: np.ndarray, own: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of the product of two such factors."""
    log_rho, a, b = np.log(rho), np.log(first), np.log(second)
    numerator = rho * (a * (b - log_rho + 1) - b * log_rho + b + log_rho**2 - 2 * log_rho + 2)
    return numerator / ((np.log(own) - a) * (np.log(own) - b))
