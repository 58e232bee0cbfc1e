"""Encoders that give many results, of which a port takes or gives another one: every state is known by its numbers, and
what is told is which one was taken."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, seeded

WIDTH, TOKENS, DEPTH, VOCABULARY = 12, 7, 3, 20
PROMPTS = torch.tensor([[3, 11, 19, 2, 2, 2, 2], [5, 7, 1, 14, 19, 2, 2]])
END = 19


@dataclass
class States:
    last: torch.Tensor
    pooled: torch.Tensor
    hidden: tuple[torch.Tensor, ...]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids):
        hidden = [self.words(ids)]
        for layer in self.layers:
            hidden.append(hidden[-1] + layer(hidden[-1]).tanh().cumsum(1))
        last = self.norm(hidden[-1])
        return States(last, last[torch.arange(len(ids)), (ids == END).int().argmax(-1)], tuple(hidden))


class Table(nn.Module):
    """The same over a table of weights; gives the state before the last and what is pooled."""

    def __init__(self, encoder):
        super().__init__()
        self.table = nn.ParameterDict({name.replace(".", "_"): w for name, w in encoder.state_dict().items()})

    def linear(self, name, x):
        return x @ self.table[f"{name}_weight"].T + self.table[f"{name}_bias"]

    def taken(self, hidden, last):
        return hidden[-2]

    def pooled(self, ids, hidden, last):
        return last[range(len(ids)), (ids == END).int().argmax(-1)]

    def forward(self, ids):
        hidden = [self.table["words_weight"][ids]]
        for layer in range(DEPTH):
            hidden.append(hidden[-1] + self.linear(f"layers_{layer}", hidden[-1]).tanh().cumsum(1))
        last = torch.layer_norm(hidden[-1], (WIDTH,), self.table["norm_weight"], self.table["norm_bias"])
        return self.taken(hidden, last), self.pooled(ids, hidden, last)


class Normed(Table):
    def taken(self, hidden, last):
        return last


class PooledEarly(Table):
    def pooled(self, ids, hidden, last):
        return super().pooled(ids, hidden, hidden[-1])


class PooledElsewhere(Table):
    def pooled(self, ids, hidden, last):
        return last[torch.arange(len(ids)), torch.tensor([5, 1])]


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.context, self.pooled = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, context, pooled):
        return self.context(context).sigmoid() + self.pooled(pooled)[:, None]


class Pipeline:
    def __init__(self, kind=None):
        one, two = seeded(Encoder()), seeded(nn.Sequential(Encoder()))[0].double().float()
        with torch.no_grad():
            two.words.weight.mul_(1.5)
            two.layers[0].weight.neg_()
        self.encoder, self.encoder_2 = (one, two) if kind is None else (kind(one), kind(two))
        self.unet = seeded(Head())

    def states(self, encoder):
        given = encoder(PROMPTS)
        return given.hidden[-2], given.pooled

    def joined(self, one, two):
        return torch.cat([one, two], dim=-1)

    def __call__(self):
        one, _ = self.states(self.encoder)
        two, pooled = self.states(self.encoder_2)
        return self.unet(self.joined(one, two), pooled)


class LastState(Pipeline):
    def states(self, encoder):
        given = encoder(PROMPTS)
        return given.hidden[-1], given.pooled


class Written(Pipeline):
    def states(self, encoder):
        return encoder(PROMPTS)


class Exchanged(Written):
    def joined(self, one, two):
        return torch.cat([two, one], dim=-1)


def of(folder, candidate):
    return diagnosed(folder, Pipeline(), candidate, lambda pipe: pipe(), evaluations=600)


@pytest.mark.parametrize(
    ("candidate", "name", "words"),
    [
        (LastState(), "wrong_operand", "`encoder(…).hidden[3]` instead of `encoder(…).hidden[2]`"),
        (Written(Normed), "wrong_operand", "`encoder(…).last` instead of `encoder(…).hidden[2]`"),
        (Exchanged(Table), "concat_order", "`cat([encoder_2(…).hidden[2], encoder(…).hidden[2]], dim=-1)` instead of"),
    ],
    ids=["another-state", "normed", "other-order"],
)
def test_another_result_of_an_encoder_is_told_by_its_name(tmp_path, candidate, name, words):
    result = of(tmp_path, candidate)
    cause = result.causes[0]
    by_line = "(given.hidden[-2], given.pooled)` belongs" in cause.why
    assert cause.standing is Standing.PROVEN, cause.why
    assert by_line or (cause.name == name and words in cause.why), cause.why
    assert result.first.key.path == "@pipeline/cat.0", result.sentence()
    assert result.explained.verdict == "PASS"


def test_a_result_of_a_port_that_gives_fewer_is_looked_into(tmp_path):
    result = of(tmp_path, Written(PooledEarly))
    cause = result.causes[0]
    assert (cause.name, cause.standing) == ("wrong_operand", Standing.PROVEN), cause.why
    assert str(result.first.key).endswith("encoder|out.pooled"), result.sentence()
    assert "layer_norm(" in cause.why or "ids, hidden, last)` belongs" in cause.why, cause.why


def test_the_tokens_that_are_pooled_are_told(tmp_path):
    cause = of(tmp_path, Written(PooledElsewhere)).causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "`[5, 1]` instead of `argmax(" in cause.why, cause.why


def test_a_port_that_gives_two_of_many_results_is_right(tmp_path):
    assert of(tmp_path, Written(Table)).verdict == "PASS"
