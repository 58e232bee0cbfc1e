"""Transformers in a port of another form: a norm over each head or over all of them, scores that are scaled otherwise,
another part of a modulation. Told at the operation where it is, not at the layer that takes what comes out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

WIDTH, HEADS, TOKENS = 16, 2, 6
LANES = WIDTH // HEADS


class Attention(nn.Module):
    """Normed over each head; scores are not scaled."""

    def __init__(self, extent=LANES):
        super().__init__()
        self.query, self.key, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norm = nn.RMSNorm(extent, eps=1e-6)

    def heads(self, x):
        return x.unflatten(-1, (HEADS, LANES))

    def normed(self, x):
        return self.norm(self.heads(x))

    def mixed(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, scale=1.0)

    def forward(self, x):
        given = self.normed(self.query(x)), self.normed(self.key(x)), self.heads(x)
        return self.out(self.mixed(*(value.transpose(1, 2) for value in given)).transpose(1, 2).flatten(2))


class OfAll(Attention):
    """Normed over all heads together."""

    def __init__(self):
        super().__init__(WIDTH)

    def normed(self, x):
        return self.heads(self.norm(x))


def rms(x, axes):
    return x * torch.rsqrt(x.square().mean(axes, keepdim=True) + 1e-6)


class EachAsAll(Attention):
    def normed(self, x):
        return rms(self.heads(x), (-2, -1)) * self.norm.weight


class AllAsEach(OfAll):
    def normed(self, x):
        return rms(self.heads(x), -1) * self.heads(self.norm.weight)


class Scaled(Attention):
    def mixed(self, query, key, value):
        return (query @ key.mT * LANES**-0.5).softmax(-1) @ value


class Model(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.first, self.attention, self.last = nn.Linear(WIDTH, WIDTH), attention, nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.first(x)
        return self.last(x + self.attention(F.silu(x)))


def of(folder, reference, port):
    reference, port = seeded(Model(reference)), Model(port).eval()
    port.load_state_dict(reference.state_dict())
    result = diagnosed(folder, reference, port, lambda model: model(drawn(2, TOKENS, WIDTH)), evaluations=300)
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    return result


@pytest.mark.parametrize(
    ("reference", "port", "words"),
    [
        (Attention, EachAsAll, "over axis 2 as well (all 2 together instead of each one)"),
        (OfAll, AllAsEach, "over each of 2 parts (of 8) instead of over all 16"),
    ],
    ids=["each-as-all", "all-as-each"],
)
def test_a_norm_over_other_heads(tmp_path, reference, port, words):
    cause = of(tmp_path, reference(), port()).causes[0]
    assert cause.name == "reduced_axes", cause.why
    assert words in cause.why, cause.why


def test_scores_are_told_where_they_are_made(tmp_path):
    result = of(tmp_path, Attention(), Scaled())
    assert result.causes[0].name == "attention_scale", result.causes[0].why
    assert result.place is not None, result.sentence()
    assert result.place.key.path.startswith("model.attention/"), result.sentence()


class Gated(nn.Module):
    """Blocks with two gates, and what a kernel hands back in the type of what it was given."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(4, WIDTH))
        self.feed, self.attention = nn.Linear(WIDTH, WIDTH), Attention()

    def forward(self, x, vector):
        _, first, second, _ = (self.table + vector[:, None]).chunk(4, dim=1)
        x = x + first * self.attention(F.layer_norm(x, (WIDTH,)).type_as(x))
        return (x + second * self.feed(F.layer_norm(x, (WIDTH,)).type_as(x)).tanh()).type_as(x)


class GatedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.last = nn.ModuleList(Gated() for _ in range(3)), nn.Linear(WIDTH, 3)

    def forward(self, x, vector):
        for block in self.blocks:
            x = block(x, vector)
        return self.last(x)


class GatedTable(nn.Module):
    """The same over a table, with query and key fused."""

    def __init__(self, model):
        super().__init__()
        table = {name.replace(".", "_"): w for name, w in model.state_dict().items()}
        for n in range(3):
            for kind in ("weight", "bias"):
                parts = [table.pop(f"blocks_{n}_attention_{part}_{kind}") for part in ("query", "key")]
                table[f"both_{n}_{kind}"] = torch.cat(parts)
        self.table = nn.ParameterDict(table)

    def linear(self, x, name):
        return F.linear(x, self.table[f"{name}_weight"], self.table[f"{name}_bias"])

    def attended(self, x, n):
        value, weight = x.unflatten(-1, (HEADS, LANES)), self.table[f"blocks_{n}_attention_norm_weight"]
        query, key = (
            rms(v, -1) * weight for v in self.linear(x, f"both_{n}").unflatten(-1, (2, HEADS, LANES)).unbind(2)
        )
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key).softmax(-1)
        return self.linear(torch.einsum("bhqk,bkhd->bqhd", scores, value).flatten(2), f"blocks_{n}_attention_out")

    def gates(self, parts):
        return parts[1], parts[2]

    def forward(self, x, vector):
        for n in range(3):
            parts = (self.table[f"blocks_{n}_table"] + vector[:, None]).unsqueeze(2).unbind(1)
            first, second = self.gates(parts)
            x = x + first * self.attended(F.layer_norm(x, (WIDTH,)), n)
            x = x + second * self.linear(F.layer_norm(x, (WIDTH,)), f"blocks_{n}_feed").tanh()
        return self.linear(x, "last")


class SameGate(GatedTable):
    def gates(self, parts):
        return parts[1], parts[1]


def of_gates(folder, kind):
    reference = seeded(GatedModel())
    call = lambda model: model(drawn(2, TOKENS, WIDTH), drawn(2, WIDTH, seed=2))  # noqa: E731
    return diagnosed(folder, reference, kind(reference).eval(), call, evaluations=300)


def test_another_part_of_a_modulation_is_told_where_it_is_taken(tmp_path):
    result = of_gates(tmp_path, SameGate)
    cause = result.causes[0]
    assert (cause.name, cause.standing) == ("wrong_operand", Standing.PROVEN), cause.why
    assert result.place.key.path.startswith("model.blocks.0/mul."), result.sentence()


def test_the_type_of_another_value_is_no_difference(tmp_path):
    assert of_gates(tmp_path, GatedTable).verdict == "PASS"
