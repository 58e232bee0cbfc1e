"""A schedule in another precision: its tables are made before the run, and still belong to the floor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import EulerDiscreteScheduler

from lockstep import parity as px
from parity.causes.test_classes import drawn, seeded
from parity.causes.test_own_loops import Velocity

BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
STEPS = 4


class Pipeline:
    def __init__(self):
        self.net = seeded(Velocity())
        self.scheduler = EulerDiscreteScheduler(**BETAS, use_karras_sigmas=True)

    @torch.no_grad()
    def __call__(self):
        self.scheduler.set_timesteps(STEPS)
        x = drawn(1, 4, 6, 8, seed=3) * self.scheduler.init_noise_sigma
        for t in self.scheduler.timesteps:
            noise = self.net(self.scheduler.scale_model_input(x, t), t.expand(1))
            x = self.scheduler.step(noise, t, x).prev_sample
        return x


class Loop:
    """The same in numpy, in float64."""

    def __init__(self, last_beta=0.012):
        self.model, self.last_beta = seeded(Velocity()), last_beta

    def sigmas(self):
        betas = np.linspace(0.00085**0.5, self.last_beta**0.5, 1000) ** 2
        kept = np.cumprod(1 - betas)
        every = ((1 - kept) / kept) ** 0.5
        first, last = every[-1] ** (1 / 7), every[0] ** (1 / 7)
        sigmas = (first + np.linspace(0, 1, STEPS) * (last - first)) ** 7
        return np.append(sigmas, 0), np.interp(np.log(sigmas), np.log(every), np.arange(1000))

    @torch.no_grad()
    def __call__(self):
        sigmas, times = self.sigmas()
        x = drawn(1, 4, 6, 8, seed=3) * float(sigmas[0])
        for i, t in enumerate(times):
            noise = self.model(x / float((sigmas[i] ** 2 + 1) ** 0.5), torch.full((1,), float(t)))
            x = x + float(sigmas[i + 1] - sigmas[i]) * noise
        return x


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    pipe, trace = Pipeline(), tmp_path_factory.mktemp("wide") / "a.trace"
    with px.record(pipe, trace):
        pipe()
    return pipe, trace, px.floor(pipe, trace, call=pipe)


def compared(reference, loop, folder):
    _, trace, floor = reference
    with px.record(loop, folder / "b.trace"):
        loop()
    return px.compare(trace, folder / "b.trace", floor=floor)


def test_the_same_schedule_in_float64_is_no_difference(reference, tmp_path):
    result = compared(reference, Loop(), tmp_path)
    assert result.verdict in ("PASS", "NOISE"), result.sentence()


def test_another_schedule_is_one(reference, tmp_path):
    result = compared(reference, Loop(last_beta=0.01201), tmp_path)
    assert result.verdict == "BUG", result.sentence()


def test_the_tables_are_given_back(reference):
    scheduler = reference[0].scheduler
    assert scheduler.alphas_cumprod.dtype is torch.float32
    assert torch.equal(scheduler.alphas_cumprod, EulerDiscreteScheduler(**BETAS).alphas_cumprod)
