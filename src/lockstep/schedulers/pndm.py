"""PNDM (arXiv:2202.09778): linear multistep in eps on DDIM's path, started by Runge-Kutta or by one repeated step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError
from .betas import TrainedBetas
from .noise import Generators
from .predictions import predicted_noise
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step
from .variance_preserving import TrainedTimestepScheduler

ADAMS_BASHFORTH_START = 4  # noises that the Runge-Kutta phase makes for the four-step formula


@dataclass
class PNDMHistory:
    """What a run remembers: the last noises, the sample that a started step returns to, the Runge-Kutta sum."""

    calls: int = 0
    noises: list[Tensor] = field(default_factory=list)
    anchor: Tensor | None = None
    runge_kutta_sum: Tensor | float = 0.0


class PNDMScheduler(TrainedTimestepScheduler):
    """Pseudo linear multistep; `skip_prk_steps` is PLMS, the default of Stable Diffusion 1."""

    prediction_types = ("epsilon", "v_prediction")
    history = PNDMHistory()

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, skip_prk_steps: bool = False,
        set_alpha_to_one: bool = False, prediction_type: str = "epsilon", timestep_spacing: str = "leading",
        steps_offset: int = 0,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.final_alpha_cumprod = torch.tensor(1.0) if set_alpha_to_one else self.alphas_cumprod[0]
        self.timesteps = torch.arange(num_train_timesteps - 1, -1, -1)
        self.prk_timesteps = self.plms_timesteps = np.array([], dtype=np.int64)
        self._restart()

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        grid = self._spaced(num_inference_steps)
        if self.config.skip_prk_steps:
            self.prk_timesteps = np.array([], dtype=np.int64)
            self.plms_timesteps = np.concatenate([grid[:1], grid[1:2], grid[1:]])  # the second is visited twice
        else:
            self.prk_timesteps = self._runge_kutta_timesteps(grid)
            self.plms_timesteps = grid[ADAMS_BASHFORTH_START - 1 :]
        return Grid(np.concatenate([self.prk_timesteps, self.plms_timesteps]), num_inference_steps=len(grid))

    def _runge_kutta_timesteps(self, grid: np.ndarray) -> np.ndarray:
        """Start, middle twice and end of each of the first steps."""
        if len(grid) < ADAMS_BASHFORTH_START:
            raise InputError(
                f"PNDM with Runge-Kutta steps wants num_inference_steps of at least {ADAMS_BASHFORTH_START}, "
                f"got {len(grid)}. Use skip_prk_steps=True for fewer."
            )
        half = self.config.num_train_timesteps // len(grid) // 2
        rising = grid[:ADAMS_BASHFORTH_START][::-1].repeat(2) + np.tile([0, half], ADAMS_BASHFORTH_START)
        return rising[:-1].repeat(2)[1:-1][::-1].copy()

    @takes_step
    def step(self, at: Step, *, generator: Generators = None) -> SchedulerOutput:
        runge_kutta = self.history.calls < len(self.prk_timesteps)
        return SchedulerOutput((self._runge_kutta_step if runge_kutta else self._linear_multistep)(at))

    @takes_step
    def step_prk(self, at: Step) -> SchedulerOutput:
        """One of the Runge-Kutta calls, for a loop over `prk_timesteps`."""
        return SchedulerOutput(self._runge_kutta_step(at))

    @takes_step
    def step_plms(self, at: Step) -> SchedulerOutput:
        """One of the multistep calls, for a loop over `plms_timesteps`."""
        if not self.config.skip_prk_steps and len(self.ets) < ADAMS_BASHFORTH_START - 1:
            raise InputError(
                f"step_plms wants the {ADAMS_BASHFORTH_START - 1} noises of the Runge-Kutta steps before it, "
                f"got {len(self.ets)}. Use `step`, or skip_prk_steps=True."
            )
        return SchedulerOutput(self._linear_multistep(at))

    @property
    def ets(self) -> list[Tensor]:
        """The noises of the last steps, newest last."""
        return self.history.noises

    @ets.setter
    def ets(self, noises: list[Tensor]) -> None:
        self.history.noises = list(noises)

    def _runge_kutta_step(self, at: Step) -> Tensor:
        """One of the four evaluations of the classic Runge-Kutta method (equation 13)."""
        history, output = self.history, at.output
        stage, begin = history.calls % 4, int(self.prk_timesteps[history.calls // 4 * 4])
        history.calls += 1
        half = self.config.num_train_timesteps // self._require_timesteps_set() // 2
        if stage == 0:
            history.runge_kutta_sum = 1 / 6 * output
            history.noises = [*history.noises, output]
            history.anchor = at.sample
        elif stage in (1, 2):
            history.runge_kutta_sum = history.runge_kutta_sum + 1 / 3 * output
        else:
            output = history.runge_kutta_sum + 1 / 6 * output
            history.runge_kutta_sum = 0.0
        anchor = at.sample if history.anchor is None else history.anchor
        return self._transfer(anchor, begin, int(at.timestep) - (half if stage % 2 == 0 else 0), output)

    def _linear_multistep(self, at: Step) -> Tensor:
        """Adams-Bashforth with the noises there are; the second call corrects the first with Heun's average."""
        history, timestep, sample = self.history, int(at.timestep), at.sample
        call, history.calls = history.calls, history.calls + 1
        ratio = self.config.num_train_timesteps // self._require_timesteps_set()
        if call == 1:  # the same step again, now with the noise at its end
            average = (at.output + history.noises[-1]) / 2 if len(history.noises) == 1 else None
            anchor, history.anchor = history.anchor, None
            noise = adams_bashforth(history.noises) if average is None else average
            return self._transfer(sample if anchor is None else anchor, timestep + ratio, timestep, noise)
        history.noises = [*history.noises[-3:], at.output]
        if call == 0:
            history.anchor = sample
        return self._transfer(sample, timestep, timestep - ratio, adams_bashforth(history.noises))

    def _transfer(self, sample: Tensor, timestep: int, previous: int, output: Tensor) -> Tensor:
        """From one timestep to another along the noise that the outputs imply (equation 11)."""
        alpha_bar = self.alphas_cumprod[timestep]
        alpha_bar_previous = self._alpha_bar(previous, before_first=self.final_alpha_cumprod)
        beta_bar, beta_bar_previous = 1 - alpha_bar, 1 - alpha_bar_previous
        noise = predicted_noise(self.config.prediction_type, output, sample, alpha_bar**0.5, beta_bar**0.5)
        sample_weight = (alpha_bar_previous / alpha_bar) ** 0.5
        divisor = alpha_bar * beta_bar_previous**0.5 + (alpha_bar * beta_bar * alpha_bar_previous) ** 0.5
        return sample_weight * sample - (alpha_bar_previous - alpha_bar) * noise / divisor


def adams_bashforth(noises: list[Tensor]) -> Tensor:
    """The explicit linear multistep combination of the last one to four values (equation 9)."""
    last = noises[::-1]
    if len(noises) == 1:
        return last[0]
    if len(noises) == 2:
        return (3 * last[0] - last[1]) / 2
    if len(noises) == 3:
        return (23 * last[0] - 16 * last[1] + 5 * last[2]) / 12
    return 1 / 24 * (55 * last[0] - 59 * last[1] + 37 * last[2] - 9 * last[3])
