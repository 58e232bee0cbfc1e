"""A loop of its own that takes its numbers from a table as plain numbers: which entry it took is told."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

COUNT, STEPS = 100, 4
STRIDE = COUNT // STEPS


def table():
    return np.cumprod(1 - np.linspace(0.01, 0.05, COUNT))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, sample, timestep):
        return self.last(torch.tanh(self.first(sample) + torch.as_tensor(timestep) / COUNT))


class Scheduler:
    """What is left of the signal, and which setting says what there is at the end."""

    config = {"set_alpha_to_one": False, "clip_sample": False}

    def __init__(self):
        self.left = torch.tensor(table(), dtype=torch.float32)
        self.last = self.left[0]

    def set_timesteps(self, count):
        self.timesteps = torch.arange(count).flip(0) * STRIDE

    def step(self, noise, t, sample):
        now, then = self.left[t], self.left[t - STRIDE] if t >= STRIDE else self.last
        clean = (sample - (1 - now) ** 0.5 * noise) / now**0.5
        return then**0.5 * clean + (1 - then) ** 0.5 * noise


class Pipeline:
    def __init__(self):
        self.net, self.scheduler = seeded(Net()), Scheduler()

    @torch.no_grad()
    def __call__(self):
        x = drawn(4, 6)
        self.scheduler.set_timesteps(STEPS)
        for t in self.scheduler.timesteps:
            x = self.scheduler.step(self.net(x, t), t, x)
        return x


class Loop:
    def __init__(self):
        self.net = seeded(Net())

    @torch.no_grad()
    def __call__(self):
        x, left = drawn(4, 6), table()
        for t in range(COUNT - STRIDE, -1, -STRIDE):
            now, then = float(left[t]), float(left[t - STRIDE + 1]) if t >= STRIDE else float(left[0])
            noise = self.net(x, torch.tensor(t))
            clean = (x - (1 - now) ** 0.5 * noise) / now**0.5
            x = then**0.5 * clean + (1 - then) ** 0.5 * noise
        return x


def test_the_entry_behind_the_right_one(tmp_path):
    result = diagnosed(tmp_path, Pipeline(), Loop(), lambda pipe: pipe(), evaluations=200)
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "entry 51 of a table of 100 instead of the root of entry 50" in cause.why, cause.why
    assert "test_table_entries.py:" in cause.fix, cause.fix
    assert "alpha_to_one" not in cause.why, cause.why
