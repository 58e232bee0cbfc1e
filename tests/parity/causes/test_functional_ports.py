"""A port that is one function over a table of weights: no module of it has a name that could be put beside the
reference's, and the place and the cause are found all the same, by the values and by the weights that they go into."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, seeded

WIDTH, HEADS, LENGTH, WORDS, DEPTH = 16, 2, 7, 23, 2
TOKENS = torch.tensor([[3, 9, 4, 17, 22, 1, 8], [5, 2, 11, 6, 0, 0, 0]])


class Distances(nn.Module):
    """A learned bias for how far two tokens are apart."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(2 * LENGTH - 1, HEADS)

    def forward(self, length):
        place = torch.arange(length)
        return self.table(place[None] - place[:, None] + LENGTH - 1).permute(2, 0, 1)[None]


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, bias):
        h = self.norm(x)
        query, key, value = (
            f(h).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class Feeding(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x):
        return x + self.narrow(F.silu(self.wide(self.norm(x))))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.distances = nn.Embedding(WORDS, WIDTH), Distances()
        self.mixing, self.feeding = (nn.ModuleList(kind() for _ in range(DEPTH)) for kind in (Mixing, Feeding))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        bias = self.distances(tokens.shape[1])
        bias = bias + (tokens == 0)[:, None, None] * torch.finfo(torch.float32).min
        x = self.words(tokens)
        for mixing, feeding in zip(self.mixing, self.feeding, strict=True):
            x = feeding(mixing(x, bias))
        return self.last(x)


class Function(nn.Module):
    """The same in one piece: fused projections, weights transposed for `@`, distances in numpy."""

    def __init__(self, reference, fault=""):
        super().__init__()
        self.fault = fault
        weights = dict(reference.named_parameters())
        for i in range(DEPTH):
            for kind in ("weight", "bias"):
                parts = [weights.pop(f"mixing.{i}.{name}.{kind}") for name in ("query", "key", "value")]
                weights[f"mixing.{i}.all.{kind}"] = torch.cat([part.data for part in parts])
        self.w = nn.ParameterDict(
            {
                name.replace(".", "_"): nn.Parameter(t.detach().clone(), requires_grad=False)
                for name, t in weights.items()
            }
        )
        if fault == "row":
            self.w["words_weight"].data[4] = 0

    def forward(self, tokens):
        w, (batch, length) = self.w, tokens.shape
        place = np.arange(length)
        apart = place[:, None] - place[None] if self.fault == "sign" else place[None] - place[:, None]
        bias = w["distances_table_weight"][torch.from_numpy(apart + LENGTH - 1)].permute(2, 0, 1)[None]
        hidden = (tokens == 0)[:, None, None].float()
        hidden = hidden if self.fault == "mask" else hidden * -1e30
        x = w["words_weight"][tokens]
        for i in range(DEPTH):
            here = hidden if self.fault == "later" and i else bias + hidden
            h = self.normed(x, f"mixing_{i}_norm")
            query, key, value = (
                (h @ w[f"mixing_{i}_all_weight"].T + w[f"mixing_{i}_all_bias"])
                .view(batch, length, 3, HEADS, -1)
                .permute(2, 0, 3, 1, 4)
            )
            scores = query @ key.mT * (WIDTH // HEADS) ** -0.5 + here
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, WIDTH)
            x = x + mixed @ w[f"mixing_{i}_out_weight"].T + w[f"mixing_{i}_out_bias"]
            h = self.normed(x, f"feeding_{i}_norm")
            h = (
                F.gelu(self.layer(h, f"feeding_{i}_wide"))
                if self.fault == "gelu"
                else F.silu(self.layer(h, f"feeding_{i}_wide"))
            )
            x = x + self.layer(h, f"feeding_{i}_narrow")
        return self.normed(x, "last")

    def layer(self, x, name):
        return x @ self.w[f"{name}_weight"].T + self.w[f"{name}_bias"]

    def normed(self, x, name):
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        return centred * scale * self.w[f"{name}_weight"] + self.w[f"{name}_bias"]


def told(folder, fault):
    reference = seeded(Encoder())
    return diagnosed(folder, reference, Function(reference, fault), lambda model: model(TOKENS), evaluations=300)


def test_the_right_function_agrees(tmp_path):
    assert told(tmp_path, "").verdict == "PASS"


@pytest.mark.parametrize(
    ("fault", "at", "words"),
    [
        ("sign", "model.distances", "transposed"),
        ("mask", "model", "instead of"),
        ("later", "model.mixing.1", "instead of"),
        ("gelu", "model.feeding.0", "gelu"),
    ],
)
def test_the_place_and_the_cause_are_found_by_value(tmp_path, fault, at, words):
    result = told(tmp_path, fault)
    assert result.verdict == "BUG", result.sentence()
    assert result.place is not None, result.sentence()
    assert result.place.key.path.startswith(at), result.sentence()
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert words in cause.why, cause.why


def test_a_row_of_a_weight_without_a_name_is_named(tmp_path):
    cause = told(tmp_path, "row").causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "`model.words.weight` holds its values zero in 1 of 23 along axis 0, at 4" in cause.why, cause.why
