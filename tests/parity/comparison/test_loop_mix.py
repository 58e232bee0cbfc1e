"""The order of guidance's branches in a loop is told by what the loop makes of them, whatever else differs."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from lockstep.parity.comparison.results import Verdict
from parity.causes.test_classes import diagnosed, drawn, seeded


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.text, self.last = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(6, 8), nn.Conv2d(8, 4, 1)

    def forward(self, x, timestep, context):
        told = self.text(context) + timestep[:, None]
        return self.last(torch.tanh(self.first(x) + told[:, :, None, None]))


class Sampler:
    """Guided steps; the condition may stand first in the batch, the last number may be wrong."""

    def __init__(self, first=False, taken=None, size=0.25):
        self.net, self.first, self.size = seeded(Net()), first, size
        self.taken = first if taken is None else taken

    @torch.no_grad()
    def __call__(self):
        x, both = drawn(1, 4, 6, 6, seed=3), [drawn(1, 6, seed=4), drawn(1, 6, seed=5)]
        for time in (0.9, 0.6, 0.3):
            given = torch.cat(both[::-1] if self.first else both)
            made = self.net(torch.cat([x, x]), torch.full((2,), time), given).chunk(2)
            plain, wanted = made[::-1] if self.taken else made
            x = x - self.size * (plain + 4.0 * (wanted - plain))
        return x


def found(folder, **settings):
    return diagnosed(folder, Sampler(), Sampler(**settings), lambda pipe: pipe(), evaluations=200)


def test_the_other_order_passes(tmp_path):
    assert found(tmp_path, first=True).verdict in (Verdict.PASS, Verdict.NOISE)


def test_the_other_order_is_no_cause_where_something_else_differs(tmp_path):
    result = found(tmp_path, first=True, size=0.3)
    assert result.verdict is Verdict.BUG, result.sentence()
    assert "0.3 instead of 0.25" in result.causes[0].why, result.sentence()


@pytest.mark.parametrize("order", [True, False])
def test_branches_taken_for_each_other_are_a_bug(tmp_path, order):
    assert found(tmp_path, first=order, taken=not order).verdict is Verdict.BUG


class Multistep:
    """Steps that remember the one before (DPM++ 2M), as torch computes them."""

    levels = (6.0, 2.5, 0.8, 0.2)

    def __init__(self):
        self.net = seeded(Net())

    def mixed(self, x, i):
        both = torch.cat([drawn(1, 6, seed=4), drawn(1, 6, seed=5)])
        plain, wanted = self.net(torch.cat([x, x]), torch.full((2,), self.levels[i] / 10), both).chunk(2)
        return x - self.levels[i] * (plain + 4.0 * (wanted - plain))

    @torch.no_grad()
    def __call__(self):
        levels, old = torch.tensor(self.levels), None
        x = drawn(1, 4, 6, 6, seed=3) * levels[0]
        for i in range(len(levels) - 1):
            made, (t, after) = self.mixed(x, i), -levels[i : i + 2].log()
            h, kept = after - t, made
            if old is not None:
                r = (t + levels[i - 1].log()) / h
                made = (1 + 1 / (2 * r)) * made - (1 / (2 * r)) * old
            x, old = (levels[i + 1] / levels[i]) * x - (-h).expm1() * made, kept
        return x


class Inverted(Multistep):
    """The condition first, its numbers in Python, and a ratio the wrong way round."""

    def mixed(self, x, i):
        both = torch.cat([drawn(1, 6, seed=5), drawn(1, 6, seed=4)])
        wanted, plain = self.net(torch.cat([x, x]), torch.full((2,), self.levels[i] / 10), both).chunk(2)
        return x - self.levels[i] * (plain + 4.0 * (wanted - plain))

    @torch.no_grad()
    def __call__(self):
        x, old = drawn(1, 4, 6, 6, seed=3) * self.levels[0], None
        for i in range(len(self.levels) - 1):
            made, share = self.mixed(x, i), self.levels[i + 1] / self.levels[i]
            told = made
            if old is not None:
                before = math.log(self.levels[i - 1] / self.levels[i])
                told = made + (made - old) / (2 * -math.log(share) / before)
            x, old = share * x + (1 - share) * told, made
        return x


def test_a_ratio_the_wrong_way_round_is_told_in_the_other_order_as_well(tmp_path):
    result = diagnosed(tmp_path, Multistep(), Inverted(), lambda pipe: pipe())
    assert "operands of `div` swapped" in result.causes[0].why, result.sentence()
