"""The schedulers of Helios: a pyramid of stages, each with a stretch of the way and a grid of its own.

A stage begins where the one before has ended, after the sample was enlarged and noised again; each stage's sigmas run
from 0.999 down to 0, and its timesteps over its stretch of the way (pyramid flow matching, arXiv:2410.05954).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, InputError
from .noise import Generators
from .predictions import check_prediction_type
from .scheduling import FLOW, SchedulerMixin
from .sigmas import flow_sigmas_from_alphas, shift_sigmas, shift_sigmas_by_mu
from .spacing import check_num_steps, check_num_train, explicit_grid
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step
from .unipc import UniPCHistory, UniPCMultistepScheduler

FIRST_SIGMA = 0.999
SMALLEST_SIGMA = 1e-8
THIRDS = [0, 1 / 3, 2 / 3, 1]  # never written to; the published default


@dataclass(frozen=True)
class Stage:
    """One stage: the noise that it begins with, as the way has it and after the sample was noised again."""

    original_sigma: float
    start_sigma: float
    end_sigma: float
    timesteps: np.ndarray  # of every training step within it, high to low


class StagedScheduler(SchedulerMixin):
    """What both schedulers share: the table of stages, and a grid within one of them."""

    training = FLOW
    fractional_timesteps = True
    stages: list[Stage]

    def _prepare_stages(self) -> None:
        config, owner = self.config, type(self).__name__
        if len(config.stage_range) != config.stages + 1 or config.stages < 1:
            raise ConfigError(
                f"{owner}: stage_range has the ends of {config.stages} stages, {config.stages + 1} numbers, got "
                f"{list(config.stage_range)}."
            )
        if config.shift != 1.0 and config.use_dynamic_shifting:
            raise ConfigError(f"{owner}: shift ({config.shift}) and use_dynamic_shifting each shift. Choose one.")
        trained = config.num_train_timesteps
        check_num_train(owner, trained)
        sigmas = flow_sigmas_from_alphas(trained, trained, config.shift)
        self.sigmas, self.timesteps = torch.from_numpy(sigmas), torch.from_numpy(sigmas * trained)
        self.stages = stage_table(sigmas, config.stage_range, config.gamma)

    @property
    def ori_start_sigmas(self) -> dict[int, float]:
        """The noise at which each stage begins on the way, by the published name."""
        return {index: stage.original_sigma for index, stage in enumerate(self.stages)}

    def _stage_grid(self, points: int, stage: int | None, sigmas: Sequence[float] | None, mu: float | None) -> Grid:
        """So many points of a stage (of the whole way, where there is one stage), and the end."""
        config, trained = self.config, self.config.num_train_timesteps
        if config.use_dynamic_shifting and mu is None:
            raise InputError(f"{type(self).__name__}: use_dynamic_shifting wants mu, got none.")
        if config.stages == 1:
            grid = np.linspace(1, 1 / trained, points + 1)[:-1].astype(np.float32)
            grid = shift_sigmas(grid, config.shift) if sigmas is None else explicit_grid("sigmas", sigmas, np.float64)
            timesteps = grid * trained
        elif stage is None or not 0 <= stage < config.stages:
            raise InputError(f"{type(self).__name__} has the stages 0 to {config.stages - 1}, got stage_index={stage}.")
        else:
            within = np.linspace(FIRST_SIGMA, 0, trained + 1)[:-1]
            grid = np.linspace(within[0], within[-1], points)
            timesteps = np.linspace(self.stages[stage].timesteps[0], self.stages[stage].timesteps[-1], points)
        grid, timesteps = self._kept(grid), self._kept(timesteps)
        if config.use_dynamic_shifting and mu is not None:
            grid = shift_sigmas_by_mu(grid, mu, config.time_shift_type)
            high, low = (trained, 0.0) if config.stages == 1 else self.stages[stage or 0].timesteps[[0, -1]]
            timesteps = low + grid * (high - low)
        return Grid(torch.from_numpy(timesteps), torch.from_numpy(np.append(grid, grid.dtype.type(0.0))))

    @lays_grid
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        stage_index: int | None = None,
        sigmas: Sequence[float] | None = None,
        mu: float | None = None,
        is_amplify_first_chunk: bool = False,
    ) -> Grid:
        steps = check_num_steps(num_inference_steps if sigmas is None else len(sigmas))
        return self._stage_grid(self._points(steps, is_amplify_first_chunk), stage_index, sigmas, mu)

    def _points(self, steps: int, amplified: bool) -> int:
        """How many points of the way so many steps take."""
        return steps

    def _kept(self, points: np.ndarray) -> np.ndarray:
        return points


def stage_table(sigmas: np.ndarray, ends: Sequence[float], gamma: float) -> list[Stage]:
    """The stages of a grid of training sigmas that is cut at these shares of it."""
    trained = len(sigmas)
    found: list[tuple[float, float, float]] = []
    for start, end in pairwise(ends):
        first, last = max(int(start * trained), 0), min(int(end * trained), trained)
        original = float(sigmas[first])
        begin = original
        if found:  # enlarged and noised again, the sample has less of both than the way has there
            signal = 1 - original
            begin = 1 - signal / (math.sqrt(1 + 1 / gamma) * (1 - signal) + signal)
        found.append((original, begin, float(sigmas[last]) if last < trained else 0.0))
    lengths = np.array([begin - end for _, begin, end in found])
    total, steps = sum(lengths), sigmas * trained
    stages = []
    for index, (original, begin, end) in enumerate(found):
        low = 0.9999999999999999 if index == len(found) - 1 else sum(lengths[: index + 1]) / total
        high_step = min(steps[int(sum(lengths[:index]) / total * trained)], 999)
        low_step = steps[min(int(low * trained), trained - 1)]
        stages.append(Stage(original, begin, end, np.linspace(high_step, low_step, trained + 1)[:-1]))
    return stages


class HeliosScheduler(StagedScheduler, UniPCMultistepScheduler):  # type: ignore[misc]
    """UniPC (or Euler) within each stage; every stage begins without a history."""

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, shift: float = 1.0, stages: int = 3,
        stage_range: list[float] = THIRDS, gamma: float = 1 / 3, thresholding: bool = False,
        prediction_type: str = "flow_prediction", solver_order: int = 2, predict_x0: bool = True,
        solver_type: str = "bh2", lower_order_final: bool = True,
        disable_corrector: list[int] = [],  # noqa: B006 (never written to; the published default)
        solver_p: None = None, use_flow_sigmas: bool = True, scheduler_type: Literal["euler", "unipc"] = "unipc",
        use_dynamic_shifting: bool = False, time_shift_type: Literal["exponential", "linear"] = "exponential",
    ) -> None:  # fmt: skip
        owner = type(self).__name__
        self._rename_option("solver_type", ("bh1", "bh2"), ("midpoint", "heun", "logrho"), "bh2")
        check_prediction_type(owner, prediction_type, ("flow_prediction",))
        if thresholding or not predict_x0 or not use_flow_sigmas:
            raise ConfigError(f"{owner} wants predict_x0 and use_flow_sigmas, and no thresholding, as published.")
        self._prepare_stages()
        self.history = UniPCHistory()

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        if self.config.scheduler_type == "unipc":
            return self._take(at)
        size = self.sigmas[at.index + 1] - self.sigmas[at.index]
        return SchedulerOutput((at.sample.float() + size * at.output).to(at.output.dtype))

    def _alpha_sigma(self, sigma: Tensor) -> tuple[Tensor, Tensor]:
        return 1 - sigma, sigma.clamp(min=SMALLEST_SIGMA)


class HeliosDMDScheduler(StagedScheduler):
    """Few steps of a distilled model: to x0, and back to the next sigma with the noise that the stage began with."""

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, shift: float = 1.0, stages: int = 3,
        stage_range: list[float] = THIRDS, gamma: float = 1 / 3, prediction_type: str = "flow_prediction",
        use_flow_sigmas: bool = True, use_dynamic_shifting: bool = False,
        time_shift_type: Literal["exponential", "linear"] = "linear",
    ) -> None:  # fmt: skip
        check_prediction_type(type(self).__name__, prediction_type, ("flow_prediction",))
        self._prepare_stages()

    def _points(self, steps: int, amplified: bool) -> int:
        return steps * (2 if amplified else 1) + 1

    def _kept(self, points: np.ndarray) -> np.ndarray:
        return points[:-1]  # the last of one more leads to the end

    @takes_step
    def step(
        self, at: Step, *, generator: Generators = None, dmd_noisy_tensor: Tensor | None = None
    ) -> SchedulerOutput:
        if dmd_noisy_tensor is None:
            raise InputError(f"{type(self).__name__} wants dmd_noisy_tensor, the sample that the stage began with.")
        original = at.sample.double() - self._nearest(at.index) * at.output.double()
        original = original.to(at.output.dtype)
        if at.index == len(self.timesteps) - 1:
            return SchedulerOutput(original)
        sigma = self._nearest(at.index + 1)
        noised = (1 - sigma) * original.double() + sigma * dmd_noisy_tensor.double()
        return SchedulerOutput(noised.to(dmd_noisy_tensor.dtype))

    def _nearest(self, index: int) -> float:
        """The sigma of the timestep nearest to a whole one, as published."""
        place = (self.timesteps - int(self.timesteps[index])).abs().argmin()
        return float(self.sigmas[int(place)])
