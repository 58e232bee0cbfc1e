"""DPM-Solver (arXiv:2206.00927), DPM-Solver++ (arXiv:2211.01095) and their SDE variants, as plain mathematics.

All of them step from x at level s to level t with h = lambda_t - lambda_s as

    x_t = decay·x + c0·D0 + c1·D1 + c2·D2 + c_noise·noise

where D0, D1, D2 are the value, slope and curvature of the model's output in lambda, from whichever points are at hand:
earlier steps (multistep) or earlier calls of the same step (singlestep).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .log_snr import Level, OutputHistory
from .scheduling import SchedulerMixin

FEW_STEPS = 15  # below this many steps `lower_order_final` takes the last ones with a lower order
ALGORITHMS = ("dpmsolver", "dpmsolver++", "sde-dpmsolver", "sde-dpmsolver++")


class Integrator:
    """The coefficients of one step of one of the algorithms."""

    def __init__(self, algorithm: str, start: Level, end: Level) -> None:
        self.start, self.end = start, end
        self.h = end.log_snr - start.log_snr
        self.integrates_noise = not algorithm.endswith("++")
        self.stochastic = algorithm.startswith("sde")

    def decay(self) -> Tensor:
        if self.integrates_noise:
            return self.end.alpha / self.start.alpha
        ratio = self.end.sigma / self.start.sigma
        return ratio * torch.exp(-self.h) if self.stochastic else ratio

    def value(self) -> Tensor:
        """c0"""
        if not self.integrates_noise and self.stochastic:
            return self.end.alpha * (1 - torch.exp(-2.0 * self.h))
        if not self.integrates_noise:
            return -(self.end.alpha * (torch.exp(-self.h) - 1.0))
        weight = self.end.sigma * (torch.exp(self.h) - 1.0)
        return -2.0 * weight if self.stochastic else -weight

    def midpoint_slope(self) -> Tensor:
        """c1, with the slope taken as constant up to the middle."""
        return 0.5 * self.value()

    def heun_slope(self) -> Tensor:
        """c1, exact for a linear output."""
        h = self.h
        if not self.integrates_noise and self.stochastic:
            return self.end.alpha * ((1.0 - torch.exp(-2.0 * h)) / (-2.0 * h) + 1.0)
        if not self.integrates_noise:
            return self.end.alpha * ((torch.exp(-h) - 1.0) / h + 1.0)
        weight = self.end.sigma * ((torch.exp(h) - 1.0) / h - 1.0)
        return -2.0 * weight if self.stochastic else -weight

    def curvature(self) -> Tensor:
        """c2, exact for a quadratic output; the published third order has none for `sde-dpmsolver`."""
        h = self.h
        if not self.integrates_noise and self.stochastic:
            return self.end.alpha * ((1.0 - torch.exp(-2.0 * h) - 2.0 * h) / (2.0 * h) ** 2 - 0.5)
        if not self.integrates_noise:
            return -(self.end.alpha * ((torch.exp(-h) - 1.0 + h) / h**2 - 0.5))
        return -(self.end.sigma * ((torch.exp(h) - 1.0 - h) / h**2 - 0.5))

    def noise(self) -> Tensor:
        """c_noise"""
        if self.integrates_noise:
            return self.end.sigma * torch.sqrt(torch.exp(2 * self.h) - 1.0)
        return self.end.sigma * torch.sqrt(1.0 - torch.exp(-2 * self.h))

    def step(
        self,
        sample: Tensor,
        value: Tensor,
        slope: Tensor | None = None,
        curvature: Tensor | None = None,
        *,
        noise: Tensor | None = None,
        midpoint: bool = False,
    ) -> Tensor:
        """x_t from x and the value, slope and curvature of the output."""
        result = self.decay() * sample + self.value() * value
        if slope is not None:
            result = result + (self.midpoint_slope() if midpoint else self.heun_slope()) * slope
        if curvature is not None:
            result = result + self.curvature() * curvature
        return result if noise is None else result + self.noise() * noise


class MultistepMixin(SchedulerMixin):
    """One model call per step; the slopes come from the steps before."""

    history: OutputHistory

    def _level(self, sigma: Tensor) -> Level:
        raise NotImplementedError

    def _order_at(self, index: int) -> int:
        """The order that this step can have: as many outputs as there are, and fewer at the end."""
        config, left = self.config, len(self.timesteps) - index
        order = min(config.solver_order, len(self.history.outputs))
        few = config.lower_order_final and len(self.timesteps) < FEW_STEPS
        if left == 1 and (config.euler_at_final or few or config.final_sigmas_type == "zero"):
            return 1
        return min(order, 2) if left == 2 and few else order

    def _solve(self, index: int, sample: Tensor, noise: Tensor | None) -> Tensor:
        order = self._order_at(index)
        here = self._level(self.sigmas[index])
        integrator = Integrator(self.config.algorithm_type, here, self._level(self.sigmas[index + 1]))
        value = self.history.outputs[-1]
        if order == 1:
            return integrator.step(sample, value, noise=noise)

        before = self._level(self.sigmas[index - 1])
        r0 = (here.log_snr - before.log_snr) / integrator.h
        slope = 1.0 / r0 * (value - self.history.outputs[-2])
        if order == 2:
            return integrator.step(sample, value, slope, noise=noise, midpoint=self.config.solver_type == "midpoint")

        r1 = (before.log_snr - self._level(self.sigmas[index - 2]).log_snr) / integrator.h
        slope_before = 1.0 / r1 * (self.history.outputs[-2] - self.history.outputs[-3])
        slope_here = slope + r0 / (r0 + r1) * (slope - slope_before)
        curvature = 1.0 / (r0 + r1) * (slope - slope_before)
        return integrator.step(sample, value, slope_here, curvature, noise=noise)
