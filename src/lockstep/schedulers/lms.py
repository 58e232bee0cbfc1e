"""Linear multistep in sigma (k-diffusion's LMS): the last slopes as a polynomial, integrated exactly over the step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from ..configuration import register_to_config
from .betas import TrainedBetas
from .noise import Generators
from .predictions import predicted_denoised
from .sigma_grid import with_final
from .sigma_space import SigmaSpaceScheduler
from .template import Grid, SchedulerOutput, Step, lays_grid, takes_step


@dataclass
class SlopeHistory:
    """The slopes of the last steps, newest last."""

    slopes: list[Tensor] = field(default_factory=list)


class LMSDiscreteScheduler(SigmaSpaceScheduler):
    """Adams-Bashforth on an uneven grid, of order four by default."""

    history = SlopeHistory()

    @register_to_config
    def __init__(
        self, num_train_timesteps: int = 1000, beta_start: float = 0.0001,
        beta_end: float = 0.02, beta_schedule: str = "linear",
        trained_betas: TrainedBetas = None, use_karras_sigmas: bool = False,
        use_exponential_sigmas: bool = False, use_beta_sigmas: bool = False,
        prediction_type: str = "epsilon", timestep_spacing: str = "linspace",
        steps_offset: int = 0,
    ) -> None:  # fmt: skip
        self._build_training_noise()
        self.set_timesteps(num_train_timesteps)

    @lays_grid
    def set_timesteps(self, num_inference_steps: int | None = None) -> Grid:
        grid, sigma_grid = self._sigma_grid(num_inference_steps)
        return Grid(grid.astype(np.float32), with_final(sigma_grid))

    @takes_step
    def step(self, at: Step, order: int = 4, *, generator: Generators = None) -> SchedulerOutput:
        sigma = self.sigmas[at.index]
        denoised = predicted_denoised(self.config.prediction_type, at.output, at.sample, sigma)
        derivative = (at.sample - denoised) / sigma
        self.history.slopes = [*self.history.slopes, derivative][-order:]

        # A run begun at a later index has fewer slopes than weights: the missing ones count as zero, as files expect.
        weights = lms_weights(self.sigmas.double().numpy(), at.index, min(at.index + 1, order))
        pairs = zip(weights, reversed(self.history.slopes), strict=False)
        return SchedulerOutput(at.sample + sum(weight * slope for weight, slope in pairs), denoised)


def lms_weights(sigmas: np.ndarray, index: int, order: int) -> list[float]:
    """The integrals of the Lagrange polynomials through the last `order` sigmas, from this sigma to the next.

    Gauss-Legendre with as many points as there are slopes is exact for them.
    """
    start, end = sigmas[index], sigmas[index + 1]
    nodes = sigmas[index - np.arange(order)]
    points, point_weights = np.polynomial.legendre.leggauss(order)
    points = start + (end - start) * (points + 1) / 2
    weights = []
    for k in range(order):
        others = np.delete(nodes, k)
        basis = np.prod((points[:, None] - others) / (nodes[k] - others), axis=1)
        weights.append(float((end - start) / 2 * (basis @ point_weights)))
    return weights
