"""Muon: steps along the orthogonalised momentum of a matrix or a convolution.

The update of Jordan and others (2024), with the scale of Moonshot AI (arXiv:2502.16982): it has the size of an AdamW
step, so the same learning rates suit it. A singular value decomposition would be exact and slow; five steps of a
Newton-Schulz polynomial bring every singular value near one. The cost grows with the square of the smaller side: next
to nothing for the autoencoder's 32 channels, more than the whole backward pass for the UNet's 256 at a batch of 16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

QUINTIC = (3.4445, -4.7750, 2.0315)  # of the Newton-Schulz step; steepest at zero, so that small values rise fast
SMALLEST_SIDE = 8  # below it (a projection to RGB, a gain) there is little to make orthogonal


class Muon(torch.optim.Optimizer):
    """Orthogonalised Nesterov momentum; for parameters that `is_matrix` accepts."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                momentum = state.setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 1 - group["momentum"])
                ahead = parameter.grad.lerp(momentum, group["momentum"])
                direction = orthogonalised(ahead.flatten(1))
                scale = 0.2 * math.sqrt(max(direction.shape))  # the root mean square of a usual AdamW step
                parameter.add_(direction.reshape(parameter.shape), alpha=-group["lr"] * scale)


def is_matrix(parameter: Tensor) -> bool:
    """Whether a parameter is a matrix or a convolution large enough to be made orthogonal."""
    return parameter.ndim >= 2 and min(parameter.shape[0], parameter[0].numel()) >= SMALLEST_SIDE


def orthogonalised(matrix: Tensor, steps: int = 5) -> Tensor:
    """The matrix with its singular values brought to about one (0.7 to 1.2), its singular vectors kept."""
    if matrix.shape[0] > matrix.shape[1]:
        return orthogonalised(matrix.T, steps).T
    linear, cubic, quintic = QUINTIC
    value = matrix / (matrix.norm() + 1e-7)
    for _ in range(steps):
        gram = value @ value.T
        value = linear * value + (cubic * gram + quintic * gram @ gram) @ value
    return value
