"""Classes of faults, each with an instance that is named and a neighbour that must not be called so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep import parity as px
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.causes.token_tests import token_findings
from lockstep.parity.comparison.results import Standing


def drawn(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def seeded(model):
    """Random weights everywhere: no norm is an identity, no bias is zero."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            scale = parameter[0].numel() ** -0.5 if parameter.ndim > 1 else 0.3
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator) + (parameter.ndim < 2))
    return model.eval()


def diagnosed(folder, reference, candidate, call, name=None, **options):
    """Both recorded by the same call, compared over a measured floor, and searched on both sides."""
    runs = [torch.no_grad()(lambda m=m: call(m)) for m in (reference, candidate)]
    for model, run, path in zip((reference, candidate), runs, ("a.trace", "b.trace"), strict=True):
        with px.record(model, folder / path, level="module+ops", name=name):
            run()
    floor = px.floor(reference, folder / "a.trace", call=runs[0], runs=("ulp", "ulp"))
    result = px.compare(folder / "a.trace", folder / "b.trace", floor=floor)
    sides = Live(reference, runs[0], name), Live(candidate, runs[1], name)
    diagnose(result, reference=sides[0], candidate=sides[1], floor=floor, **options)
    return result


def is_named(result, name, words=""):
    assert result.verdict == "BUG", result.sentence()
    first = result.causes[0]
    assert (first.name, first.standing) == (name, Standing.PROVEN), first.why
    assert words in first.why, first.why
    assert result.explained is None or result.explained.verdict in ("PASS", "NOISE")


def is_not_called(result, *names):
    assert result.verdict == "BUG", result.sentence()
    proven = [cause.name for cause in result.causes if cause.standing is Standing.PROVEN]
    assert not set(proven) & set(names), result.causes[0].why


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x, t):
        return self.last(F.silu(self.first(x)) + torch.as_tensor(t) / 7)


class Bent:
    """A grid of noise levels that is bent towards the noise, and steps along it."""

    def bent(self, levels):
        return levels.pow(2) / (levels.pow(2) + 0.3)

    def grid(self, levels):
        return self.bent(levels)

    def set_timesteps(self, count):
        self.timesteps = self.grid(torch.linspace(1, 0.1, count))
        self.levels, self.place = torch.cat([self.timesteps, torch.zeros(1)]), 0

    def step(self, velocity, t, sample):
        self.place += 1
        return sample + (self.levels[self.place] - self.levels[self.place - 1]) * velocity


class BentTwice(Bent):
    def grid(self, levels):
        return self.bent(self.bent(levels))


class Straight(Bent):
    def grid(self, levels):
        return levels


class Pipeline:
    MEAN, SPREAD, STEPS = 0.4, 1.7, 2

    def __init__(self, scheduler=None):
        self.unet, self.scheduler = seeded(Denoiser()), scheduler or Bent()

    def guided(self, x, t):
        return 1.1 * self.unet(x, t)

    def latents(self, x):
        return x * self.SPREAD + self.MEAN

    def __call__(self):
        self.scheduler.set_timesteps(self.STEPS)
        x = drawn(2, 3, 6, 6)
        for t in self.scheduler.timesteps:
            x = self.scheduler.step(self.guided(x, t), t, x)
        return self.latents(x)


def of_pipelines(folder, reference, candidate, **options):
    return diagnosed(folder, reference, candidate, lambda pipe: pipe(), **options)


class MeanFirst(Pipeline):
    def latents(self, x):
        return (x + self.MEAN) * self.SPREAD


class OtherMean(Pipeline):
    MEAN = 0.5


FEW = {"evaluations": 700}  # enough for what is looked for: nothing is found in a control however long it takes


def test_two_steps_of_a_pipeline_in_the_other_order(tmp_path):
    is_named(of_pipelines(tmp_path, Pipeline(), MeanFirst(), **FEW), "order_exchanged")


def test_another_number_is_no_other_order(tmp_path):
    is_not_called(of_pipelines(tmp_path, Pipeline(), OtherMean(), **FEW), "order_exchanged", "call_twice", "left_out")


@pytest.mark.parametrize(
    ("other", "name", "words"),
    [(BentTwice, "call_twice", "twice in a row"), (Straight, "left_out", "`linspace(1, 0.1, 2)` instead of")],
)
def test_a_row_of_operations_done_twice_or_not_at_all(tmp_path, other, name, words):
    is_named(of_pipelines(tmp_path, Pipeline(), Pipeline(other()), **FEW), name, words)


class Remembering(Bent):
    """Damps the velocity it steps with, and goes on with the one that it was given."""

    before = None
    in_place = False

    def set_timesteps(self, count):
        super().set_timesteps(count)
        self.before = None

    def step(self, velocity, t, sample):
        before, self.before = self.before, velocity
        damped = velocity.tanh_() if self.in_place else velocity.tanh()
        return super().step(damped if before is None else damped - before / 3, t, sample)


class Overwriting(Remembering):
    in_place = True


class Fresh(Remembering):
    """Writes into what nobody needs any more."""

    def step(self, velocity, t, sample):
        return super().step(velocity.clone().mul_(1.25), t, sample)


def test_what_a_later_step_needs_is_written_into(tmp_path):
    result = of_pipelines(tmp_path, Pipeline(Remembering()), Pipeline(Overwriting()))
    is_named(result, "in_place", "reads a step later")


def test_writing_into_what_nobody_needs_is_not_the_cause(tmp_path):
    is_not_called(of_pipelines(tmp_path, Pipeline(Remembering()), Pipeline(Fresh()), **FEW), "in_place")


class Rescaled(Pipeline):
    axes: tuple[int, ...] = (1, 2, 3)

    def guided(self, x, t):
        v = self.unet(x, t)
        return v * x.abs().mean(self.axes, keepdim=True) / v.abs().mean(self.axes, keepdim=True)


class MixedRows(Rescaled):
    def guided(self, x, t):
        v = self.unet(x, t)
        return v * x.abs().mean() / v.abs().mean()


class EachChannel(Rescaled):
    axes = (2, 3)


@pytest.mark.parametrize(("other", "words"), [(MixedRows, "the batch included"), (EachChannel, "axes 2, 3")])
def test_a_mean_over_other_axes(tmp_path, other, words):
    is_named(of_pipelines(tmp_path, Rescaled(), other()), "reduced_axes", words)


class Spread(Rescaled):
    def guided(self, x, t):
        v = self.unet(x, t)
        return v * x.abs().mean((1, 2, 3), keepdim=True) / v.abs().amax((1, 2, 3), keepdim=True)


def test_another_statistic_is_no_other_axis(tmp_path):
    is_not_called(of_pipelines(tmp_path, Rescaled(), Spread(), **FEW), "reduced_axes")


class Root(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Rotary in halves; the norms of query and key before it."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.query_norm, self.key_norm = Root(width // heads), Root(width // heads)

    def turned(self, x):
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[-2])[:, None] * 0.7 ** torch.arange(half)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)

    def prepared(self, q, k):
        return self.turned(self.query_norm(q)), self.turned(self.key_norm(k))

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        q, k = self.prepared(q, k)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class NormsBehind(Attention):
    def prepared(self, q, k):
        return self.query_norm(self.turned(q)), self.key_norm(self.turned(k))


class NormsGone(Attention):
    def prepared(self, q, k):
        return self.turned(q), self.turned(k)


class Stack(nn.Module):
    def __init__(self, part, width=24):
        super().__init__()
        self.layers = nn.ModuleList(part() for _ in range(2))
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def of_modules(folder, reference, candidate, *inputs):
    candidate.load_state_dict(seeded(reference).state_dict())
    return diagnosed(folder, reference, candidate.eval(), lambda model: model(*inputs), "model")


def test_norms_of_query_and_key_behind_the_rotation(tmp_path):
    result = of_modules(tmp_path, Stack(Attention), Stack(NormsBehind), drawn(1, 7, 24))
    is_named(result, "norm_placement", "`query_norm` and `key_norm` behind")


def test_norms_that_are_not_there_are_not_moved(tmp_path):
    result = of_modules(tmp_path, Stack(Attention), Stack(NormsGone), drawn(1, 7, 24))
    is_not_called(result, "norm_placement", "order_exchanged")


class Modulated(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed, self.norm, self.mlp = nn.Linear(4, 3 * width), nn.LayerNorm(width), nn.Linear(width, width)

    def modulated(self, x, shift, scale):
        return self.norm(x) * (1 + scale) + shift

    def joined(self, x, gate, y):
        return x + gate * y

    def forward(self, x, condition):
        shift, scale, gate = self.embed(condition)[:, None].chunk(3, -1)
        return self.joined(x, gate, F.gelu(self.mlp(self.modulated(x, shift, scale))))


class ShiftFirst(Modulated):
    def modulated(self, x, shift, scale):
        return (self.norm(x) + shift) * (1 + scale)


class GateBehind(Modulated):
    def joined(self, x, gate, y):
        return gate * (x + y)


@pytest.mark.parametrize("other", [ShiftFirst, GateBehind])
def test_the_order_of_shift_scale_and_gate(tmp_path, other):
    result = of_modules(tmp_path, Modulated(), other(), drawn(2, 5, 24), drawn(2, 4, seed=2))
    is_named(result, "order_exchanged")


class Video(nn.Module):
    """Causal in time, with a cache that the caller keeps; the first frame of the doubled ones is dropped."""

    ends = slice(1, None)

    def __init__(self):
        super().__init__()
        self.time, self.space = nn.Conv3d(4, 8, 3), nn.Conv2d(4, 4, 3, padding=1)

    def padded(self, x):
        return F.pad(x, (1, 1, 1, 1, 2, 0))

    def forward(self, x, seen):
        seen.append(x)
        y = self.time(self.padded(torch.cat(seen, 2))).unflatten(1, (2, 4))
        y = torch.stack([y[:, 0], y[:, 1]], 3).flatten(2, 3)[:, :, self.ends]
        return self.space(y.transpose(1, 2).flatten(0, 1))


class LastDropped(Video):
    ends = slice(None, -1)


class OnBothSides(Video):
    def padded(self, x):
        return F.pad(x, (1, 1, 1, 1, 1, 1))


class FirstRepeated(Video):
    def padded(self, x):
        return F.pad(torch.cat([x[:, :, :1], x[:, :, :1], x], 2), (1, 1, 1, 1))


class Chunks(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.video = part()

    def forward(self, x):
        seen = []
        return torch.cat([self.video(frame, seen) for frame in x.split(1, 2)])


@pytest.mark.parametrize(
    ("other", "name", "words"),
    [
        (LastDropped, "slice_ends", "[:-1] instead of [1:]"),
        (OnBothSides, "padding_sides", "(1, 1, 1, 1, 1, 1) instead of (1, 1, 1, 1, 2, 0)"),
        (FirstRepeated, "padding_mode", "repeated instead of zeros"),
    ],
)
def test_the_ends_of_time(tmp_path, other, name, words):
    result = of_modules(tmp_path, Chunks(Video), Chunks(other), drawn(1, 4, 2, 3, 4))
    is_named(result, name, words)


class Patches(nn.Module):
    order = (0, 2, 4, 1, 3, 5)  # batch, rows, columns, channels, rows and columns inside of a patch

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3 * 4, 8)

    def forward(self, x):
        b, c, h, w = x.shape
        return self.embed(x.view(b, c, h // 2, 2, w // 2, 2).permute(self.order).reshape(b, -1, 4 * c))


class ChannelsLast(Patches):
    order = (0, 2, 4, 3, 5, 1)


def test_patches_taken_apart_in_another_order(tmp_path):
    is_named(of_modules(tmp_path, Patches(), ChannelsLast(), drawn(1, 3, 4, 6)), "axes_order", "instead of")


class Posterior(nn.Module):
    def __init__(self):
        super().__init__()
        self.moments = nn.Linear(6, 8)
        self.register_buffer("spread", drawn(4, seed=9).abs() + 0.5)

    def normalised(self, mean):
        return mean * self.spread

    def forward(self, x):
        mean, _ = self.moments(x).chunk(2, -1)
        return self.normalised(mean)


class DividedBySpread(Posterior):
    def normalised(self, mean):
        return mean / self.spread


def test_divided_by_a_tensor_in_the_place_of_a_product(tmp_path):
    result = of_modules(tmp_path, Posterior(), DividedBySpread(), drawn(3, 6))
    is_named(result, "inverse")


class Plain(Bent):
    """The grid is made in numbers that no torch operation shows, with one of its own that the class keeps private."""

    times = 1

    def __init__(self):
        self._bend = 1.5

    def set_timesteps(self, count):
        levels = [1 - i / (count + 1) for i in range(count)]
        for _ in range(self.times):
            levels = [self._bend * level / (1 + (self._bend - 1) * level) for level in levels]
        self.timesteps = torch.tensor(levels)
        self.levels, self.place = torch.cat([self.timesteps, torch.zeros(1)]), 0


class PlainTwice(Plain):
    times = 2


def test_a_shift_done_twice_that_no_torch_operation_shows(tmp_path):
    result = of_pipelines(tmp_path, Pipeline(Plain()), Pipeline(PlainTwice()), **FEW)
    is_named(result, "constant", "2.25 (its square: done twice) instead of 1.5 as `scheduler._bend`")


@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ([[0, 0, 0, 7, 1, 9], [0, 7, 4, 5, 2, 9]], "padding_side"),
        ([[7, 1, 9, 0], [7, 4, 5, 9]], "max_length"),
        ([[9, 7, 1, 0, 0, 0], [9, 7, 4, 5, 2, 0]], ""),  # another order of the same ids
        ([[7, 3, 9, 0], [7, 4, 5, 2]], ""),  # shorter, and of another prompt
    ],
)
def test_rows_of_ids_are_filled_on_the_other_side_or_cut(theirs, name):
    ours = np.array([[7, 1, 9, 0, 0, 0], [7, 4, 5, 2, 9, 0]])
    assert [found.name for found in token_findings(ours, np.array(theirs))] == ([name] if name else [])
