"""What goes wrong between the models of a pipeline: caches, rows, schedules, draws, orders of a solver."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from lockstep import parity as px
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.causes.schedule_tables import shifted, table_causes
from lockstep.parity.causes.value_tests import draw_findings
from lockstep.parity.causes.whole_run import WholeRun
from lockstep.parity.comparison.results import Standing
from parity import ported
from parity.ported import NEGATIVE, POSITIVE, Port


def diagnosed(folder, candidate, reference=None, **options):
    reference = reference or ported.Pipeline()
    for pipeline, path in ((reference, "a.trace"), (candidate, "b.trace")):
        with px.record(pipeline, folder / path, level="module+ops", keep="full"):
            pipeline()
    floor = px.floor(reference, folder / "a.trace", call=reference, runs=("ulp", "ulp"))
    result = px.compare(folder / "a.trace", folder / "b.trace", floor=floor)
    assert result.verdict == "BUG", result.sentence()
    sides = Live(reference, reference), Live(candidate, candidate)
    diagnose(result, reference=sides[0], candidate=sides[1], floor=floor, **options)
    return result


def is_proven(result, name, *words):
    cause = result.causes[0]
    assert (cause.name, cause.standing) == (name, Standing.PROVEN), cause.why
    for word in words:
        assert word in cause.why, cause.why


class KeptTime(Port):
    """The time of the first step for all of them."""

    class Model(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model, self.kept = model, {}

        def forward(self, x, t, context):
            if len(x) not in self.kept:
                self.kept[len(x)] = self.model.embedded(t, len(x))
            return self.model.body(x, self.kept[len(x)], context)

    def __init__(self):
        super().__init__()
        self.denoiser = self.Model(self.denoiser)

    def encoded(self):
        self.denoiser.kept.clear()
        return super().encoded()


def test_a_value_of_an_earlier_step(tmp_path):
    result = diagnosed(tmp_path, KeptTime(), evaluations=400)
    assert result.first.key.step == "denoise:01"
    is_proven(result, "stale_value", "still that of `denoise:00`", "everything behind it agrees")


class OneEmbedding(Port):
    """A cache of prompts by the form of their tokens: the second prompt gets the first one's."""

    def encoded(self):
        kept = {}
        for ids in (POSITIVE, NEGATIVE):
            if ids.shape not in kept:
                kept[ids.shape] = self.clip(ids)
        return kept[NEGATIVE.shape], kept[POSITIVE.shape]


def test_rows_that_are_taken_twice(tmp_path):
    result = diagnosed(tmp_path, OneEmbedding(), evaluations=400)
    assert result.first.key.path in ("unet", "@pipeline/cat.0")
    is_proven(result, "wrong_rows", "one half of the value is the other", "`text_encoder` is called 2 times")


class LateTimes(Port):
    class Schedule(ported.DDIM):
        def set_timesteps(self, count):
            super().set_timesteps(count)
            self.timesteps = self.timesteps - 1

    def made_schedule(self):
        return self.Schedule()


def test_a_schedule_that_one_choice_explains(tmp_path):
    is_proven(diagnosed(tmp_path, LateTimes(), evaluations=400), "steps_offset", "+0 instead of +1")


TRAINED = {"num_train_timesteps": 1000, "beta_start": 0.00085, "beta_end": 0.012}
DYNAMIC = {"base_image_seq_len": 16, "max_image_seq_len": 256, "base_shift": 0.5, "max_shift": 1.15}


def lengths_shift(tokens):
    return math.exp(0.5 + (tokens - 16) * (1.15 - 0.5) / (256 - 16))


def noise_levels(betas, times):
    kept = np.cumprod(1 - betas)
    return np.append(np.interp(times, np.arange(1000), ((1 - kept) / kept) ** 0.5), 0).astype(np.float32)


EVEN = np.linspace(0, 999, 9)[::-1][:-1]
LEADING = (np.arange(8) * 125)[::-1]
FLOW = np.linspace(1, 1 / 8, 8)
LEVELS = {
    "scaled": noise_levels(np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2, LEADING),
    "linear": noise_levels(np.linspace(0.00085, 0.012, 1000), LEADING),
}


@pytest.mark.parametrize(
    ("kind", "mine", "theirs", "config", "name", "words"),
    [
        ("timesteps", EVEN.round(), np.floor(EVEN), TRAINED, "timestep_dtype", "cut instead of rounded"),
        ("timesteps", LEADING + 1, np.arange(1000, 0, -125) - 1, TRAINED, "timestep_spacing", "'trailing'"),
        ("timesteps", LEADING + 1, LEADING, TRAINED, "steps_offset", "+0 instead of +1"),
        ("timesteps", shifted(FLOW, 3.0) * 1000, FLOW * 1000, {}, "shift", "not shifted"),
        ("sigmas", shifted(FLOW, 3.0), shifted(FLOW, 1.7), {}, "shift", "1.7 instead of 3"),
        (
            "timesteps", shifted(FLOW, lengths_shift(24)) * 1000, shifted(FLOW, lengths_shift(96)) * 1000, DYNAMIC,
            "shift", "96 tokens instead of 24",
        ),
        ("sigmas", LEVELS["scaled"], LEVELS["linear"], TRAINED, "beta_schedule", "'linear' instead of 'scaled_linear'"),
    ],
)  # fmt: skip
def test_tables_as_formulas(kind, mine, theirs, config, name, words):
    (cause, *others) = table_causes(kind, mine, theirs, config, LEADING if kind == "sigmas" else None)
    assert cause.name == name
    assert words in cause.detail
    assert cause.certain
    assert not others


def test_numbers_that_no_choice_explains():
    assert not table_causes("timesteps", EVEN.round(), EVEN.round() * 0.97, TRAINED)
    assert not table_causes("timesteps", EVEN.round(), EVEN.round()[::-1] * 0.5 + 3, TRAINED)


class Multistep:
    """DPM-Solver++(2M), which ends with a step of the first order unless it is told otherwise."""

    ends_lower = True

    def set_timesteps(self, count):
        kept = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2)
        steps = np.linspace(0, 999, count + 1).round()[::-1][:-1]
        levels = ((1 - kept) / kept) ** 0.5
        self.sigmas = torch.from_numpy(np.append(np.interp(steps, np.arange(1000), levels), levels[0])).float()
        self.timesteps, self.before, self.place = torch.from_numpy(steps.astype(np.int64)), None, 0

    def parts(self, i):
        signal = 1 / (self.sigmas[i] ** 2 + 1).sqrt()
        return signal, self.sigmas[i] * signal, -self.sigmas[i].log()

    def step(self, prediction, t, sample):
        i, self.place = self.place, self.place + 1
        (signal, level, at), (signal_, level_, to) = self.parts(i), self.parts(i + 1)
        clean = direction = (sample - level * prediction) / signal
        if self.before is not None and not (self.ends_lower and i == len(self.timesteps) - 1):
            direction = clean + (clean - self.before) * (to - at) / (2 * (at - self.parts(i - 1)[2]))
        self.before = clean
        return level_ / level * sample - signal_ * torch.expm1(at - to) * direction


class HighOrderToTheEnd(Port):
    def made_schedule(self):
        made = Multistep()
        made.ends_lower = False
        return made


class Solved(Port):
    def made_schedule(self):
        return Multistep()


def multistep_reference():
    from diffusers import DPMSolverMultistepScheduler

    return ported.Pipeline(
        DPMSolverMultistepScheduler(
            beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", final_sigmas_type="sigma_min"
        )
    )


def test_a_setting_of_the_solver_that_the_port_does_not_have(tmp_path):
    wanted = multistep_reference()()
    assert float((Solved()() - wanted).norm() / wanted.norm()) < 1e-4
    result = diagnosed(tmp_path, HighOrderToTheEnd(), multistep_reference(), evaluations=600)
    assert result.first.key.step == "denoise:02", result.sentence()
    is_proven(result, "lower_order_final", "False instead of True")


def test_draws_in_another_layout_and_row_by_row():
    drawn = ported.noise(2, 4, 6, 6).numpy()
    layout = draw_findings(drawn, drawn.reshape(2, 6, 6, 4), [])[0]
    assert (layout.name, layout.rank) == ("patch_noise", 0)
    assert "another layout" in layout.detail
    rows = np.concatenate([ported.noise(1, 4, 6, 6, seed=seed).numpy() for seed in (6, 7)])
    assert np.array_equal(rows[0], drawn[0])
    found = [f for f in draw_findings(drawn, rows, []) if f.name == "random_stream"]
    assert "rows 1 are of another stream" in found[0].detail
    other = ported.noise(2, 4, 6, 6, seed=9).numpy()
    assert "of another stream" not in draw_findings(drawn, other, [])[0].detail


class BlueFirst(Port):
    def decoded(self, x):
        return super().decoded(x).flip(1)


def test_a_picture_in_another_order_of_channels_needs_no_search(tmp_path):
    result = diagnosed(tmp_path, BlueFirst())
    is_proven(result, "reversed", "BGR for RGB")
    assert not result.search.tried


class RescaledByItself(Port):
    """The guided prediction is written into the one that it is measured against."""

    def rescaled(self, u, c):
        g = c.sub_(u).mul_(ported.GUIDANCE).add_(u)
        return g * (0.3 + 0.7 * c.std((1, 2, 3), keepdim=True) / g.std((1, 2, 3), keepdim=True))

    def guided(self, x, t, negative, positive):
        u, c = self.denoiser(torch.cat([x, x]), t, torch.cat([negative, positive])).chunk(2)
        return self.rescaled(u, c)


class Rescaled(RescaledByItself):
    def rescaled(self, u, c):
        g = u + ported.GUIDANCE * (c - u)
        return g * (0.3 + 0.7 * c.std((1, 2, 3), keepdim=True) / g.std((1, 2, 3), keepdim=True))


def test_what_is_written_into_while_it_is_needed(tmp_path):
    result = diagnosed(tmp_path, RescaledByItself(), Rescaled(), evaluations=400)
    is_proven(result, "in_place", "writes into a tensor that is read again behind it")


class OtherScale(Port):
    def decoded(self, x):
        return torch.sin(3 * self.decoder(torch.tanh(x)) ** 2)


def test_an_interrupt_ends_every_run(tmp_path, monkeypatch):
    """Nothing is run any more, whatever the search was at."""
    after: list[str] = []
    told = [0]
    compared_again = WholeRun.compared_again

    def counted(self, edits):
        if told[0] < 0:
            after.append("a whole run")
        return compared_again(self, edits)

    def tell(words):
        told[0] += 1
        if told[0] == 6:
            told[0] = -(1 << 30)
            raise KeyboardInterrupt

    monkeypatch.setattr(WholeRun, "compared_again", counted)
    result = diagnosed(tmp_path, OtherScale(), tell=tell)
    assert result.search.interrupted
    assert not after
    assert result.causes
