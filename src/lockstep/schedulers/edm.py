"""EDM (arXiv:2206.00364): sigmas from the config, and a model wrapped in the preconditioning of table 1."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, InputError
from .dpm_solver import MultistepMixin
from .log_snr import Level, OutputHistory
from .noise import Churn, Generators, draw_noise
from .predictions import check_prediction_type, dynamic_threshold
from .scheduling import EDM
from .sigma_grid import SigmaGridMixin
from .spacing import check_num_steps, check_num_train
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step

SigmaSchedule = Literal["karras", "exponential"]
FinalSigma = Literal["zero", "sigma_min"]


class EDMScheduler(SigmaGridMixin):
    """The sample is x0 + sigma·eps; the model sees c_in·x at c_noise, and x0 = c_skip·x + c_out·output."""

    training = EDM
    ramp_dtype: ClassVar[torch.dtype] = torch.float32

    def _check_edm(self) -> None:
        config, owner = self.config, type(self).__name__
        check_num_train(owner, config.num_train_timesteps)
        check_prediction_type(owner, config.prediction_type, ("epsilon", "v_prediction"))
        if not 0 < config.sigma_min < config.sigma_max:
            raise ConfigError(
                f"{owner} wants 0 < sigma_min < sigma_max, got {config.sigma_min} and {config.sigma_max}."
            )

    @property
    def init_noise_sigma(self) -> float:  # type: ignore[override]
        return float((self.config.sigma_max**2 + 1) ** 0.5)

    def _sigmas_along(self, ramp: Tensor) -> Tensor:
        """From sigma_max at 0 to sigma_min at 1 (equation 5, or even in log sigma)."""
        low, high, rho = self.config.sigma_min, self.config.sigma_max, self.config.rho
        if self.config.sigma_schedule == "exponential":
            return torch.linspace(math.log(low), math.log(high), len(ramp)).exp().flip(0)
        low, high = low ** (1 / rho), high ** (1 / rho)
        return ((high + ramp * (low - high)) ** rho).to(torch.float32)

    def _grid_along(self, ramp: Tensor, lowest: float | None = None) -> Grid:
        """The grid that ends at zero or at the lowest sigma, as the config says."""
        sigmas = self._sigmas_along(ramp)
        lowest = sigmas[-1].item() if lowest is None else lowest
        final = torch.tensor([0.0 if self.config.final_sigmas_type == "zero" else lowest])
        return Grid(self.precondition_noise(sigmas), torch.cat([sigmas, final]))

    def precondition_inputs(self, sample: Tensor, sigma: float | Tensor) -> Tensor:
        """c_in·x"""
        return sample * (1 / (sigma**2 + self.config.sigma_data**2) ** 0.5)

    def precondition_noise(self, sigma: float | Tensor) -> Tensor:
        """c_noise: what the model takes as the timestep."""
        return 0.25 * torch.log(sigma if isinstance(sigma, Tensor) else torch.tensor([sigma]))

    def precondition_outputs(self, sample: Tensor, model_output: Tensor, sigma: float | Tensor) -> Tensor:
        """c_skip·x + c_out·output"""
        sigma_data = self.config.sigma_data
        skip = sigma_data**2 / (sigma**2 + sigma_data**2)
        out = sigma * sigma_data / (sigma**2 + sigma_data**2) ** 0.5
        return skip * sample + (out if self.config.prediction_type == "epsilon" else -out) * model_output

    def scale_model_input(self, sample: Tensor, timestep: float | Tensor | None = None) -> Tensor:
        if timestep is None:
            raise InputError(f"{type(self).__name__} scales by the timestep's sigma: pass the timestep.")
        return self.precondition_inputs(sample, self.sigmas[self._locate(timestep)])


class EDMEulerScheduler(EDMScheduler):
    """Euler's method with optional churn (algorithm 2)."""

    fractional_timesteps = True
    ramp_dtype = torch.float64

    @register_to_config
    def __init__(
        self, sigma_min: float = 0.002, sigma_max: float = 80.0, sigma_data: float = 0.5,
        sigma_schedule: SigmaSchedule = "karras", num_train_timesteps: int = 1000,
        prediction_type: str = "epsilon", rho: float = 7.0, final_sigmas_type: FinalSigma = "zero",
    ) -> None:  # fmt: skip
        self._check_edm()
        ramp = torch.arange(num_train_timesteps + 1, dtype=self.ramp_dtype) / num_train_timesteps
        self._begin_grid(self._grid_along(ramp), None)
        self.num_inference_steps = None

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None, sigmas: Tensor | None = None) -> Grid:
        """`sigmas` are places on the config's schedule, from 0 (sigma_max) to 1 (sigma_min), as in published use."""
        if sigmas is None:
            return self._grid_along(torch.linspace(0, 1, check_num_steps(num_inference_steps), dtype=self.ramp_dtype))
        return self._grid_along(torch.as_tensor(sigmas, dtype=self.ramp_dtype).flatten())

    @takes_step
    def step(
        self, at: Step, s_churn: float = 0.0, s_tmin: float = 0.0, s_tmax: float = float("inf"), s_noise: float = 1.0,
        generator: Generators = None, *, pred_original_sample: Tensor | None = None,
    ) -> SchedulerOutput:  # fmt: skip
        churn = Churn(s_churn, s_tmin, s_tmax, s_noise)
        sample, sigma_hat = churn.add(
            at.sample.to(torch.float32), self.sigmas[at.index], len(self.sigmas) - 1, at.output, generator
        )
        original = pred_original_sample
        if original is None:
            original = self.precondition_outputs(sample, at.output, sigma_hat)
        derivative = (sample - original) / sigma_hat
        previous_sample = sample + derivative * (self.sigmas[at.index + 1] - sigma_hat)
        return SchedulerOutput(previous_sample.to(at.output.dtype), original)


class EDMDPMSolverMultistepScheduler(EDMScheduler, MultistepMixin):
    """DPM-Solver++ multistep, plain or as an SDE, where alpha is 1."""

    needs_grid = True
    history = OutputHistory()

    @register_to_config
    def __init__(
        self, sigma_min: float = 0.002, sigma_max: float = 80.0, sigma_data: float = 0.5,
        sigma_schedule: SigmaSchedule = "karras", num_train_timesteps: int = 1000,
        prediction_type: str = "epsilon", rho: float = 7.0, solver_order: int = 2,
        thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995, sample_max_value: float = 1.0,
        algorithm_type: str = "dpmsolver++", solver_type: str = "midpoint", lower_order_final: bool = True,
        euler_at_final: bool = False, final_sigmas_type: FinalSigma = "zero",
    ) -> None:  # fmt: skip
        self._rename_option("algorithm_type", ("dpmsolver++", "sde-dpmsolver++"), ("deis",), "dpmsolver++")
        self._rename_option("solver_type", ("midpoint", "heun"), ("logrho", "bh1", "bh2"), "midpoint")
        self._check_edm()
        sigmas = self._sigmas_along(torch.linspace(0, 1, num_train_timesteps))
        self.timesteps, self.sigmas = self.precondition_noise(sigmas), torch.cat([sigmas, torch.zeros(1)])
        self._restart()

    def _index_off_grid(self, timestep: float | Tensor) -> int:
        return len(self.timesteps) - 1

    def _level(self, sigma: Tensor) -> Level:
        return Level(torch.ones(()), sigma, -torch.log(sigma))

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        return self._grid_along(torch.linspace(0, 1, check_num_steps(num_inference_steps)), self.config.sigma_min)

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        config, noise = self.config, None
        original = self.precondition_outputs(at.sample, at.output, self.sigmas[at.index])
        if config.thresholding:
            original = dynamic_threshold(original, config.dynamic_thresholding_ratio, config.sample_max_value)
        self.history.push(original, keep=config.solver_order)
        if config.algorithm_type.startswith("sde"):
            noise = draw_noise(original.shape, generator, original.device, original.dtype)
        return SchedulerOutput(self._solve(at.index, at.sample, noise))
