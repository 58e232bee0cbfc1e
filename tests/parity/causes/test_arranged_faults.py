"""Faults of weights and of axes in ports with other names: what is loaded, how it is read, over what it is summed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.causes.relations import relation
from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

WIDTH, ROWS, COLUMNS, DEPTH = 16, 4, 6, 4
LANES = 8


def angles():
    return torch.arange(ROWS * COLUMNS)[:, None] * 50.0 ** (-torch.arange(0, LANES, 2) / LANES)


class Looking(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.mixed = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, cos, sin):
        query, key, value = (f(x).unflatten(-1, (2, LANES)).transpose(1, 2) for f in (self.query, self.key, self.value))
        query, key = (self.turned(v, cos, sin) for v in (query, key))
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.mixed(mixed.transpose(1, 2).flatten(2))

    def turned(self, x, cos, sin):
        crossed = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        return x * cos + crossed * sin


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.grouped, self.normed = nn.GroupNorm(4, WIDTH), nn.LayerNorm(WIDTH)
        self.looking, self.wide, self.narrow = Looking(), nn.Linear(WIDTH, 24), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)
        self.back = nn.Linear(24, WIDTH)

    def forward(self, x, cos, sin):
        h = self.grouped(x).flatten(2).transpose(1, 2)
        h = h + self.looking(self.normed(h), cos, sin)
        h = h + self.back(F.silu(self.wide(h)))
        return x + self.narrow(h.transpose(1, 2).unflatten(-1, (ROWS, COLUMNS)))


class Picture(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, WIDTH, 1), nn.Conv2d(WIDTH, 3, 1)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))

    def forward(self, x):
        cos, sin = (f(angles()).repeat_interleave(2, dim=-1).float() for f in (torch.cos, torch.sin))
        x = self.first(x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.last(x)


class Step(nn.Module):
    """Tokens last but one, projections fused, rotations as complex numbers."""

    fault = ""

    def __init__(self):
        super().__init__()
        self.gn, self.ln, self.qkv = (
            nn.GroupNorm(4, WIDTH),
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 3 * WIDTH, bias=False),
        )
        self.o, self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)
        self.conv = nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x, table):
        batch = x.shape[0]
        if self.fault == "statistics":
            tokens = self.gn(x.permute(0, 2, 3, 1).reshape(-1, WIDTH)).reshape(batch, -1, WIDTH)
        else:
            tokens = self.gn(x).permute(0, 2, 3, 1).reshape(batch, -1, WIDTH)
        q, k, v = self.qkv(self.ln(tokens)).view(batch, -1, 3, 2, LANES).permute(2, 0, 3, 1, 4)
        q, k = (
            torch.view_as_real(torch.view_as_complex(t.unflatten(-1, (-1, 2)).contiguous()) * table) for t in (q, k)
        )
        mixed = torch.softmax(q.flatten(-2) @ k.flatten(-2).mT * LANES**-0.5, -1) @ v
        tokens = tokens + self.o(mixed.transpose(1, 2).reshape(batch, -1, WIDTH))
        hidden = F.silu(self.up(tokens))
        tokens = self.down(hidden) if self.fault == "residual" else tokens + self.down(hidden)
        if self.fault == "columns":
            return x + self.conv(tokens.reshape(batch, COLUMNS, ROWS, WIDTH).permute(0, 3, 2, 1))
        return x + self.conv(tokens.reshape(batch, ROWS, COLUMNS, WIDTH).permute(0, 3, 1, 2))


NAMES = {"grouped": "gn", "normed": "ln", "looking.mixed": "o", "wide": "up", "back": "down", "narrow": "conv"}


class Drawing(nn.Module):
    def __init__(self, reference, fault=""):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, WIDTH, 1), nn.Conv2d(WIDTH, 3, 1)
        self.steps = nn.ModuleList(Step() for _ in range(DEPTH))
        self.fault = fault
        self.load(dict(reference.state_dict()))

    def load(self, weights):
        if self.fault == "adapter":
            for i in range(DEPTH):
                weights[f"layers.{i}.looking.query.weight"] = weights[f"layers.{i}.looking.query.weight"] + (
                    drawn(WIDTH, 2, seed=i + 7) @ drawn(2, WIDTH, seed=i + 9) * 0.1
                )
        order = [0, 2, 3, 1] if self.fault == "order" else range(DEPTH)
        found = {f"{new}.{k}": weights[f"{old}.{k}"] for new, old in (("enter", "first"), ("leave", "last"))
                 for k in ("weight", "bias")}  # fmt: skip
        for place, source in enumerate(order):
            self.steps[place].fault = self.fault
            above = f"layers.{source}."
            for old, new in NAMES.items():
                found |= {f"steps.{place}.{new}.{k}": weights[f"{above}{old}.{k}"] for k in ("weight", "bias")}
            parts = [weights[f"{above}looking.{part}.weight"] for part in ("query", "key", "value")]
            found[f"steps.{place}.qkv.weight"] = torch.cat(parts)
        if self.fault == "kernel":
            found["steps.1.conv.weight"] = found["steps.1.conv.weight"].transpose(2, 3)
        self.load_state_dict(found)

    def forward(self, x):
        turns = angles()
        table = torch.polar(torch.ones_like(turns), turns)
        x = self.enter(x)
        for step in self.steps:
            x = step(x, table)
        return self.leave(x)


def told(folder, fault):
    reference = seeded(Picture())
    port = Drawing(reference, fault).eval()
    return diagnosed(folder, reference, port, lambda model: model(drawn(2, 3, ROWS, COLUMNS)), evaluations=300)


def test_the_right_port_agrees(tmp_path):
    assert told(tmp_path, "").verdict in ("PASS", "NOISE")


@pytest.mark.parametrize(
    ("fault", "at", "words"),
    [
        ("adapter", "model.layers.0.looking.query", "a matrix of rank 2"),
        ("order", "model.layers.1", "`model.layers.1` holds the weights of `model.layers.2`"),
        ("kernel", "model.layers.1.narrow", "height and width"),
        ("statistics", "model.layers.0.grouped", "over the axes of [48, 16] instead of [2, 16, 4, 6]"),
        ("columns", "model.layers.0.narrow", "height and width exchanged"),
        ("residual", "model.layers.0", "instead of"),
    ],
)
def test_what_is_loaded_and_how_it_is_read_is_told(tmp_path, fault, at, words):
    result = told(tmp_path, fault)
    assert result.verdict == "BUG", result.sentence()
    assert (result.place or result.first).key.path.startswith(at), result.sentence()
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert words in cause.why, cause.why


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.T, "transposed"),
        (lambda t: t * 2.5, "multiplied by 2.5"),
        (lambda t: t[[1, 0, 2, 3, 4, 5]], "0 holds 1, 1 holds 0"),
        (lambda t: torch.cat([t[:2], torch.zeros(1, 6), t[3:]]), "zero in 1 of 6 along axis 0, at 2"),
        (lambda t: t.bfloat16().float(), "rounded to bfloat16"),
        (lambda t: drawn(6, 6, seed=5), ""),
    ],
)
def test_what_one_table_is_to_another(change, words):
    table = drawn(6, 6)
    assert words in relation(table, change(table))
    assert bool(words) == bool(relation(table, change(table)))
