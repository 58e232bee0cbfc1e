"""DPM-Solver multistep: one model call per step, slopes from the steps before (arXiv:2211.01095, algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from ..errors import ConfigError, UnsupportedError
from .betas import TrainedBetas
from .dpm_solver import ALGORITHMS, MultistepMixin
from .log_snr import LogSNRScheduler
from .noise import Generators, draw_noise
from .sigma_grid import with_final
from .sigmas import training_sigmas
from .spacing import explicit_grid
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


class DPMSolverScheduler(LogSNRScheduler):
    """What the two classes of DPM-Solver share: the grid, and what they integrate."""

    @lays_grid
    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        mu: float | None = None,
        timesteps: Sequence[float] | None = None,
    ) -> Grid:
        self._refuse_two_grids(num_inference_steps, timesteps)
        self._refuse_timesteps_with_own_grid(timesteps)
        if timesteps is None:
            spaced = self._spaced(num_inference_steps, last=self._unclipped_timesteps())
        else:
            spaced = explicit_grid("timesteps", timesteps, np.int64)
        grid, sigma_grid = self._sigma_grid(spaced, self._flow_shift(mu))
        lowest = training_sigmas(self.alphas_cumprod)[0]
        final = 0.0 if self.config.final_sigmas_type == "zero" else lowest
        return Grid(grid.astype(np.int64), with_final(sigma_grid, final))

    def _remember(self, at: Step) -> Tensor:
        """The model's output as the algorithm integrates it, kept for the steps to come."""
        to_noise = not self.config.algorithm_type.endswith("++")
        output = self.convert_model_output(at.output, at.sample, to_noise=to_noise)
        self.history.push(output, keep=self.config.solver_order)
        return output


class DPMSolverMultistepScheduler(DPMSolverScheduler, MultistepMixin):
    """Orders 1 to 3 of DPM-Solver, DPM-Solver++ and their SDE variants ("DPM++ 2M", "2M SDE", "Karras" …)."""

    respacings = {**LogSNRScheduler.respacings, "lu": "use_lu_lambdas"}

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, solver_order: int = 2,
        prediction_type: str = "epsilon", thresholding: bool = False, dynamic_thresholding_ratio: float = 0.995,
        sample_max_value: float = 1.0, algorithm_type: str = "dpmsolver++", solver_type: str = "midpoint",
        lower_order_final: bool = True, euler_at_final: bool = False, use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False, use_beta_sigmas: bool | None = False,
        use_lu_lambdas: bool | None = False, use_flow_sigmas: bool | None = False, flow_shift: float = 1.0,
        final_sigmas_type: Literal["zero", "sigma_min"] = "zero", lambda_min_clipped: float = -float("inf"),
        variance_type: str | None = None, timestep_spacing: str = "linspace", steps_offset: int = 0,
        rescale_betas_zero_snr: bool = False, use_dynamic_shifting: bool = False,
        time_shift_type: Literal["exponential"] = "exponential",
    ) -> None:  # fmt: skip
        algorithm = self._rename_option("algorithm_type", ALGORITHMS, ("deis",), "dpmsolver++")
        self._rename_option("solver_type", ("midpoint", "heun"), ("logrho", "bh1", "bh2"), "midpoint")
        self._check_order()
        if algorithm == "sde-dpmsolver" and solver_order == 3:
            raise UnsupportedError("sde-dpmsolver has no third order. Use solver_order=2 or sde-dpmsolver++.")
        check_algorithm(type(self).__name__, algorithm, final_sigmas_type, prediction_type)
        self._prepare()

    @property
    def rounds_karras_timesteps(self) -> bool:  # type: ignore[override]
        return bool(self.config.beta_schedule != "squaredcos_cap_v2")

    @takes_step
    def step(self, at: Step, generator: Generators = None, variance_noise: Tensor | None = None) -> SchedulerOutput:
        output, noise = self._remember(at), None
        if self.config.algorithm_type.startswith("sde"):
            if variance_noise is None:
                variance_noise = draw_noise(output.shape, generator, output.device, torch.float32)
            noise = variance_noise.to(device=output.device, dtype=torch.float32)
        return SchedulerOutput(self._solve(at.index, at.sample.to(torch.float32), noise).to(output.dtype))


def check_algorithm(owner: str, algorithm: str, final_sigmas_type: str, prediction_type: str) -> None:
    """What integrates eps divides by sigma, so it cannot end at zero; and it has no flow form."""
    if algorithm.endswith("++"):
        return
    if final_sigmas_type == "zero":
        raise ConfigError(
            f"{owner}: {algorithm} cannot end at sigma 0. Use final_sigmas_type='sigma_min' or {algorithm}++."
        )
    if prediction_type == "flow_prediction":
        raise ConfigError(f"{owner}: {algorithm} has no flow_prediction. Use {algorithm}++.")
