"""The order of guidance's branches in a loop is told by what the loop makes of them, whatever else differs."""

from __future__ import annotations

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
