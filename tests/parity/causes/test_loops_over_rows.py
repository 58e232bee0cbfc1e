"""A mistake in a loop of Python over rows: in each turn of it, and in tiles that are made of each other."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

SIZE, TILE, STEP, OVER, KEEP = 14, 6, 4, 2, 4
PICTURE = drawn(1, 4, SIZE, SIZE)


class Tiled(nn.Module):
    """Tiles of a picture, each blended row by row into the one above and then into the one beside it, in place."""

    def __init__(self):
        super().__init__()
        self.decoder = nn.Conv2d(4, 3, 3, padding=1)

    def taken(self, y):
        return y - OVER

    def blend_rows(self, a, b):
        for y in range(min(OVER, b.shape[2])):
            b[:, :, y] = a[:, :, self.taken(y)] * (1 - y / OVER) + b[:, :, y] * (y / OVER)

    def blend_columns(self, a, b):
        for x in range(min(OVER, b.shape[3])):
            b[..., x] = a[..., x - OVER] * (1 - x / OVER) + b[..., x] * (x / OVER)

    def forward(self, x):
        starts = range(0, SIZE, STEP)
        rows = [[self.decoder(x[:, :, i : i + TILE, j : j + TILE]) for j in starts] for i in starts]
        for i, row in enumerate(rows):
            for j, tile in enumerate(row):
                if i > 0:
                    self.blend_rows(rows[i - 1][j], tile)
                if j > 0:
                    self.blend_columns(row[j - 1], tile)
        return torch.cat([torch.cat([tile[:, :, :KEEP, :KEEP] for tile in row], 3) for row in rows], 2)


class Mirrored(Tiled):
    def taken(self, y):
        return -y - 1


class Written(nn.Module):
    """The same as one weighted sum for each border, with the channels last."""

    def __init__(self, source, extent):
        super().__init__()
        self.conv, self.extent = source.decoder, extent

    def decode(self, x):
        return self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    def blend(self, a, b, axis):
        n = min(OVER, b.shape[axis])
        ramp = (torch.arange(n) / self.extent(n, b.shape[axis])).view([n if i == axis else 1 for i in range(4)])
        begin = a.narrow(axis, a.shape[axis] - OVER, n) * (1 - ramp) + b.narrow(axis, 0, n) * ramp
        return torch.cat([begin, b.narrow(axis, n, b.shape[axis] - n)], axis)

    def forward(self, x):
        x, starts = x.permute(0, 2, 3, 1), range(0, SIZE, STEP)
        rows = [[self.decode(x[:, i : i + TILE, j : j + TILE]) for j in starts] for i in starts]
        for i, row in enumerate(rows):
            for j, tile in enumerate(row):
                tile = self.blend(rows[i - 1][j], tile, 1) if i > 0 else tile
                row[j] = self.blend(row[j - 1], tile, 2) if j > 0 else tile
        whole = torch.cat([torch.cat([tile[:, :KEEP, :KEEP] for tile in row], 2) for row in rows], 1)
        return whole.permute(0, 3, 1, 2)


def cause_of(folder, reference, port):
    cause = diagnosed(folder, reference, port, lambda model: model(PICTURE), evaluations=400).causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "test_loops_over_rows.py:" in cause.fix, cause.fix
    return cause


def test_a_mirrored_row(tmp_path):
    reference, port = seeded(Tiled()), seeded(Mirrored())
    assert "[:, :, -1] " in cause_of(tmp_path, reference, port).why


def test_a_ramp_over_another_extent(tmp_path):
    reference = seeded(Tiled())
    port = Written(reference, lambda overlap, whole: whole)
    assert "weights 1, 0.833 instead of 1, 0.5" in cause_of(tmp_path, reference, port).why
