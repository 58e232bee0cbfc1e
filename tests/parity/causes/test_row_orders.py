"""Rows that are repeated in another order, as several pictures for each prompt are: no cache, and it has a line."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

PROMPTS, PICTURES = 2, 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.text, self.last = nn.Linear(6, 16), nn.Linear(5, 16), nn.Linear(16, 6)

    def forward(self, sample, text):
        return self.last(torch.tanh(self.first(sample) + self.text(text)))


class Pipeline:
    def __init__(self):
        self.net = seeded(Net())

    def latents(self):
        return drawn(PICTURES, 6).repeat(PROMPTS, 1)

    @torch.no_grad()
    def __call__(self):
        x, text = self.latents(), drawn(PROMPTS, 5, seed=2).repeat_interleave(PICTURES, 0)
        for _ in range(3):
            x = x - 0.3 * self.net(x, text)
        return x


class SideBySide(Pipeline):
    def latents(self):
        return drawn(PICTURES, 6).repeat_interleave(PROMPTS, 0)


def test_latents_side_by_side(tmp_path):
    result = diagnosed(tmp_path, Pipeline(), SideBySide(), lambda pipe: pipe(), evaluations=60)
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "repeat_interleave" in cause.why, cause.why
    assert "cache" not in cause.fix, cause.fix
    assert "test_row_orders.py:" in cause.fix, cause.fix
