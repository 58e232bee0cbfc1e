"""How sharp contours are, as a number and as a loss."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

WINDOW = 4  # pixels: an edge may lie a little beside its place, but not be softer
SMALLEST = 1e-4


def gradient_energy(pictures: Tensor) -> Tensor:
    """The squared difference to the neighbours on the left and above, summed over the colours [N, 1, H - 1, W - 1]."""
    across = pictures[..., 1:, 1:] - pictures[..., 1:, :-1]
    down = pictures[..., 1:, 1:] - pictures[..., :-1, 1:]
    return (across.square() + down.square()).sum(1, keepdim=True)


def edge_loss(output: Tensor, pixels: Tensor) -> Tensor:
    """How far the root mean square gradient of each small window is from the true picture's.

    A soft edge has the same sum of differences as a sharp one and less energy: squares tell them apart.
    """
    strengths = [(F.avg_pool2d(gradient_energy(p), WINDOW) + SMALLEST).sqrt() for p in (output, pixels)]
    return (strengths[0] - strengths[1]).abs().mean()


def edge_strength(pictures: Tensor, share: float = 0.05) -> Tensor:
    """The mean of the strongest gradients of each picture: how sharp its contours are."""
    size = gradient_energy(pictures).sqrt().flatten(1)
    return size.topk(max(1, int(share * size.shape[1]))).values.mean(1)
