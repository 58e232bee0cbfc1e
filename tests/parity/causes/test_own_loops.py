"""Ports with a loop and a schedule of their own: no scheduler says where a step begins, what its time is, or that the
loop is over."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

STEPS, SCALE, SHIFT, MU = 4, 0.36, 0.12, 0.7


class Velocity(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.time, self.last = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(2, 8), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x, timestep):
        told = torch.stack([torch.sin(3 * timestep), torch.cos(3 * timestep)], dim=-1)
        return self.last(torch.tanh(self.first(x) + self.time(told)[:, :, None, None]))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle, self.last = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 3, 1)

    def decode(self, z):
        return self.last(torch.relu(self.middle(z)))


class FlowScheduler:
    config = {"shift": 1.0, "base_shift": 0.5, "max_shift": 1.15}

    def set_timesteps(self, count, mu):
        t = torch.linspace(1, 1 / count, count)
        t = math.exp(mu) / (math.exp(mu) + (1 / t - 1))
        self.sigmas, self.timesteps = torch.cat([t, torch.zeros(1)]), 1000 * t

    def step(self, velocity, i, sample):
        return sample + (self.sigmas[i + 1] - self.sigmas[i]) * velocity


class Pipeline:
    def __init__(self):
        self.net, self.vae, self.scheduler = seeded(Velocity()), seeded(Decoder()), FlowScheduler()

    @torch.no_grad()
    def __call__(self, seed):
        x = drawn(1, 4, 6, 8, seed=seed)
        self.scheduler.set_timesteps(STEPS, MU)
        for i, t in enumerate(self.scheduler.timesteps):
            x = self.scheduler.step(self.net(x, t.expand(1) / 1000), i, x)
        return self.vae.decode(x / SCALE + SHIFT)


class Sampler:
    def __init__(self, fault=""):
        self.model, self.ae, self.fault = seeded(Velocity()), seeded(Decoder()), fault

    def times(self):
        mu = MU + (0.4 if self.fault == "mu" else 0)
        return [math.exp(mu) / (math.exp(mu) + 1 / (1 - i / STEPS) - 1) for i in range(STEPS)] + [0.0]

    @torch.no_grad()
    def __call__(self, seed):
        x, times = drawn(1, 4, 6, 8, seed=seed), self.times()
        for now, after in itertools.pairwise(times):
            told = after if self.fault == "next" else now
            x = x + (after - now) * self.model(x, torch.full((1,), told))
        return self.ae.decode((x + SHIFT) / SCALE if self.fault == "order" else x / SCALE + SHIFT)


def found(folder, fault):
    return diagnosed(folder, Pipeline(), Sampler(fault), lambda pipe: pipe(seed=3), evaluations=600)


def test_the_right_loop_is_compared_to_its_end(tmp_path):
    result = found(tmp_path, "")
    assert result.verdict in ("PASS", "NOISE"), result.sentence()
    compared = {str(node.key) for node in result.nodes}
    assert "-|@pipeline|out" in compared
    assert "-|vae.decode|in.z" in compared


@pytest.mark.parametrize(
    ("fault", "at", "name", "words"),
    [
        ("order", "-|vae.decode|in.z", "order_exchanged", "+ 0.12) / 0.36)"),
        ("next", "denoise:00|net|in.timestep", "step_offset", "the value of the next step"),
        ("mu", "denoise:01|net|in.x", "shift", "are shifted by 3.0042 instead of 2.0138"),
    ],
)
def test_what_is_wrong_in_a_loop_of_its_own(tmp_path, fault, at, name, words):
    result = found(tmp_path, fault)
    first = result.causes[0]
    assert str(result.first.key) == at, result.sentence()
    assert (first.name, first.standing) == (name, Standing.PROVEN), first.why
    assert words in first.why, first.why
