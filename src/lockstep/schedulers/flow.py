"""Flow matching (arXiv:2210.02747, arXiv:2403.03206): x = (1 - sigma)·x0 + sigma·noise; models predict noise - x0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, InputError
from .heun import HalfStep
from .noise import Churn, Generators, draw_noise
from .scheduling import FLOW
from .sigma_grid import SigmaGridMixin
from .sigmas import flow_sigmas
from .spacing import check_num_steps, check_num_train, explicit_grid
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step

# the two sizes between which a shift by the size of the picture is linear, and its strength there (FLUX.1)
SHIFT_BY_TOKENS = {"base_image_seq_len": 256, "max_image_seq_len": 4096, "base_shift": 0.5, "max_shift": 1.15}


def mu_for_tokens(config: Mapping[str, Any], tokens: int) -> float:
    """The mu of a picture of so many tokens: linear between a config's two sizes."""
    few, many, low, high = (config.get(name, default) for name, default in SHIFT_BY_TOKENS.items())
    slope = (high - low) / (many - few)
    return float(tokens * slope + (low - slope * few))


class FlowMatchScheduler(SigmaGridMixin):
    """The grid of flow matching: timesteps are sigmas times the number of training timesteps."""

    training = FLOW
    fractional_timesteps = True

    def _prepare(self, shift: float) -> None:
        """The training grid. Its lowest sigma is where later grids end, shifted already unless `shift_once`."""
        num_train = self.config.num_train_timesteps
        check_num_train(type(self).__name__, num_train)
        if shift <= 0:
            raise ConfigError(f"{type(self).__name__}: shift wants a value above 0, got {shift}.")
        unshifted = torch.arange(num_train, 0, -1, dtype=torch.float32) / num_train
        self.sigmas = shift * unshifted / (1 + (shift - 1) * unshifted)
        self.timesteps = self.sigmas * num_train
        ends = unshifted if self._option("shift_once", False) else self.sigmas
        self.sigma_max, self.sigma_min = ends[0].item(), ends[-1].item()

    def scale_noise(self, sample: Tensor, timestep: Tensor, noise: Tensor) -> Tensor:
        """The forward process, one timestep per sample."""
        sigma = self._sigmas_at(timestep, sample)
        return sigma * noise + (1.0 - sigma) * sample

    def add_noise(self, original_samples: Tensor, noise: Tensor, timesteps: Tensor) -> Tensor:
        """`scale_noise` by the name that the other schedulers use."""
        return self.scale_noise(original_samples, timesteps, noise)

    def _even_sigmas(self, num_steps: int) -> np.ndarray:
        num_train = self.config.num_train_timesteps
        return np.linspace(self.sigma_max * num_train, self.sigma_min * num_train, num_steps) / num_train


class ShiftedFlowScheduler(FlowMatchScheduler):
    """A grid that the config shifts: by a constant, or by the size of the picture."""

    def _prepare_shifted(self) -> None:
        _ = self.respacing  # refuses two of them
        self._shift: float = self.config.shift
        self._prepare(1.0 if self.config.use_dynamic_shifting else self._shift)

    @property
    def shift(self) -> float:
        """How far sigmas are shifted to higher noise."""
        return self._shift

    def set_shift(self, shift: float) -> None:
        """Shift the grids to come by another value."""
        self._shift = shift

    def mu_for(self, image_seq_len: int) -> float:
        """The mu of a picture of so many tokens."""
        return mu_for_tokens(self.config, image_seq_len)

    @lays_grid
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        sigmas: Sequence[float] | None = None,
        mu: float | None = None,
        timesteps: Sequence[float] | None = None,
    ) -> Grid:
        config = self.config
        if config.use_dynamic_shifting and mu is None:
            raise InputError("use_dynamic_shifting wants mu, got none: mu_for(image_seq_len) gives it.")
        given = None if timesteps is None else explicit_grid("timesteps", timesteps, np.float32)
        grid = None if sigmas is None else explicit_grid("sigmas", sigmas, np.float32)
        lengths = {len(values) for values in (given, grid) if values is not None}
        steps = check_num_steps(next(iter(lengths)) if num_inference_steps is None and lengths else num_inference_steps)
        if lengths - {steps}:
            raise InputError(
                f"Explicit timesteps and sigmas want one value per step, {steps}, "
                f"got {', '.join(map(str, sorted(lengths)))}."
            )

        if grid is None:
            grid = self._even_sigmas(steps) if given is None else given / config.num_train_timesteps
        on_grid = torch.from_numpy(self._shifted(grid, mu)).to(torch.float32)
        at = on_grid * config.num_train_timesteps if given is None else torch.from_numpy(given)
        if config.invert_sigmas:  # for models trained with sigma 1 as the clean end
            on_grid = 1.0 - on_grid
            at = on_grid * config.num_train_timesteps
        return Grid(at, torch.cat([on_grid, torch.full((1,), 1.0 if config.invert_sigmas else 0.0)]))

    def _shifted(self, sigmas: np.ndarray, mu: float | None) -> np.ndarray:
        sigmas = flow_sigmas(sigmas, self.config, self.shift, mu)
        return sigmas if self.respacing is None else self._respaced(sigmas, len(sigmas))


class FlowMatchEulerDiscreteScheduler(ShiftedFlowScheduler):
    """Euler's method along the flow, or re-noising of the predicted sample (`stochastic_sampling`).

    With `shift` a grid made from a number of steps ends at a sigma that was shifted twice: once as the end of the
    training grid, once as part of this one. Published files were made with that; `shift_once=True` shifts it once.
    """

    added_config_keys = ("shift_once",)

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, shift: float = 1.0, use_dynamic_shifting: bool = False,
        base_shift: float | None = 0.5, max_shift: float | None = 1.15, base_image_seq_len: int | None = 256,
        max_image_seq_len: int | None = 4096, invert_sigmas: bool = False, shift_terminal: float | None = None,
        use_karras_sigmas: bool | None = False, use_exponential_sigmas: bool | None = False,
        use_beta_sigmas: bool | None = False, time_shift_type: Literal["exponential", "linear"] = "exponential",
        stochastic_sampling: bool = False, shift_once: bool = False,
    ) -> None:  # fmt: skip
        self._prepare_shifted()

    @takes_step
    def step(
        self, at: Step, generator: Generators = None, per_token_timesteps: Tensor | None = None
    ) -> SchedulerOutput:
        sample = at.sample.to(torch.float32)
        if per_token_timesteps is None:
            sigma, sigma_next = self.sigmas[at.index], self.sigmas[at.index + 1]
            step_size = sigma_next - sigma
        else:
            sigma, sigma_next = self._sigmas_per_token(per_token_timesteps)
            step_size = sigma - sigma_next
        if self.config.stochastic_sampling:
            original = sample - sigma * at.output
            noise = draw_noise(sample.shape, generator, sample.device, sample.dtype)
            previous_sample = (1.0 - sigma_next) * original + sigma_next * noise
        else:
            previous_sample = sample + step_size * at.output
        return SchedulerOutput(previous_sample.to(at.output.dtype) if per_token_timesteps is None else previous_sample)

    def _sigmas_per_token(self, per_token_timesteps: Tensor) -> tuple[Tensor, Tensor]:
        """The sigma of every token, and the next lower one of the grid. Models that use this predict x0 - noise."""
        here = per_token_timesteps / self.config.num_train_timesteps
        grid = self.sigmas.to(here.device)[:, None, None]
        lower = ((grid < here[None] - 1e-6) * grid).max(dim=0).values
        return here[..., None], lower[..., None]


class FlowMatchHeunDiscreteScheduler(FlowMatchScheduler):
    """Heun's method along the flow: two model calls per step, the average of their slopes."""

    order = 2
    added_config_keys = ("shift_once", "use_dynamic_shifting", "time_shift_type", "shift_terminal")
    first_half: HalfStep | None = None

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, shift: float = 1.0, shift_once: bool = False,
        use_dynamic_shifting: bool = False, time_shift_type: Literal["exponential", "linear"] = "exponential",
        shift_terminal: float | None = None,
    ) -> None:  # fmt: skip
        self._prepare(1.0 if use_dynamic_shifting else shift)

    def _restart(self) -> None:
        super()._restart()
        self.first_half = None

    @lays_grid
    def set_timesteps(
        self, num_inference_steps: int | None = None, sigmas: Sequence[float] | None = None, mu: float | None = None
    ) -> Grid:
        if self.config.use_dynamic_shifting and mu is None:
            raise InputError("use_dynamic_shifting wants mu, the logarithm of the shift, got none.")
        given = None if sigmas is None else explicit_grid("sigmas", sigmas, np.float32)
        steps = check_num_steps(num_inference_steps if given is None else len(given))
        even = self._even_sigmas(steps) if given is None else given
        single = torch.from_numpy(flow_sigmas(even, self.config, self.config.shift, mu)).to(torch.float32)
        doubled = torch.cat([single[:1], single[1:].repeat_interleave(2), torch.zeros(1)])
        return Grid(doubled[:-1] * self.config.num_train_timesteps, doubled, steps)

    def scale_noise(self, sample: Tensor, timestep: float | Tensor, noise: Tensor) -> Tensor:
        """The forward process, at the place where the run is or begins."""
        begin = self.index_for_timestep(timestep) if self._begin_index is None else self._begin_index
        sigma = self.sigmas[begin if self._step_index is None else self._step_index]
        return sigma * noise + (1.0 - sigma) * sample

    @takes_step
    def step(
        self, at: Step, s_churn: float = 0.0, s_tmin: float = 0.0, s_tmax: float = float("inf"), s_noise: float = 1.0,
        generator: Generators = None,
    ) -> SchedulerOutput:  # fmt: skip
        sample = at.sample.to(torch.float32)
        sigma = self.sigmas[at.index if self.first_half is None else at.index - 1]
        churn = Churn(s_churn, s_tmin, s_tmax, s_noise)
        sample, sigma_hat = churn.add(sample, sigma, len(self.sigmas) - 1, at.output, generator)

        original = sample - at.output * self.sigmas[at.index]
        if self.first_half is None:
            derivative = (sample - original) / sigma_hat
            step_size = self.sigmas[at.index + 1] - sigma_hat
            self.first_half = HalfStep(sample, derivative, step_size)
        else:
            first, self.first_half = self.first_half, None
            derivative = 0.5 * (first.derivative + (sample - original) / self.sigmas[at.index])
            sample, step_size = first.sample, first.step_size
        return SchedulerOutput((sample + derivative * step_size).to(at.output.dtype))
