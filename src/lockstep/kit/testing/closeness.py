"""How close is close, and models whose every tensor says something."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor, nn

TOLERANCE = 1e-5
Model = TypeVar("Model", bound=nn.Module)


def relative_l2(got: Tensor, wanted: Tensor) -> float:
    """||got - wanted|| / ||wanted|| in float64; refuses tensors of different shapes."""
    assert got.shape == wanted.shape, f"shapes differ: {tuple(got.shape)} and {tuple(wanted.shape)}"
    got, wanted = got.detach().double(), wanted.detach().double()
    return float((got - wanted).norm() / wanted.norm().clamp_min(1e-300))


def assert_close(got: Tensor, wanted: Tensor, tolerance: float = TOLERANCE, what: str = "output") -> None:
    """Fail with the number where two tensors are further apart than allowed."""
    error = relative_l2(got, wanted)
    assert error <= tolerance, f"{what}: relative L2 {error:.3g}, allowed {tolerance:.3g}"


def randomized(model: Model, seed: int | None = None) -> Model:
    """The model with every tensor random, so that no part is at its neutral start value; by a seed, or global."""
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim > 1:
                parameter.copy_(noise / max(parameter[0].numel(), 1) ** 0.5)
            else:
                parameter.copy_((1.0 if name.endswith("weight") else 0.0) + 0.1 * noise)
    return model.eval()
