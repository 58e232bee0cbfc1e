"""SA-Solver (arXiv:2309.05019): stochastic Adams, a predictor and a corrector for the SDE with noise tau(t)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, UnsupportedError
from .betas import TrainedBetas
from .log_snr import Level, LogSNRScheduler, OutputHistory
from .noise import Generators, draw_noise
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step
from .variance_preserving import VariancePreservingScheduler


@dataclass
class AdamsHistory(OutputHistory):
    """The last outputs, and what the last prediction was made from, which the corrector needs."""

    sample: Tensor | None = None
    noise: Tensor | None = None
    tau: float = 0.0
    order: int = 0


def tau_in_the_middle(timestep: Any) -> float:
    """Noise in the middle of the way only, as the paper recommends for latent diffusion."""
    return 1.0 if 200 <= timestep <= 800 else 0.0


class SASolverScheduler(LogSNRScheduler):
    """Predictor and corrector of orders 1 to 4, in x0 (`data_prediction`) or in eps (`noise_prediction`)."""

    history = AdamsHistory()
    add_noise = VariancePreservingScheduler.add_noise  # by the training timestep, not by the place in the grid

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, predictor_order: int = 2,
        corrector_order: int = 2, prediction_type: str = "epsilon", tau_func: Callable[[Any], float] | None = None,
        thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995, sample_max_value: float = 1.0,
        algorithm_type: str = "data_prediction", lower_order_final: bool = True, use_karras_sigmas: bool = False,
        use_exponential_sigmas: bool = False, use_beta_sigmas: bool = False, use_flow_sigmas: bool = False,
        flow_shift: float = 1.0, lambda_min_clipped: float = -float("inf"), variance_type: str | None = None,
        timestep_spacing: str = "linspace", steps_offset: int = 0,
    ) -> None:  # fmt: skip
        if algorithm_type not in ("data_prediction", "noise_prediction"):
            raise UnsupportedError(
                f"SASolverScheduler has no algorithm_type {algorithm_type!r}: data_prediction or noise_prediction."
            )
        if not 1 <= predictor_order <= 4 or not 1 <= corrector_order <= 4:
            raise ConfigError(
                f"SASolverScheduler wants orders from 1 to 4, got predictor_order {predictor_order} and "
                f"corrector_order {corrector_order}."
            )
        if prediction_type == "flow_prediction" and algorithm_type == "noise_prediction":
            raise ConfigError("SASolverScheduler: flow_prediction goes with algorithm_type='data_prediction' only.")
        self.predict_x0 = algorithm_type == "data_prediction"
        self.tau_func = tau_in_the_middle if tau_func is None else tau_func
        self._prepare()

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        spaced = self._spaced(num_inference_steps, last=self._unclipped_timesteps())
        return self._grid_above_zero(spaced, self.config.flow_shift)

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        config, history, sample = self.config, self.history, at.sample
        output = self.convert_model_output(at.output, sample, to_noise=not self.predict_x0)
        if at.index > 0 and history.sample is not None and history.noise is not None:
            sample = self._correct(at.index, output, history.sample, history.noise)
        history.push(output, keep=max(config.predictor_order, config.corrector_order - 1))
        predictor, corrector = config.predictor_order, config.corrector_order
        if config.lower_order_final:
            left = len(self.timesteps) - at.index
            predictor, corrector = min(predictor, left), min(corrector, left + 1)
        history.noise = draw_noise(at.output.shape, generator, at.output.device, at.output.dtype)
        history.sample, history.tau = sample, float(self.tau_func(at.timestep))
        history.order = min(corrector, len(history.outputs) + 1)
        return SchedulerOutput(self._predict(at.index, sample, history.noise, min(predictor, len(history.outputs))))

    def _predict(self, index: int, sample: Tensor, noise: Tensor, order: int) -> Tensor:
        """From this level to the next with the outputs up to here (equation 14)."""
        start, end = self._level(self.sigmas[index]), self._level(self.sigmas[index + 1])
        weights = self._weights(index, order, start, end)
        if self.predict_x0 and order == 2:  # published with the second order that keeps the variance right
            h, before = end.log_snr - start.log_snr, self._level(self.sigmas[index - 1])
            shift = variance_term(end.log_snr, h, h**2 / 2, self.history.tau) / (start.log_snr - before.log_snr)
            weights = [weights[0] + shift, weights[1] - shift]
        return self._advance(sample, start, end, weights, self.history.outputs[::-1], noise)

    def _correct(self, index: int, output: Tensor, last_sample: Tensor, last_noise: Tensor) -> Tensor:
        """The last step once more, now that the output at its end is known (equation 17)."""
        start, end, order = self._level(self.sigmas[index - 1]), self._level(self.sigmas[index]), self.history.order
        weights = self._weights(index, order, start, end)
        if self.predict_x0 and order == 2:
            h = end.log_snr - start.log_snr
            shift = variance_term(end.log_snr, h, h / 2, self.history.tau, per_h=True)
            weights = [weights[0] + shift, weights[1] - shift]
        return self._advance(last_sample, start, end, weights, [output, *self.history.outputs[::-1]], last_noise)

    def _weights(self, index: int, order: int, start: Level, end: Level) -> list[Tensor]:
        """The integrals of the Lagrange polynomials through the last levels, with the exponential of the SDE."""
        nodes = [self._level(self.sigmas[index - back]).log_snr for back in range(order)]
        weights = []
        for coefficients in lagrange_coefficients(nodes):
            powers = range(order - 1, -1, -1)
            moments = (
                rising_moment(power, start.log_snr, end.log_snr, self.history.tau)
                if self.predict_x0
                else falling_moment(power, start.log_snr, end.log_snr)
                for power in powers
            )
            weights.append(sum(c * moment for c, moment in zip(coefficients, moments, strict=True)))
        return weights  # type: ignore[return-value]

    def _advance(
        self, sample: Tensor, start: Level, end: Level, weights: list[Tensor], outputs: list[Tensor], noise: Tensor
    ) -> Tensor:
        """x_t = decay·x + sum of weight·output + noise, exact for the linear part."""
        tau, h = self.history.tau, end.log_snr - start.log_snr
        gradient = torch.zeros_like(sample)
        for weight, output in zip(weights, outputs, strict=False):
            if self.predict_x0:
                gradient += (1 + tau**2) * end.sigma * torch.exp(-(tau**2) * end.log_snr) * weight * output
            else:
                gradient += -(1 + tau**2) * end.alpha * weight * output
        if self.predict_x0:
            decay = torch.exp(-(tau**2) * h) * (end.sigma / start.sigma)
            noise = end.sigma * torch.sqrt(1 - torch.exp(-2 * tau**2 * h)) * noise
        else:
            decay = end.alpha / start.alpha
            noise = tau * end.sigma * torch.sqrt(torch.exp(2 * h) - 1) * noise
        return (decay * sample + gradient + noise).to(sample.dtype)


def variance_term(end: Tensor, h: Tensor, whole: Tensor, tau: float, per_h: bool = False) -> Tensor:
    """How much of the slope's integral the exponential takes away (appendix B.3)."""
    growth = 1 + tau**2
    exponential = (h * growth - 1 + torch.exp(growth * -h)) / (growth**2 * h if per_h else growth**2)
    return torch.exp(growth * end) * (whole - exponential)


def lagrange_coefficients(nodes: list[Tensor]) -> list[list[Tensor]]:
    """For each node the polynomial that is 1 there and 0 at the others: its coefficients, highest power first."""
    polynomials = []
    for k, own in enumerate(nodes):
        others = nodes[:k] + nodes[k + 1 :]
        scale = math.prod((own - other for other in others), start=torch.ones(()))
        polynomials.append(
            [
                (-1) ** size * sum(math.prod(some, start=1.0) for some in itertools.combinations(others, size)) / scale
                for size in range(len(nodes))
            ]
        )
    return polynomials


def falling_moment(power: int, start: Tensor, end: Tensor) -> Tensor:
    """The integral of x^power·e^-x from start to end."""

    def antiderivative(x: Tensor) -> Tensor:
        return sum((math.perm(power, k) * x ** (power - k) for k in range(power + 1)), start=torch.zeros(()))

    return torch.exp(-end) * (antiderivative(start) * torch.exp(end - start) - antiderivative(end))


def rising_moment(power: int, start: Tensor, end: Tensor, tau: float) -> Tensor:
    """The integral of x^power·e^(growth·x) from start to end, with growth 1 + tau²."""
    growth = 1 + tau**2
    start, end = growth * start, growth * end

    def antiderivative(x: Tensor) -> Tensor:
        terms = ((-1) ** k * math.perm(power, k) * x ** (power - k) for k in range(power + 1))
        return sum(terms, start=torch.zeros(()))

    total = torch.exp(end) * (antiderivative(end) - antiderivative(start) * torch.exp(-(end - start)))
    return total / growth ** (power + 1)
