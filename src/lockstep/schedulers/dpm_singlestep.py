"""DPM-Solver singlestep: groups of up to three calls that all start at the group's first sample (arXiv:2206.00927)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..configuration import register_to_config
from .betas import TrainedBetas
from .dpm_multistep import DPMSolverScheduler, check_algorithm
from .dpm_solver import Integrator
from .noise import Generators, draw_noise
from .template import SchedulerOutput, Step, takes_step


class DPMSolverSinglestepScheduler(DPMSolverScheduler):
    """Orders 1 to 3; the grid counts model calls, so that a group of order k takes k of its steps."""

    group_start: Tensor | None = None

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001, beta_end: float = 0.02,
        beta_schedule: str = "linear", trained_betas: TrainedBetas = None, solver_order: int = 2,
        prediction_type: str = "epsilon", thresholding: bool = False,
        dynamic_thresholding_ratio: float = 0.995, sample_max_value: float = 1.0,
        algorithm_type: str = "dpmsolver++", solver_type: str = "midpoint",
        lower_order_final: bool = False, use_karras_sigmas: bool | None = False,
        use_exponential_sigmas: bool | None = False, use_beta_sigmas: bool | None = False,
        use_flow_sigmas: bool | None = False, flow_shift: float = 1.0,
        final_sigmas_type: Literal["zero", "sigma_min"] = "zero",
        lambda_min_clipped: float = -float("inf"), variance_type: str | None = None,
        use_dynamic_shifting: bool = False, time_shift_type: Literal["exponential"] = "exponential",
    ) -> None:  # fmt: skip
        known = ("dpmsolver", "dpmsolver++", "sde-dpmsolver++")
        algorithm = self._rename_option("algorithm_type", known, ("deis",), "dpmsolver++")
        self._rename_option("solver_type", ("midpoint", "heun"), ("logrho", "bh1", "bh2"), "midpoint")
        self._check_order()
        check_algorithm(type(self).__name__, algorithm, final_sigmas_type, prediction_type)
        self._prepare()

    def _restart(self) -> None:
        super()._restart()
        self.group_start = None
        self.order_list = self.get_order_list(len(self.timesteps))

    def get_order_list(self, num_inference_steps: int) -> list[int]:
        """The order of each call: 1, 2, 3, 1, 2, 3 …; the last group is shorter where it has to be or should be."""
        order, ends_at_zero = self.config.solver_order, self.config.final_sigmas_type == "zero"
        orders = [1 + i % order for i in range(num_inference_steps)]
        if ends_at_zero or (self.config.lower_order_final and orders[-1] == order):
            orders[-1] = 1  # a higher order extrapolates, and lambda is infinite at zero
        return orders

    @takes_step
    def step(self, at: Step, generator: Generators = None) -> SchedulerOutput:
        output, noise = self._remember(at), None
        if self.config.algorithm_type.startswith("sde"):
            noise = draw_noise(output.shape, generator, output.device, output.dtype)
        order = min(self.order_list[at.index], len(self.history.outputs))  # a run can begin inside a group
        if order == 1 or self.group_start is None:
            self.group_start = at.sample
        return SchedulerOutput(self._solve(at.index, order, self.group_start, noise))

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
