"""A wrong value that a part keeps for its next call: the call that makes it is right, and the place all the same."""

from __future__ import annotations

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

FRAMES = drawn(1, 4, 5, 6)


class Causal(nn.Module):
    """A convolution along the frames, one by one; the last two are kept in a list that is handed in."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, (3, 1))

    def last(self, kept):
        return kept[:, :, -1:]

    def forward(self, x, kept, at):
        before = kept[at] if kept[at] is not None else torch.zeros_like(x).repeat(1, 1, 2, 1)
        kept[at] = torch.cat([self.last(before), x], 2)
        return self.conv(torch.cat([before, x], 2)) + x


class Oldest(Causal):
    def last(self, kept):
        return kept[:, :, :1]


class Video(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.first, self.second = causal(), causal()

    def forward(self, x):
        kept = [None, None]
        made = [self.second(torch.tanh(self.first(frame, kept, 0)), kept, 1) for frame in x.split(1, 2)]
        return torch.cat(made, 2)


def test_the_wrong_frame_is_kept(tmp_path):
    reference, port = (seeded(Video(causal)) for causal in (Causal, Oldest))
    result = diagnosed(tmp_path, reference, port, lambda model: model(FRAMES), evaluations=400)
    cause = result.causes[0]
    assert cause.standing is Standing.PROVEN, cause.why
    assert result.first.key.path.startswith("model.first/"), result.first.key
