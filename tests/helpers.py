"""Small things that many tests use."""

import pytest
import torch

slow = pytest.mark.slow


def relative_l2(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """||got - wanted|| / ||wanted|| in float64; refuses tensors of different shapes."""
    assert got.shape == wanted.shape, f"shapes differ: {tuple(got.shape)} and {tuple(wanted.shape)}"
    got, wanted = got.detach().double(), wanted.detach().double()
    return float((got - wanted).norm() / wanted.norm().clamp_min(1e-300))


def assert_close(got: torch.Tensor, wanted: torch.Tensor, tolerance: float = 1e-5, what: str = "output") -> None:
    error = relative_l2(got, wanted)
    assert error <= tolerance, f"{what}: relative L2 {error:.3g}, allowed {tolerance:.3g}"
