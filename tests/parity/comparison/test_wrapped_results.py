"""A model that returns a bare tensor where the reference returns a named output is compared at its end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from lockstep.parity.comparison.results import Verdict
from parity.causes.test_classes import diagnosed, drawn, seeded

X = drawn(2, 5, 16)


@dataclass
class Output:
    """What the reference returns: two values by name."""

    last: torch.Tensor
    pooled: torch.Tensor


class Reference(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        y = self.norm(self.first(x))
        return Output(y, y[:, 0])


class Bare(nn.Module):
    """One tensor of functions over a table of weights."""

    def __init__(self, source, slope):
        super().__init__()
        self.table, self.slope = {k: v.detach().clone() for k, v in source.state_dict().items()}, slope

    def forward(self, x):
        w = self.table
        y = x @ w["first.weight"].T + w["first.bias"]
        y = nn.functional.layer_norm(y, (16,), w["norm.weight"], w["norm.bias"])
        return y * self.slope


def found(folder, slope):
    reference = seeded(Reference())
    return diagnosed(folder, reference, Bare(reference, slope), lambda model: model(X), evaluations=40)


def test_a_right_bare_tensor_passes(tmp_path):
    assert found(tmp_path, 1.0).verdict in (Verdict.PASS, Verdict.NOISE)


def test_a_wrong_bare_tensor_is_a_bug(tmp_path):
    result = found(tmp_path, 1.01)
    assert result.verdict is Verdict.BUG, result.sentence()
