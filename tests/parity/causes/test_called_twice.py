"""A model that a pipeline calls for two things before it takes both: each of its results is its own."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(12, 8)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.state, self.told = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, timestep, context):
        return torch.tanh(self.state(x) + self.told(context).mean(1) + timestep[:, None])


class Pipeline:
    """Prompt and empty prompt are encoded one behind the other, and taken together."""

    def __init__(self):
        self.text, self.net = seeded(Text()), seeded(Net())

    def told(self, x):
        return self.text(x).repeat(1, 1, 1)

    @torch.no_grad()
    def __call__(self):
        wanted = self.told(drawn(1, 5, 6, seed=4))
        plain = self.text(drawn(1, 5, 6, seed=5)).repeat(1, 1, 1)
        x, both = drawn(1, 8, seed=3), torch.cat([plain, wanted])
        for time in (0.9, 0.6, 0.3):
            left, right = self.net(torch.cat([x, x]), torch.full((2,), time), both).chunk(2)
            x = x - 0.25 * (left + 4.0 * (right - left))
        return x


class Turned(Pipeline):
    def told(self, x):
        return torch.flip(self.text(x), [1]) + 1


def test_the_first_result_is_still_the_first_when_both_are_taken(tmp_path):
    result = diagnosed(tmp_path, Pipeline(), Turned(), lambda pipe: pipe(), evaluations=300)
    first = result.causes[0]
    assert first.standing is Standing.PROVEN, first.why
    assert "`(flip(text(…), [1]) + 1)`" in first.why, first.why
    assert "instead of `text(…)`" in first.why, first.why


class Blocks(nn.Module):
    def __init__(self, order=(0, 1)):
        super().__init__()
        self.blocks, self.order = nn.ModuleList(Part() for _ in range(2)), order

    def forward(self, x):
        for which in self.order:
            x = self.blocks[which](x)
        return x


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.proj = nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, x):
        return x + torch.tanh(self.proj(self.norm(x)))


def test_another_block_that_is_called_is_told_by_its_name(tmp_path):
    result = diagnosed(tmp_path, seeded(Blocks()), seeded(Blocks((1, 1))), lambda m: m(drawn(2, 5, 6)))
    first = result.causes[0]
    assert first.standing is Standing.PROVEN, first.why
    assert "`model.blocks.1` is called in the place of `model.blocks.0`" in first.why, first.why
