"""A table that the code makes itself: with other ends or another length it is told with its line."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from parity.causes.test_classes import diagnosed, drawn, is_named, seeded

X = drawn(3, 6)


class Residuals(nn.Module):
    """Layers whose results count the more the deeper they are."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def scales(self, count, x):
        return torch.logspace(-1, 0, count + 1, device=x.device)

    def forward(self, x):
        given = [layer(x) for layer in self.layers]
        return torch.stack([y * scale for y, scale in zip(given, self.scales(len(given), x), strict=False)])


class OtherEnd(Residuals):
    def scales(self, count, x):
        return torch.logspace(-2, 0, count + 1)


class OtherCount(Residuals):
    def scales(self, count, x):
        return torch.logspace(-1, 0, count, device=x.device)


@pytest.mark.parametrize(
    ("kind", "words"),
    [(OtherEnd, "-2 instead of -1 in `logspace`"), (OtherCount, "4 instead of 5 in `logspace`")],
)
def test_scales_of_another_table(tmp_path, kind, words):
    result = diagnosed(tmp_path, seeded(Residuals()), seeded(kind()), lambda model: model(X), evaluations=200)
    is_named(result, "constant", words)
    assert "test_made_tables.py:" in result.causes[0].fix, result.causes[0].fix
