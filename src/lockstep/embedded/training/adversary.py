"""A critic that tells drawn pictures from decoded ones, and the terms by which a decoder learns from it.

Absolute and squared errors are least for an edge that is as soft as the decoder is unsure of its place; the critic has
never seen a soft edge in a drawing and says so (the hinge loss of arXiv:1705.02894, patch by patch as in
arXiv:1611.07004).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

WIDTHS = (24, 48, 96)


class Critic(nn.Sequential):
    """Pictures to one opinion for every patch of about 30 pixels."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        before = 3
        for width in WIDTHS:
            layers += [nn.Conv2d(before, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
            before = width
        super().__init__(*layers, nn.Conv2d(before, 1, 3, padding=1))


def critic_loss(critic: nn.Module, decoded: Tensor, pixels: Tensor) -> Tensor:
    """What the critic learns: above 1 for drawings, below -1 for decoded pictures."""
    return F.relu(1 - critic(pixels)).mean() + F.relu(1 + critic(decoded.detach())).mean()


def deceiving_loss(critic: nn.Module, decoded: Tensor) -> Tensor:
    """What the decoder learns from the critic, which is left as it is."""
    fixed = {name: value.detach() for name, value in critic.named_parameters()}
    return -functional_call(critic, fixed, (decoded,)).mean()


def new_critic(seed: int) -> Critic:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Critic().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
