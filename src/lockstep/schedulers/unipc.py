"""UniPC (arXiv:2302.04867): a predictor of any order, and a corrector that uses the next model call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, InputError, UnsupportedError
from .betas import TrainedBetas
from .log_snr import Level, LogSNRScheduler, OutputHistory
from .noise import Generators
from .sigma_grid import with_final
from .sigmas import flow_sigmas, sigmas_to_timesteps, training_sigmas
from .spacing import check_num_steps, explicit_grid
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step

BELOW_ONE = 1e-6  # a flow grid that starts at sigma 1 has no log SNR there; it starts this much lower


@dataclass
class UniPCHistory(OutputHistory):
    """The last outputs, and the sample and order of the last prediction, which the corrector needs."""

    sample: Tensor | None = None
    order: int = 0


class UniPCMultistepScheduler(LogSNRScheduler):
    """UniPC with B(h) = h (bh1) or e^h - 1 (bh2), in x0 or in eps."""

    history = UniPCHistory()

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, solver_order: int = 2,
        prediction_type: str = "epsilon", thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995,
        sample_max_value: float = 1.0, predict_x0: bool = True, solver_type: str = "bh2",
        lower_order_final: bool = True,
        disable_corrector: list[int] = [],  # noqa: B006 (never written to; the published default)
        solver_p: Any = None,
        use_karras_sigmas: bool | None = False, use_exponential_sigmas: bool | None = False,
        use_beta_sigmas: bool | None = False, use_flow_sigmas: bool | None = False, flow_shift: float = 1.0,
        timestep_spacing: str = "linspace", steps_offset: int = 0,
        final_sigmas_type: Literal["zero", "sigma_min"] = "zero", rescale_betas_zero_snr: bool = False,
        use_dynamic_shifting: bool = False, time_shift_type: Literal["exponential", "linear"] = "exponential",
        sigma_min: float | None = None, sigma_max: float | None = None, shift_terminal: float | None = None,
    ) -> None:  # fmt: skip
        self._rename_option("solver_type", ("bh1", "bh2"), ("midpoint", "heun", "logrho"), "bh2")
        if solver_p is not None:
            raise UnsupportedError(
                "UniPCMultistepScheduler has no solver_p: another scheduler cannot be written to a config."
            )
        if shift_terminal is not None and not use_flow_sigmas:
            raise ConfigError("UniPCMultistepScheduler: shift_terminal goes with use_flow_sigmas=True only.")
        if prediction_type == "flow_prediction" and not predict_x0:
            raise ConfigError("UniPCMultistepScheduler: flow_prediction goes with predict_x0=True only.")
        if thresholding and not predict_x0:
            raise ConfigError("UniPCMultistepScheduler: thresholding limits x0 and goes with predict_x0=True only.")
        if solver_order < 1:
            raise ConfigError(f"UniPCMultistepScheduler: solver_order wants at least 1, got {solver_order}.")
        self._prepare()

    @property
    def _respaces_flow(self) -> bool:
        return True

    @lays_grid
    def set_timesteps(
        self, num_inference_steps: int | None = None, sigmas: Sequence[float] | None = None, mu: float | None = None
    ) -> Grid:
        config = self.config
        if config.use_dynamic_shifting and mu is None:
            raise InputError("use_dynamic_shifting wants mu, the logarithm of the shift, got none.")
        if sigmas is not None and not config.use_flow_sigmas:
            raise InputError("Explicit sigmas go with use_flow_sigmas=True only.")
        given = None if sigmas is None else explicit_grid("sigmas", sigmas, np.float64)
        steps = check_num_steps(num_inference_steps if given is None else len(given))
        if self.respacing is not None:
            grid, sigma_grid = self._respaced_grid(steps, given)
        elif config.use_flow_sigmas:
            grid, sigma_grid = self._flow_grid(steps, given, mu)
        else:
            grid, sigma_grid = self._sigma_grid(self._spaced(steps), config.flow_shift)
        own_grid = self.respacing is not None or config.use_flow_sigmas
        lowest = sigma_grid[-1] if own_grid else training_sigmas(self.alphas_cumprod)[0]
        final = 0.0 if config.final_sigmas_type == "zero" else lowest
        return Grid(grid.astype(np.int64), with_final(sigma_grid, final))

    def _respaced_grid(self, steps: int, given: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Between the ends of training or of the given sigmas; Karras's can be mapped to those of flow matching."""
        rising = training_sigmas(self.alphas_cumprod) if given is None else given
        sigmas = self._respaced(rising[::-1], steps)
        if self.respacing == "karras" and self.config.use_flow_sigmas:
            sigmas = sigmas / (sigmas + 1)
            return sigmas * self.config.num_train_timesteps, sigmas
        timesteps = sigmas_to_timesteps(sigmas, np.log(rising))
        return timesteps.round() if self.respacing == "karras" else timesteps, sigmas

    def _flow_grid(self, steps: int, given: np.ndarray | None, mu: float | None) -> tuple[np.ndarray, np.ndarray]:
        config = self.config
        sigmas = np.linspace(1, 1 / config.num_train_timesteps, steps + 1)[:-1] if given is None else given
        sigmas = flow_sigmas(sigmas, config, config.flow_shift, mu)
        if np.fabs(sigmas[0] - 1) < BELOW_ONE:
            sigmas[0] -= BELOW_ONE
        return sigmas * config.num_train_timesteps, sigmas

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        return self._take(at)

    def _take(self, at: Step) -> SchedulerOutput:
        index, sample, config, history = at.index, at.sample, self.config, self.history
        output = self.convert_model_output(at.output, sample, to_noise=not config.predict_x0)
        if index > 0 and index - 1 not in config.disable_corrector and history.sample is not None:
            sample = self._correct(index, output, history.sample, history.order)
        order = min(config.solver_order, len(history.outputs) + 1)
        if config.lower_order_final:
            order = min(order, len(self.timesteps) - index)
        history.push(output, keep=config.solver_order)
        history.sample, history.order = sample, order
        return SchedulerOutput(self._predict(index, sample, order))

    def _predict(self, index: int, sample: Tensor, order: int) -> Tensor:
        """UniP: from this level to the next with the outputs up to here (equation 3)."""
        start, end = self._level_at(index, sample), self._level_at(index + 1, sample)
        differences, ratios = self._differences(index, order, start, end)
        base, scale, h, b_h = self._first_order(sample, start, end)
        if order == 1:
            return base.to(sample.dtype)
        if order == 2:
            weights = torch.full((1,), 0.5, dtype=sample.dtype, device=sample.device)
        else:
            matrix, right = unipc_system(ratios, h, b_h, order)
            weights = torch.linalg.solve(matrix[:-1, :-1], right[:-1]).to(sample.dtype)
        return (base - scale * b_h * weighted(weights, differences)).to(sample.dtype)

    def _correct(self, index: int, output: Tensor, last_sample: Tensor, order: int) -> Tensor:
        """UniC: the last step once more, now that the output at its end is known (equation 5)."""
        start, end = self._level_at(index - 1, last_sample), self._level_at(index, last_sample)
        differences, ratios = self._differences(index - 1, order, start, end)
        base, scale, h, b_h = self._first_order(last_sample, start, end)
        if order == 1:
            weights = torch.full((1,), 0.5, dtype=last_sample.dtype, device=last_sample.device)
        else:
            weights = torch.linalg.solve(*unipc_system(ratios, h, b_h, order)).to(last_sample.dtype)
        residual = weighted(weights[:-1], differences) if differences else 0
        residual = residual + weights[-1] * (output - self.history.outputs[-1])
        return (base - scale * b_h * residual).to(last_sample.dtype)

    def _level_at(self, index: int, sample: Tensor) -> Level:
        return self._level(self.sigmas[index].to(sample.device))

    def _differences(self, index: int, order: int, start: Level, end: Level) -> tuple[list[Tensor], Tensor]:
        """Divided differences of the outputs before `index`, and where they lie relative to the step."""
        h = end.log_snr - start.log_snr
        newest, ratios, differences = self.history.outputs[-1], [], []
        for back in range(1, order):
            ratio = (self._level_at(index - back, newest).log_snr - start.log_snr) / h
            ratios.append(ratio)
            differences.append((self.history.outputs[-1 - back] - newest) / ratio)
        return differences, torch.stack([*ratios, torch.ones((), device=newest.device)])

    def _first_order(self, sample: Tensor, start: Level, end: Level) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The first-order step, the scale of the rest, the step size as the output sees it, and B(h)."""
        h = end.log_snr - start.log_snr
        if self.config.predict_x0:
            h, decay, scale = -h, end.sigma / start.sigma, end.alpha
        else:
            decay, scale = end.alpha / start.alpha, end.sigma
        base = decay * sample - scale * torch.expm1(h) * self.history.outputs[-1]
        return base, scale, h, h if self.config.solver_type == "bh1" else torch.expm1(h)


def unipc_system(ratios: Tensor, h: Tensor, b_h: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """The Vandermonde system whose solution are the weights of the differences (theorem 3.1)."""
    phi, factorial = torch.expm1(h) / h - 1, 1
    rows, right = [], []
    for i in range(1, order + 1):
        rows.append(torch.pow(ratios, i - 1))
        right.append(phi * factorial / b_h)
        factorial *= i + 1
        phi = phi / h - 1 / factorial
    return torch.stack(rows), torch.stack(right)


def weighted(weights: Tensor, differences: list[Tensor]) -> Tensor:
    return torch.einsum("k,bkc...->bc...", weights, torch.stack(differences, dim=1))
