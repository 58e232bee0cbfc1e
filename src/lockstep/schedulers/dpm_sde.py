"""DPM-Solver++ as an SDE, singlestep (DPM++ SDE of k-diffusion; arXiv:2211.01095), along a Brownian path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import InputError, UnsupportedError
from .betas import TrainedBetas
from .brownian import BrownianNoise
from .noise import Generators
from .predictions import predicted_denoised
from .sigma_grid import with_final
from .sigma_space import SigmaSpaceScheduler
from .sigmas import ancestral_sigmas, sigmas_to_timesteps, training_sigmas
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step

LARGEST_SEED = 2**63 - 1


@dataclass
class WaitingSample:
    """The sample at the begin of a step, and the sigma in its middle where the model is called next."""

    sample: Tensor
    middle: Tensor


class DPMSolverSDEScheduler(SigmaSpaceScheduler):
    """Two ancestral half steps in log sigma; the noise of both is an increment of the same Brownian path.

    The path is seeded by the config's `noise_sampler_seed`, else by the generators of the first step (a list of them
    means a path for each row, so that no row depends on its neighbours), else by torch's global generator.
    """

    order = 2
    grid_dtype = np.float64
    waiting: WaitingSample | None = None
    noise_sampler: BrownianNoise | None = None

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.00085, beta_end: float = 0.012,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, prediction_type: str = "epsilon",
        use_karras_sigmas: bool = False, use_exponential_sigmas: bool = False, use_beta_sigmas: bool = False,
        noise_sampler_seed: int | None = None, timestep_spacing: str = "linspace", steps_offset: int = 0,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        if prediction_type == "sample":
            raise UnsupportedError("DPMSolverSDEScheduler has no prediction_type 'sample'. Use HeunDiscreteScheduler.")
        self.set_timesteps(num_train_timesteps)

    def _restart(self) -> None:
        super()._restart()
        self.waiting = self.noise_sampler = None

    @property
    def state_in_first_order(self) -> bool:
        """Whether the next call is the first of its step."""
        return self.waiting is None

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, num_train_timesteps: int | None = None) -> Grid:
        grid, sigma_grid = self._sigma_grid(num_inference_steps, num_train_timesteps=num_train_timesteps)
        logarithms = -np.log(sigma_grid)
        middle = np.exp(-(logarithms[:-1] + np.diff(logarithms) * 0.5))
        middle_grid = sigmas_to_timesteps(middle, np.log(training_sigmas(self.alphas_cumprod)))
        interleaved = np.stack([middle_grid, grid[1:]], axis=-1).flatten()
        single = with_final(sigma_grid)
        sigmas = torch.cat([single[:1], single[1:-1].repeat_interleave(2), single[-1:]])
        return Grid(np.concatenate([grid[:1], interleaved]), sigmas, len(grid))

    def _model_sigma(self, index: int) -> Tensor:
        return self.sigmas[index] if self.waiting is None else self.waiting.middle

    @takes_step
    def step(self, at: Step, *, s_noise: float = 1.0, generator: Generators = None) -> SchedulerOutput:
        place = at.index if self.waiting is None else at.index - 1
        sigma, sigma_next = self.sigmas[place], self.sigmas[place + 1]
        sample = at.sample if self.waiting is None else self.waiting.sample
        t, t_next = -sigma.log(), -sigma_next.log()
        middle = (-(t + (t_next - t) * 0.5)).exp()
        sigma_here = sigma if self.waiting is None else middle
        denoised = predicted_denoised(self.config.prediction_type, at.output, at.sample, sigma_here)
        if sigma_next == 0:
            derivative = (sample - denoised) / sigma
            return SchedulerOutput(sample + derivative * (sigma_next - sigma), denoised)

        start, end = (-t).exp(), middle if self.waiting is None else (-t_next).exp()
        up = torch.minimum(end, ancestral_sigmas(start, end)[0])
        t_down = -((end**2 - up**2) ** 0.5).log()
        previous_sample = (-t_down).exp() / start * sample - (t - t_down).expm1() * denoised
        noise = self._noise_for(at.sample, generator)(start, end)
        self.waiting = WaitingSample(at.sample, middle) if self.waiting is None else None
        return SchedulerOutput(previous_sample + noise * s_noise * up, denoised)

    def _noise_for(self, sample: Tensor, generator: Generators) -> BrownianNoise:
        if self.noise_sampler is None:
            lowest, highest = self.sigmas[self.sigmas > 0].min().item(), self.sigmas.max().item()
            self.noise_sampler = BrownianNoise(sample, lowest, highest, self._seed(len(sample), generator))
        return self.noise_sampler

    def _seed(self, num_rows: int, generator: Generators) -> int | list[int]:
        if self.config.noise_sampler_seed is not None:
            return int(self.config.noise_sampler_seed)
        if generator is None or isinstance(generator, torch.Generator):
            return _draw_seed(generator)
        if len(generator) not in (1, num_rows):
            raise InputError(
                f"A list of generators wants one per sample: {num_rows} for this batch, got {len(generator)}."
            )
        return [_draw_seed(one) for one in generator] if len(generator) == num_rows else _draw_seed(generator[0])


def _draw_seed(generator: torch.Generator | None) -> int:
    where = "cpu" if generator is None else generator.device
    return int(torch.randint(0, LARGEST_SEED, (), generator=generator, device=where).item())
