"""A reference whose result is taken out of an object that a method of the model gives (`encode(x).mode()`), and a port
that is one function: the fault is inside of the model, not the model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep import parity as px
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import drawn, seeded

WIDTH = 8


class Distribution:
    def __init__(self, moments):
        self.mean, self.spread = moments.chunk(2, dim=1)

    def mode(self):
        return self.mean


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, WIDTH), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x):
        return x + self.conv(F.silu(self.norm(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block = nn.Conv2d(3, WIDTH, 3, padding=1), Block()
        self.down, self.last = nn.Conv2d(WIDTH, WIDTH, 3, stride=2), nn.Conv2d(WIDTH, 8, 3, padding=1)

    def forward(self, x):
        return self.last(F.silu(self.down(F.pad(self.block(self.first(x)), (0, 1, 0, 1)))))


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.quant = Encoder(), nn.Conv2d(8, 8, 1)

    def encode(self, x):
        return Distribution(self.quant(self.encoder(x)))


class Function(nn.Module):
    """The same over a table of weights."""

    def __init__(self, weights, fault=""):
        super().__init__()
        self.weights, self.fault = weights, fault

    def conv(self, name, x, **options):
        return F.conv2d(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], **options)

    def forward(self, x):
        w, e = self.weights, "encoder.block.norm."
        x = self.conv("encoder.first", x, padding=1)
        h = F.group_norm(x, 4, w[f"{e}weight"], w[f"{e}bias"])
        x = x + self.conv("encoder.block.conv", h if self.fault == "silu" else F.silu(h), padding=1)
        x = F.pad(x, (1, 0, 1, 0) if self.fault == "pad" else (0, 1, 0, 1))
        x = self.conv("encoder.last", F.silu(self.conv("encoder.down", x, stride=2)), padding=1)
        return self.conv("quant", x).chunk(2, dim=1)[1 if self.fault == "half" else 0]


def found(folder, fault):
    reference, x = seeded(Autoencoder()), drawn(2, 3, 12, 16)
    candidate = Function({name: tensor.clone() for name, tensor in reference.state_dict().items()}, fault)
    calls = [torch.no_grad()(lambda: reference.encode(x).mode()), torch.no_grad()(lambda: candidate(x))]
    names = ["vae", None]
    for side, call, name, path in zip((reference, candidate), calls, names, ("a.trace", "b.trace"), strict=True):
        recorder = px.record(side, folder / path, level="module+ops", name=name)
        with recorder:
            recorder.result(call())
    floor = px.floor(reference, folder / "a.trace", call=calls[0], runs=("ulp", "ulp"), name="vae")
    result = px.compare(folder / "a.trace", folder / "b.trace", floor=floor)
    sides = Live(reference, calls[0], "vae"), Live(candidate, calls[1])
    diagnose(result, reference=sides[0], candidate=sides[1], floor=floor)
    return result


def test_the_right_function_agrees(tmp_path):
    result = found(tmp_path, "")
    assert result.verdict in ("PASS", "NOISE"), result.sentence()


@pytest.mark.parametrize(
    ("fault", "name", "words"),
    [
        ("pad", "padding_sides", "(1, 0, 1, 0)"),
        ("silu", "activation", "instead of `silu(group_norm("),
        ("half", "split_order", ""),
    ],
)
def test_what_is_wrong_inside_is_told(tmp_path, fault, name, words):
    result = found(tmp_path, fault)
    first = result.causes[0]
    assert (first.name, first.standing) == (name, Standing.PROVEN), first.why
    assert words in first.why, first.why
    assert "model(" not in first.why, first.why
