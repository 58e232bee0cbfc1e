"""Averages, learning rates and the optimizer's state."""

import itertools

import pytest
import torch
from torch import nn

from lockstep.errors import NonFiniteError
from lockstep.training.settings import OptimizerSettings
from lockstep.training.trainee import Trainee, average_into, learning_rate_at

SETTINGS = OptimizerSettings(learning_rate=0.1, warmup_steps=4, ema_limit=0.5, weight_decay=0.0)


def test_the_average_follows_its_formula():
    module = nn.Linear(3, 2)
    trainee = Trainee({"module": module}, SETTINGS)
    expected = module.weight.detach().clone()
    for step in range(1, 5):
        trainee.learn(module(torch.ones(1, 3)).square().sum(), 0.1)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * module.weight.detach()
        torch.testing.assert_close(trainee.averaged["module"].weight, expected)
    assert not torch.equal(expected, module.weight)


def test_average_into_keeps_the_ends():
    for decay, wanted in ((1.0, 2.0), (0.0, 6.0), (0.75, 3.0)):
        average = torch.full((4,), 2.0)
        average_into([average], [torch.full((4,), 6.0)], decay)
        torch.testing.assert_close(average, torch.full((4,), wanted))


def test_learning_rate_warms_up_stays_and_falls_when_told():
    constant = [learning_rate_at(step, SETTINGS, None, 0) for step in range(200)]
    assert constant[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    assert set(constant[4:]) == {0.1}
    falling = [learning_rate_at(step, SETTINGS, 100, 50) for step in range(160)]
    assert falling[:100] == constant[:100]
    assert falling[100] == pytest.approx(0.1)
    assert falling[125] == pytest.approx(0.1 * (0.02 + 0.98 / 2))
    assert falling[150] == falling[159] == pytest.approx(0.002)
    assert all(a > b for a, b in itertools.pairwise(falling[100:151]))


def test_restoring_keeps_channels_last_parameters_and_moments_together():
    """Moments are stored in logical order; the fused optimizer walks memory,
    so they must come back in the weights' order."""

    def fresh():
        torch.manual_seed(3)
        return Trainee({"conv": nn.Conv2d(4, 6, 3).to(memory_format=torch.channels_last)}, SETTINGS)

    def learn(trainee, seed):
        image = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(seed))
        trainee.learn(trainee.modules["conv"](image).square().mean(), 0.1)

    whole = fresh()
    learn(whole, 0)
    resumed = fresh()
    resumed.restore({name: value.clone().contiguous() for name, value in whole.tensors().items()}, whole.step)
    learn(whole, 1)
    learn(resumed, 1)
    assert torch.equal(whole.modules["conv"].weight, resumed.modules["conv"].weight)


def test_a_loss_that_is_not_finite_stops_the_run():
    module = nn.Linear(1, 1)
    with pytest.raises(NonFiniteError, match="step 0"):
        Trainee({"module": module}, SETTINGS).learn(module(torch.tensor([[float("inf")]])).sum(), 0.1)
