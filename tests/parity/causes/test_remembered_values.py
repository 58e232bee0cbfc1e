"""What a loop keeps from one step to the next: the wrong value, whether a scheduler keeps it or a local variable; and
tables of a loop that numpy makes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded
from parity.causes.test_own_loops import Velocity

STEPS, SHIFT = 5, 3.0


class TwoSteps:
    """A flow in steps of the second order, which remembers what it made of the last velocity."""

    def set_timesteps(self, count):
        sigmas = np.linspace(1, 1 / count, count)
        sigmas = np.append(SHIFT * sigmas / (1 + (SHIFT - 1) * sigmas), 0.0)
        self.sigmas = torch.from_numpy(sigmas).float()
        self.timesteps, self.before, self.place = self.sigmas[:-1], None, 0

    def clean(self, velocity, sample):
        return sample - self.sigmas[self.place] * velocity

    def moved(self, clean, sample):
        now, after = self.sigmas[self.place], self.sigmas[self.place + 1]
        towards = clean if self.before is None else 1.5 * clean - 0.5 * self.before
        return after / now * sample + (1 - after / now) * towards

    def step(self, velocity, t, sample):
        clean = self.clean(velocity, sample)
        result = self.moved(clean, sample)
        self.before = clean
        self.place += 1
        return result


class KeepsTheSample(TwoSteps):
    def step(self, velocity, t, sample):
        clean = self.clean(velocity, sample)
        result = self.moved(clean, sample)
        self.before = result
        self.place += 1
        return result


class KeepsItTooEarly(TwoSteps):
    def step(self, velocity, t, sample):
        clean = self.clean(velocity, sample)
        self.before = None if self.before is None else clean
        result = self.moved(clean, sample)
        self.before = clean
        self.place += 1
        return result


class KeepsTheSampleByHelpers(KeepsTheSample):
    def clean(self, velocity, sample):
        return super().clean(velocity, self.read(sample))

    def read(self, sample):
        return sample


class MakesItOtherwise(TwoSteps):
    def clean(self, velocity, sample):
        return sample - 1.1 * self.sigmas[self.place] * velocity


class Pipeline:
    def __init__(self, scheduler=None):
        self.net, self.scheduler = seeded(Velocity()), scheduler or TwoSteps()

    @torch.no_grad()
    def __call__(self, seed):
        x = drawn(1, 4, 6, 8, seed=seed)
        self.scheduler.set_timesteps(STEPS)
        for t in self.scheduler.timesteps:
            x = self.scheduler.step(self.net(x, t.expand(1)), t, x)
        return x


class Sampler:
    """The same without a scheduler."""

    def __init__(self, fault=""):
        self.model, self.fault = seeded(Velocity()), fault

    def times(self):
        table = np.linspace(1, 0.1 if self.fault == "end" else 1 / STEPS, STEPS)
        for _ in range(2 if self.fault == "twice" else 1):
            table = SHIFT * table / (1 + (SHIFT - 1) * table)
        return np.append(table, 1e-3 if self.fault == "terminal" else 0.0)

    @torch.no_grad()
    def __call__(self, seed):
        x, old = drawn(1, 4, 6, 8, seed=seed), None
        for now, after in itertools.pairwise(self.times()):
            share, level = float(after / now), float(now)
            velocity = self.model(x, torch.full((1,), level))
            denoised = x - level * velocity
            aim = denoised if old is None else denoised + (denoised - old) / 2
            x = share * x + (1 - share) * aim
            old = {"velocity": velocity, "aim": aim, "moved": x}.get(self.fault, denoised)
        return x


def found(folder, candidate, evaluations=600):
    return diagnosed(folder, Pipeline(), candidate, lambda pipe: pipe(seed=3), evaluations=evaluations)


def is_told(result, name, *words):
    first = result.causes[0]
    assert result.verdict == "BUG", result.sentence()
    assert (first.name, first.standing) == (name, Standing.PROVEN), first.why
    assert all(word in f"{first.why} {first.fix}" for word in words), (first.why, first.fix)
    assert result.explained is None or result.explained.verdict in ("PASS", "NOISE")


def test_a_loop_of_its_own_that_is_right(tmp_path):
    result = found(tmp_path, Sampler())
    assert result.verdict in ("PASS", "NOISE"), result.sentence()


@pytest.mark.parametrize(("fault", "wrong"), [("velocity", "velocity"), ("aim", "aim"), ("moved", "x")])
def test_a_variable_that_keeps_the_wrong_value(tmp_path, fault, wrong):
    result = found(tmp_path, Sampler(fault))
    is_told(result, "remembered_value", f"what is remembered as `old` is `{wrong}`", "not `denoised`")


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        (KeepsTheSample, ("is `x`", "not `clean`")),
        (KeepsTheSampleByHelpers, ("is `x`", "not `clean`")),
        (KeepsItTooEarly, ("`self.before = None if self.before is None else clean`", "is too much")),
    ],
)
def test_a_scheduler_that_keeps_the_wrong_value(tmp_path, scheduler, words):
    result = found(tmp_path, Pipeline(scheduler()))
    is_told(result, "remembered_value", "`scheduler.before`", "test_remembered_values.py", *words)


def test_what_is_made_otherwise_is_not_remembered_otherwise(tmp_path):
    result = found(tmp_path, Pipeline(MakesItOtherwise()), evaluations=100)
    assert result.verdict == "BUG", result.sentence()
    assert "remembered_value" not in [c.name for c in result.causes if c.standing is Standing.PROVEN]


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        ("twice", "shift", "shifted by 9 (its square: done twice) instead of 3"),
        ("end", "schedule_table", "it runs evenly from 1 to 0.1 instead of from 1 to 0.2"),
        (
            "terminal",
            "schedule_table",
            "is not the reference's table: only its last number is wrong",
        ),
    ],
)
def test_a_table_that_numpy_makes(tmp_path, fault, name, words):
    is_told(found(tmp_path, Sampler(fault)), name, words)


class Levels:
    """A loop along what is left of the signal, which its object keeps."""

    def __init__(self, moved):
        self.net = seeded(Velocity())
        self.kept = np.cumprod(1 - np.linspace(0.02, 0.2, 12))
        if moved:
            self.kept = np.append(1.0, self.kept)[:-1]

    @torch.no_grad()
    def __call__(self, seed):
        x = drawn(1, 4, 6, 8, seed=seed)
        for t in (10, 7, 4):
            now, before = float(self.kept[t]), float(self.kept[t - 3])
            noise = self.net(x, torch.full((1,), t / 10))
            clean = (x - (1 - now) ** 0.5 * noise) / now**0.5
            x = before**0.5 * clean + (1 - before) ** 0.5 * noise
        return x


def test_a_table_that_an_object_keeps_is_its_own_again_after_the_search(tmp_path):
    candidate = Levels(moved=True)
    before = candidate.kept.copy()
    result = diagnosed(tmp_path, Levels(moved=False), candidate, lambda pipe: pipe(seed=3), evaluations=600)
    is_told(result, "schedule_table", "`self.kept` in `__init__`", "every number is that of the place before it")
    assert (candidate.kept == before).all()


def test_too_many_numbers_end_no_search(tmp_path, monkeypatch):
    monkeypatch.setattr("lockstep.parity.causes.observed.graph.MOST_ELEMENTS", 100)
    result = found(tmp_path, Sampler("velocity"), evaluations=100)
    assert result.verdict == "BUG", result.sentence()
    assert result.causes[0].standing is not Standing.PROVEN
