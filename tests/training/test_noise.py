"""Timesteps, and where the noise comes from."""

import pytest
import torch

from lockstep.training.noise import draw_timesteps, generator_of
from lockstep.training.sampling import initial_noise


def test_timesteps_lean_to_the_noisy_end():
    steps = torch.cat([draw_timesteps(32, 1000, 0.7, generator_of(0, step)) for step in range(200)])
    assert steps.min() >= 0
    assert steps.max() <= 999
    # t = u^p has the mean 1 / (1 + p)
    assert steps.float().mean().item() == pytest.approx(1000 / 1.7, rel=0.01)
    even = torch.cat([draw_timesteps(32, 1000, 1.0, generator_of(0, step)) for step in range(200)])
    assert even.float().mean().item() == pytest.approx(500, rel=0.01)


def test_a_picture_does_not_depend_on_its_neighbours():
    many, few = initial_noise(5, (4, 2, 2), seed=3), initial_noise(2, (4, 2, 2), seed=3)
    assert torch.equal(many[:2], few)
    assert not torch.equal(many[0], many[1])
