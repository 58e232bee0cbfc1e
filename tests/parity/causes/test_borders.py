"""A border that is put around in two steps, or by the convolution's own code, and is made of other values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

VIDEO = drawn(1, 4, 5, 6, 6)


class Causal(nn.Conv3d):
    def forward(self, x):
        return super().forward(F.pad(x, (1, 1, 1, 1, 2, 0)))


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Causal(4, 4, 3), Causal(4, 4, 3)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)) + x)


class Table(nn.Module):
    """Over a table of weights; what lies before the first frame is the first frame."""

    def __init__(self, reference):
        super().__init__()
        self.table = nn.ParameterDict({k.replace(".", "_"): v for k, v in reference.state_dict().items()})

    def causal(self, name, x):
        before = x[:, :, :1].repeat(1, 1, 2, 1, 1)
        whole = torch.cat([before, x], 2)
        return F.conv3d(F.pad(whole, (1, 1, 1, 1)), self.table[f"{name}_weight"], self.table[f"{name}_bias"])

    def forward(self, x):
        return self.causal("second", torch.tanh(self.causal("first", x)) + x)


def test_the_first_frame_is_repeated_instead_of_zeros(tmp_path):
    reference = seeded(Video())
    cause = diagnosed(tmp_path, reference, Table(reference), lambda model: model(VIDEO), evaluations=60).causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert "repeat(" in cause.why, cause.why
    assert "pad(" in cause.why, cause.why
