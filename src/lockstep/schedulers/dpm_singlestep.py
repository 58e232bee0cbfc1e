"""DPM-Solver singlestep: steps in groups of up to three calls that all start at the group's first sample (arXiv:2206.00927)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..configuration import register_to_config
from .dpm_multistep import check_algorithm
from .dpm_solver import Integrator
from .log_snr import LogSNRScheduler
from .noise import Generators, draw_noise
from .scheduling import SchedulerOutput, on_device
from .sigma_grid import with_final
from .sigmas import training_sigmas
from .spacing import check_num_steps, explicit_grid


class DPMSolverSinglestepScheduler(LogSNRScheduler):
    """Orders 1 to 3; the grid counts model calls, so that a group of order k takes k of its steps."""

    group_start: Tensor | None = None

    @register_to_config
    def __init__(
        self,
        num_train_timesteps: int = 1000,
        beta_start: float = 0.0001,
        beta_end: float = 0.02,
        beta_schedule: str = "linear",
        trained_betas: np.ndarray | list[float] | None = None,
        solver_order: int = 2,
        prediction_type: str = "epsilon",
        thresholding: bool = False,
        dynamic_thresholding_ratio: float = 0.995,
        sample_max_value: float = 1.0,
        algorithm_type: str = "dpmsolver++",
        solver_type: str = "midpoint",
        lower_order_final: bool = False,
        use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False,
        use_beta_sigmas: bool | None = False,
        use_flow_sigmas: bool | None = False,
        flow_shift: float = 1.0,
        final_sigmas_type: Literal["zero", "sigma_min"] = "zero",
        lambda_min_clipped: float = -float("inf"),
        variance_type: Literal["learned", "learned_range"] | None = None,
        use_dynamic_shifting: bool = False,
        time_shift_type: Literal["exponential"] = "exponential",
    ) -> None:
        known = ("dpmsolver", "dpmsolver++", "sde-dpmsolver++")
        algorithm = self._rename_option("algorithm_type", known, ("deis",), "dpmsolver++")
        self._rename_option("solver_type", ("midpoint", "heun"), ("logrho", "bh1", "bh2"), "midpoint")
        self._check_order()
        check_algorithm(type(self).__name__, algorithm, final_sigmas_type, prediction_type)
        self._prepare()
        self.order_list = self.get_order_list(num_train_timesteps)

    def _restart(self) -> None:
        super()._restart()
        self.group_start = None

    def set_timesteps(
        self,
        num_inference_steps: int | None = None,
        device: str | torch.device | None = None,
        mu: float | None = None,
        *,
        timesteps: Sequence[float] | None = None,
        sigmas: Sequence[float] | None = None,
    ) -> None:
        self._refuse_custom_grid(sigmas=sigmas)
        self._refuse_two_grids(num_inference_steps, timesteps)
        self._refuse_timesteps_with_own_grid(timesteps)
        if timesteps is None:
            spaced = self._spaced(check_num_steps(num_inference_steps), last=self._unclipped_timesteps())
        else:
            spaced = explicit_grid("timesteps", timesteps, np.int64)
        grid, sigma_grid = self._sigma_grid(spaced, self._flow_shift(mu))
        lowest = training_sigmas(self.alphas_cumprod)[0]
        self.sigmas = with_final(sigma_grid, 0.0 if self.config.final_sigmas_type == "zero" else lowest)
        self.order_list = self.get_order_list(len(grid))
        self._begin_grid(on_device(grid, device, torch.int64), len(grid))

    def get_order_list(self, num_inference_steps: int) -> list[int]:
        """The order of each call: 1, 2, 3, 1, 2, 3 …; the last group is shorter where it has to be or should be."""
        order, ends_at_zero = self.config.solver_order, self.config.final_sigmas_type == "zero"
        orders = [1 + i % order for i in range(num_inference_steps)]
        if ends_at_zero or (self.config.lower_order_final and orders[-1] == order):
            orders[-1] = 1  # a higher order extrapolates, and lambda is infinite at zero
        return orders

    def step(
        self,
        model_output: Tensor,
        timestep: int | Tensor,
        sample: Tensor,
        generator: Generators = None,
        return_dict: bool = True,
    ) -> SchedulerOutput | tuple[Tensor, ...]:
        self._require_timesteps_set()
        index, algorithm = self._enter_step(model_output, timestep, sample), self.config.algorithm_type
        output = self.convert_model_output(model_output, sample, to_noise=not algorithm.endswith("++"))
        self.history.push(output, keep=self.config.solver_order)
        noise = None
        if algorithm.startswith("sde"):
            noise = draw_noise(output.shape, generator, output.device, output.dtype)
        order = min(self.order_list[index], len(self.history.outputs))  # a run can begin inside a group
        if order == 1 or self.group_start is None:
            self.group_start = sample
        previous_sample = self._solve(index, order, self.group_start, noise)
        self._step_index = index + 1
        return SchedulerOutput(previous_sample) if return_dict else (previous_sample,)

    def _solve(self, index: int, order: int, sample: Tensor, noise: Tensor | None) -> Tensor:
        start = self._level(self.sigmas[index - order + 1])
        integrator = Integrator(self.config.algorithm_type, start, self._level(self.sigmas[index + 1]))
        midpoint = self.config.solver_type == "midpoint"
        outputs = self.history.outputs[-order:]
        if order == 1:
            return integrator.step(sample, outputs[0], noise=noise)

        r0 = (self._level(self.sigmas[index]).log_snr - start.log_snr) / integrator.h
        slope = 1.0 / r0 * (outputs[-1] - outputs[0])
        if order == 2:
            return integrator.step(sample, outputs[0], slope, noise=noise, midpoint=midpoint)
        if midpoint:
            return integrator.step(sample, outputs[0], slope, noise=noise)

        r1 = (self._level(self.sigmas[index - 1]).log_snr - start.log_snr) / integrator.h
        slope_to_middle = 1.0 / r1 * (outputs[1] - outputs[0])
        slope_here = (r0 * slope_to_middle - r1 * slope) / (r0 - r1)
        curvature = 2.0 * (slope - slope_to_middle) / (r0 - r1)
        return integrator.step(sample, outputs[0], slope_here, curvature, noise=noise)
