"""A port may take a step in another form; what is told as the cause is what differs beside that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

CHANNELS, WIDTH, SIDE = 3, 24, 2


class Patches(nn.Module):
    """A picture cut into patches by a convolution."""

    def __init__(self):
        super().__init__()
        self.cut, self.mixed = nn.Conv2d(CHANNELS, WIDTH, SIDE, stride=SIDE), nn.Linear(WIDTH, WIDTH)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8)

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2)
        return self.last(F.silu(self.mixed(self.norm(x))))


class LinearPatches(nn.Module):
    """The same by a linear layer; `order` is that of channels, rows and columns inside of a patch."""

    def __init__(self, reference, name, order, of_weight=(0, 1, 2)):
        super().__init__()
        self.name, self.order = name, order
        setattr(self, name, nn.Linear(CHANNELS * SIDE * SIDE, WIDTH))
        self.mixed, self.norm, self.last = reference.mixed, reference.norm, reference.last
        with torch.no_grad():
            weight = reference.cut.weight.permute(0, *(1 + axis for axis in of_weight))
            getattr(self, name).weight.copy_(weight.flatten(1))
            getattr(self, name).bias.copy_(reference.cut.bias)

    def forward(self, x):
        rows, columns = x.shape[2] // SIDE, x.shape[3] // SIDE
        x = x.unflatten(3, (columns, SIDE)).unflatten(2, (rows, SIDE))  # rows 2, 3, columns 4, 5
        x = x.permute(0, 2, 4, *((1, 3, 5)[axis] for axis in self.order))
        x = getattr(self, self.name)(x.reshape(len(x), rows * columns, -1))
        return self.last(F.silu(self.mixed(self.norm(x))))


def of_patches(folder, **made):
    reference = seeded(Patches())
    port = LinearPatches(reference, **made).eval()
    return diagnosed(folder, reference, port, lambda model: model(drawn(2, CHANNELS, 8, 6)), evaluations=300)


@pytest.mark.parametrize("name", ["cut", "embed"])
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0)])
def test_a_linear_over_patches_is_the_convolution(tmp_path, name, order):
    assert of_patches(tmp_path, name=name, order=order, of_weight=order).verdict == "PASS"


@pytest.mark.parametrize("name", ["cut", "embed"])
def test_patches_in_another_order_are_told_as_that(tmp_path, name):
    result = of_patches(tmp_path, name=name, order=(1, 2, 0))
    cause = result.causes[0]
    assert result.verdict == "BUG", result.sentence()
    assert (cause.name, cause.standing) == ("axes_swapped", Standing.PROVEN), cause.why
    for words in ("order rows, columns, channels instead of", "order channels, rows, columns, as the weight has them"):
        assert words in cause.why, cause.why
    assert "linear" not in cause.fix, cause.fix
    line = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "x = x.permute(0, 2" in line)
    assert name == "cut" or f"test_legitimate_forms.py:{line}" in cause.fix, cause.fix


def test_a_weight_in_another_order_is_told_as_that(tmp_path):
    cause = of_patches(tmp_path, name="cut", order=(0, 1, 2), of_weight=(0, 2, 1)).causes[0]
    assert (cause.name, cause.standing) == ("axes_swapped", Standing.PROVEN), cause.why
    assert "channels, rows, columns" in cause.why, cause.why
    assert "channels, columns, rows" in cause.why, cause.why
