"""The random numbers of a training step, as functions of (seed, step) alone.

Nothing is carried from step to step, so a run that was killed draws after its resume exactly what it would have drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor


def generator_of(seed: int, step: int) -> torch.Generator:
    """The random numbers of one step."""
    return torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)


def draw_timesteps(count: int, num_train_timesteps: int, power: float, generator: torch.Generator) -> Tensor:
    """One timestep from each of `count` equal strata of u, t = u^power: below 1 leans to the noisy end."""
    u = (torch.arange(count) + torch.rand(count, generator=generator)) / count
    return (u**power * num_train_timesteps).long().clamp(max=num_train_timesteps - 1)
