"""How much of what a model sees is picture and how much is noise, at a timestep: for every scheduler alike."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from .predictions import predicted_original
from .scheduling import DIFFUSION, FLOW, SchedulerMixin


class ModelLevel:
    """What the model sees at a timestep is alpha·x0 + sigma·eps; its output and x0 say the same in two ways."""

    def __init__(self, kind: str, alpha: float, sigma: float) -> None:
        self.kind, self.alpha, self.sigma = kind, alpha, sigma

    @classmethod
    def at(cls, scheduler: SchedulerMixin, timestep: float | Tensor) -> ModelLevel | None:
        """That of a scheduler's models; None for models that are trained in other ways."""
        t, trained = float(timestep), scheduler.config.get("num_train_timesteps", 0)
        if scheduler.trained_for == FLOW and not scheduler.config.get("invert_sigmas"):
            return cls("flow_prediction", 1 - t / trained, t / trained)
        noise = getattr(scheduler, "alphas_cumprod", None)
        if scheduler.trained_for != DIFFUSION or noise is None:
            return None
        alpha_bar = float(np.interp(t, np.arange(len(noise)), noise.double().cpu().numpy()))
        return cls(scheduler.config.prediction_type, alpha_bar**0.5, (1 - alpha_bar) ** 0.5)

    def original(self, output: Tensor, seen: Tensor) -> Tensor:
        """The x0 that an output implies."""
        return predicted_original(self.kind, output, seen, self.alpha, self.sigma)

    def output(self, original: Tensor, seen: Tensor) -> Tensor:
        """The output that implies this x0."""
        if self.kind == "sample":
            return original
        if self.kind == "v_prediction":
            return (self.alpha * seen - original) / self.sigma
        alpha = 1.0 if self.kind == "flow_prediction" else self.alpha
        return (seen - alpha * original) / self.sigma
