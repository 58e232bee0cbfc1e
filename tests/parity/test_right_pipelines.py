"""Pipelines that are written otherwise and are right: none of them is a BUG, and none is called mislabelled."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lockstep import parity as px
from parity import ported
from parity.ported import GUIDANCE, NEGATIVE, POSITIVE, SCALE, Port


class PositiveFirst(Port):
    """Two prompts are encoded in the other order, by layers that are fused."""

    def __init__(self):
        super().__init__()
        self.denoiser.middle.attn = ported.FusedAttention(self.denoiser.middle.attn)
        self.clip = TwoLayers(self.clip)

    def encoded(self):
        positive, negative = self.clip(POSITIVE), self.clip(NEGATIVE)
        return negative, positive

    def guided(self, x, t, negative, positive):
        c, u = self.denoiser(x, t, positive), self.denoiser(x, t, negative)
        return u + GUIDANCE * (c - u)


class TwoLayers(nn.Module):
    """The last layer in two halves."""

    def __init__(self, source):
        super().__init__()
        self.embed, self.norm, self.low, self.high = source.embed, source.norm, nn.Linear(8, 4), nn.Linear(8, 4)
        with torch.no_grad():
            for layer, rows in ((self.low, slice(0, 4)), (self.high, slice(4, 8))):
                layer.weight.copy_(source.out.weight[rows])
                layer.bias.copy_(source.out.bias[rows])

    def forward(self, ids):
        x = self.embed(ids)
        hidden = self.norm(x) + x.mean(1, keepdim=True)
        return torch.cat([self.low(hidden), self.high(hidden)], -1)


class InPlace(Port):
    def guided(self, x, t, negative, positive):
        u, c = self.denoiser(torch.cat([x, x]), t, torch.cat([negative, positive])).chunk(2)
        return c.sub_(u).mul_(GUIDANCE).add_(u)


class Joint(Port):
    def encoded(self):
        return self.clip(torch.cat([NEGATIVE, POSITIVE])).chunk(2)


class RowByRow(Port):
    def encoded(self):
        rows = [self.clip(row[None]) for row in torch.cat([POSITIVE, NEGATIVE])]
        return torch.cat(rows[2:]), torch.cat(rows[:2])


class ByIndex(Port):
    class Schedule(ported.DDIM):
        def set_timesteps(self, count):
            super().set_timesteps(count)
            self.timesteps = self.timesteps.float()

        def step(self, prediction, timestep, sample):
            return super().step(prediction, self.timesteps[timestep], sample)

    def made_schedule(self):
        return self.Schedule()

    def stepped(self, prediction, i, t, x):
        return self.scheduler.step(prediction, i, x)


class WholeNumbers(Port):
    """Timesteps as plain numbers, one for every row."""

    class Schedule(ported.DDIM):
        def set_timesteps(self, count):
            super().set_timesteps(count)
            self.timesteps = self.timesteps.tolist()

    def made_schedule(self):
        return self.Schedule()

    def guided(self, x, t, negative, positive):
        return super().guided(x, torch.tensor([t] * 4), negative, positive)


class BySigma(Port):
    """The state is divided by the signal that is left, as samplers over sigmas have it."""

    class Schedule(ported.DDIM):
        def set_timesteps(self, count):
            super().set_timesteps(count)
            kept = [self.levels(int(t))[0] for t in self.timesteps]
            self.left = torch.stack([*kept, self.levels(int(self.timesteps[-1]))[1]])
            self.sigmas = ((1 - self.left) / self.left).sqrt()

        def step(self, prediction, i, sample):
            return sample + (self.sigmas[i + 1] - self.sigmas[i]) * prediction

    def made_schedule(self):
        return self.Schedule()

    def begun(self):
        return super().begun() / self.scheduler.left[0].sqrt()

    def guided(self, x, t, negative, positive):
        at = int((self.scheduler.timesteps == t).nonzero())
        return super().guided(x * self.scheduler.left[at].sqrt(), t, negative, positive)

    def stepped(self, prediction, i, t, x):
        return self.scheduler.step(prediction, i, x)

    def decoded(self, x):
        return super().decoded(x * self.scheduler.left[-1].sqrt())


class ChannelsLast(Port):
    def begun(self):
        return super().begun().permute(0, 2, 3, 1).contiguous()

    def guided(self, x, t, negative, positive):
        return super().guided(x.permute(0, 3, 1, 2), t, negative, positive).permute(0, 2, 3, 1).contiguous()

    def decoded(self, x):
        return super().decoded(x.permute(0, 3, 1, 2))


class Packed(Port):
    """Tokens of 2 x 2 outside of the model."""

    def packed(self, x):
        return x.unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 1, 4, 5).reshape(2, 9, 16)

    def unpacked(self, x):
        return x.reshape(2, 3, 3, 4, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(2, 4, 6, 6)

    def begun(self):
        return self.packed(super().begun())

    def guided(self, x, t, negative, positive):
        return self.packed(super().guided(self.unpacked(x), t, negative, positive))

    def decoded(self, x):
        return super().decoded(self.unpacked(x))


class Previews(Port):
    """More calls than the reference makes, that nobody needs."""

    def guided(self, x, t, negative, positive):
        self.denoiser(x, t, negative)
        return super().guided(x, t, negative, positive)

    def stepped(self, prediction, i, t, x):
        x = super().stepped(prediction, i, t, x)
        self.preview = self.decoder(x / SCALE)
        return x


class ScaleFolded(Port):
    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.decoder.conv_in.weight.div_(SCALE)

    def decoded(self, x):
        return self.decoder(x)


class TimesBefore(Port):
    """All times are embedded before the loop."""

    class Model(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def prepare(self, times):
            self.table = {int(t): self.model.embedded(t, 4) for t in times}

        def forward(self, x, t, context):
            return self.model.body(x, self.table[int(t)], context)

    def __init__(self):
        super().__init__()
        self.denoiser = self.Model(self.denoiser)

    def begun(self):
        self.denoiser.prepare(self.scheduler.timesteps)
        return super().begun()


class EncodedAgain(Port):
    """The prompts at every step, the condition's rows first, and other algebra."""

    def guided(self, x, t, negative, positive):
        negative, positive = self.encoded()
        both = self.denoiser(x.repeat(2, 1, 1, 1), t, torch.cat([positive, negative]))
        return (1 - GUIDANCE) * both[2:] + GUIDANCE * both[:2]


class UnitTime(Port):
    """The model is given times from 0 to 1, and multiplies them itself."""

    class Model(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, sample, timestep, context):
            return self.model(sample, (timestep * 1000).round(), context)

    def __init__(self):
        super().__init__()
        self.denoiser = self.Model(self.denoiser)

    def guided(self, x, t, negative, positive):
        return super().guided(x, t.double() / 1000, negative, positive)


class FlatNoise(Port):
    def begun(self):
        return ported.noise(2 * 4 * 6 * 6).view(2, 4, 6, 6)


class MoreRows(Port):
    def encoded(self):
        rows = self.clip(torch.cat([NEGATIVE, POSITIVE, NEGATIVE, POSITIVE]))
        return rows[:2], rows[2:4]


PORTS = (
    Port, PositiveFirst, InPlace, Joint, RowByRow, ByIndex, WholeNumbers, BySigma, ChannelsLast, Packed, Previews,
    ScaleFolded, TimesBefore, EncodedAgain, UnitTime, FlatNoise, MoreRows,
)  # fmt: skip


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder, pipeline = tmp_path_factory.mktemp("right"), ported.Pipeline()
    with px.record(pipeline, folder / "a.trace", level="module+ops"):
        wanted = pipeline()
    floor = px.floor(pipeline, folder / "a.trace", call=pipeline, runs=("ulp", "ulp"))
    return wanted, folder / "a.trace", floor


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.__name__)
def test_a_right_pipeline_is_no_bug(reference, port, tmp_path):
    wanted, trace, floor = reference
    pipeline = port()
    with px.record(pipeline, tmp_path / "b.trace", level="module+ops", keep="full"):
        got = pipeline()
    assert float((got - wanted).norm() / wanted.norm()) < 1e-5, "the port itself is wrong"
    result = px.compare(trace, tmp_path / "b.trace", floor=floor)
    assert result.verdict in (px.Verdict.PASS, px.Verdict.NOISE), result.sentence()


class OtherName(Port):
    """A scheduler that is called a sampler."""

    def __init__(self):
        super().__init__()
        self.sampler = self.__dict__.pop("scheduler")

    def __getattr__(self, name):
        if name == "scheduler":
            return self.sampler
        raise AttributeError(name)


def test_a_scheduler_under_another_name_is_compared(reference, tmp_path):
    _, trace, floor = reference
    pipeline = OtherName()
    with px.record(pipeline, tmp_path / "b.trace", level="module+ops"):
        pipeline()
    result = px.compare(trace, tmp_path / "b.trace", floor=floor)
    assert result.verdict is px.Verdict.PASS, result.sentence()
    steps = [node for node in result.nodes if node.key.path == "@scheduler.step" and node.key.slot == "out"]
    assert [node.other.path for node in steps] == ["@sampler.step"] * 3
