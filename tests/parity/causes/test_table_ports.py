"""Ports that are functions over a table of weights, or over modules that they only hold."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

WIDTH, HEADS, GROUPS, TOKENS, DEPTH = 24, 4, 2, 6, 2
SIZE = WIDTH // HEADS


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.shift = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6), nn.Linear(WIDTH, WIDTH)
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * GROUPS * SIZE)
        self.norm_q, self.out = nn.RMSNorm(SIZE, eps=1e-6), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, time):
        y = self.norm(x) + self.shift(time)[:, None]
        q = self.norm_q(self.q(y).unflatten(-1, (HEADS, SIZE))).transpose(1, 2)
        k, v = (z.unflatten(-1, (GROUPS, SIZE)).transpose(1, 2) for z in self.kv(y).chunk(2, -1))
        k, v = (z.repeat_interleave(HEADS // GROUPS, dim=1) for z in (k, v))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Model(nn.Module):
    """Frequencies from a constant of six digits, as some have it."""

    def __init__(self):
        super().__init__()
        self.first, self.time = nn.Linear(5, WIDTH), nn.Linear(16, WIDTH)
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(DEPTH)), nn.Linear(WIDTH, 5)
        self.register_buffer("places", torch.randn(1, TOKENS, WIDTH))

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-torch.arange(8) / 8 * 9.21034)
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x = self.first(x) + self.places
        for block in self.blocks:
            x = block(x, time)
        return self.last(x)


class Table(nn.Module):
    """The same with frequencies from a logarithm, which is another number in the last bits."""

    def __init__(self, reference):
        super().__init__()
        self.weights = nn.ParameterDict({name.replace(".", "_"): w for name, w in reference.state_dict().items()})

    def linear(self, name, x):
        return x @ self.weights[f"{name}_weight"].T + self.weights[f"{name}_bias"]

    def norm(self, x):
        mean = x.mean(-1, keepdim=True)
        return (x - mean) / torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-6)

    def norm_q(self, name, q):
        return q * torch.rsqrt(q.square().mean(-1, keepdim=True) + 1e-6) * self.weights[name]

    def spread(self, x):
        return x[:, :, None].expand(-1, -1, HEADS // GROUPS, -1, -1).flatten(1, 2)

    def weights_of(self, block):
        return f"blocks_{block}"

    def placed(self, x):
        return x + self.weights["places"]

    def block(self, name, x, time):
        y = self.norm(x) + self.linear(f"{name}_shift", time)[:, None]
        q = self.norm_q(f"{name}_norm_q_weight", self.linear(f"{name}_q", y).unflatten(-1, (HEADS, SIZE)))
        k, v = self.linear(f"{name}_kv", y).unflatten(-1, (2, GROUPS, SIZE)).permute(2, 0, 3, 1, 4)
        k, v = self.spread(k), self.spread(v)
        scores = torch.einsum("bqhd,bhkd->bhqk", q, k) / math.sqrt(SIZE)
        return x + self.linear(f"{name}_out", torch.einsum("bhqk,bhkd->bqhd", scores.softmax(-1), v).flatten(2))

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-math.log(10000) * torch.arange(8) / 8)
        time = self.linear("time", torch.cat([angles.cos(), angles.sin()], -1))
        x = self.placed(self.linear("first", x))
        for number in range(DEPTH):
            x = self.block(self.weights_of(number), x, time)
        return self.linear("last", x)


class UnbiasedVariance(Table):
    def norm(self, x):
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-6)


class SameWeights(Table):
    def weights_of(self, block):
        return f"blocks_{max(block, 1)}"


class FirstPlace(Table):
    def placed(self, x):
        return x + self.weights["places"][:, :1]


class DealtHeads(Table):
    def spread(self, x):
        return x[:, None].expand(-1, HEADS // GROUPS, -1, -1, -1).flatten(1, 2)


def of_table(folder, kind):
    reference = seeded(Model())
    call = lambda model: model(drawn(2, TOKENS, 5), torch.tensor([17.3, 803.1]))  # noqa: E731
    return diagnosed(folder, reference, kind(reference).eval(), call)


def test_a_table_that_was_rounded_otherwise_is_right(tmp_path):
    assert of_table(tmp_path, Table).verdict in ("PASS", "NOISE")


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (UnbiasedVariance, "norm_variance", "over n - 1 instead of over n"),
        (SameWeights, "tied_weight", "weights of `model.blocks.1` are used in the place of those of `model.blocks.0`"),
        (FirstPlace, "extra_step", "`model.places[:, :1]` instead of `model.places`"),
        (DealtHeads, "axes_swapped", "-1, -1, -1).transpose(1, 2).flatten(1, 2)` belongs"),
    ],
)
def test_what_was_rounded_before_it_hides_no_cause(tmp_path, kind, name, words):
    cause = of_table(tmp_path, kind).causes[0]
    assert (cause.name, cause.standing) == (name, Standing.PROVEN), cause.why
    assert words in cause.why, cause.why


class NormOverHeads(nn.Module):
    """The reference's own blocks, but query heads are normed together, by the norm's weight repeated."""

    def __init__(self, reference):
        super().__init__()
        self.first, self.time, self.blocks, self.last = (
            getattr(reference, name) for name in ("first", "time", "blocks", "last")
        )
        self.register_buffer("places", reference.places)

    def normed(self, norm, q):
        return F.rms_norm(q, (WIDTH,), norm.weight.repeat(HEADS), 1e-6)

    def block(self, block, x, time):
        y = block.norm(x) + block.shift(time)[:, None]
        q = self.normed(block.norm_q, block.q(y))
        k, v = (z.unflatten(-1, (GROUPS, SIZE)).transpose(1, 2) for z in block.kv(y).chunk(2, -1))
        k, v = (z.repeat_interleave(HEADS // GROUPS, dim=1) for z in (k, v))
        mixed = F.scaled_dot_product_attention(q.unflatten(-1, (HEADS, SIZE)).transpose(1, 2), k, v)
        return x + block.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x, t):
        angles = t[:, None] * torch.exp(-torch.arange(8) / 8 * 9.21034)
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1))
        x = self.first(x) + self.places
        for block in self.blocks:
            x = self.block(block, x, time)
        return self.last(x)


class WeightTwice(NormOverHeads):
    def normed(self, norm, q):
        return (F.rms_norm(q.unflatten(-1, (HEADS, SIZE)), (SIZE,), norm.weight.square(), 1e-6)).flatten(2)


def test_blocks_that_a_port_only_holds_are_looked_into(tmp_path):
    cause = of_table(tmp_path, NormOverHeads).causes[0]
    assert (cause.name, cause.standing) == ("reduced_axes", Standing.PROVEN), cause.why


def test_weights_of_a_part_that_is_called_as_a_whole_are_those_of_each_layer(tmp_path):
    result = of_table(tmp_path, WeightTwice)
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    assert "norm_q.weight" in result.causes[0].why, result.causes[0].why
    assert "blocks.1(" not in result.causes[0].why, result.causes[0].why
