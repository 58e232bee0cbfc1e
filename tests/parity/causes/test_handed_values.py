"""What a pipeline hands to its models: an argument left out, rows in another order for several calls, a time between
two steps, filled rows of several lengths."""

from __future__ import annotations

import itertools

import torch
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, words, mask=None):
        seen = self.first(words)
        if mask is not None:
            seen = seen * mask[..., None]
        return self.last(torch.tanh(seen) + seen.mean(1, keepdim=True))


class Velocity(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.told, self.out = (
            nn.Conv2d(4, 8, 3, padding=1),
            nn.Linear(6, 8),
            nn.Conv2d(8, 4, 3, padding=1),
        )

    def forward(self, x, timestep, text):
        told = self.told(text).mean(1) + torch.sin(timestep / 100)[:, None]
        return self.out(torch.tanh(self.into(x) + told[:, :, None, None]))


class Pipeline:
    def __init__(self, fault=""):
        self.text, self.net, self.fault = seeded(Text()), seeded(Velocity()), fault

    def encode(self, words, mask):
        states = self.text(words, mask=None if self.fault == "mask" else mask)
        lengths = mask.sum(1).int()
        kept = [
            torch.cat([s[:n], s[n:] if self.fault == "filled" else s.new_zeros(len(s) - n, 6)])
            for s, n in zip(states, lengths, strict=True)
        ]
        return torch.stack(kept)

    @torch.no_grad()
    def __call__(self, seed):
        mask = torch.tensor([[1.0, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
        rows = self.encode(drawn(2, 5, 6, seed=seed), mask)
        yes, no = (rows.flip(0) if self.fault == "rows" else rows).chunk(2)
        x, times = drawn(1, 4, 6, 8, seed=3), [900.0, 700.0, 400.0, 0.0]
        for now, after in itertools.pairwise(times):
            t = torch.tensor([(now + after) / 2 if self.fault == "middle" else now])
            wanted, empty = self.net(x, t, yes), self.net(x, t, no)
            x = x + (after - now) / 1000 * (empty + 3 * (wanted - empty))
        return x


def cause_of(folder, fault):
    result = diagnosed(folder, Pipeline(), Pipeline(fault), lambda pipe: pipe(seed=1), limit=1, evaluations=600)
    assert result.verdict == "BUG", result.sentence()
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    return result.causes[0]


def test_an_argument_that_is_left_out_is_named_with_the_line_of_the_call(tmp_path):
    cause = cause_of(tmp_path, "mask")
    assert cause.name == "argument_left_out", cause.why
    assert "`text` is called without `mask`" in cause.why
    assert "test_handed_values.py" in cause.fix


def test_rows_that_are_given_to_the_wrong_call_are_put_right_in_each(tmp_path):
    cause = cause_of(tmp_path, "rows")
    assert cause.name in ("split_order", "wrong_operand"), cause.why


def test_rows_of_several_lengths_are_put_right_by_where_they_are_made(tmp_path):
    """One line takes apart the states and their lengths: what it made last is not what it made first."""
    cause = cause_of(tmp_path, "filled")
    assert "unbind(text(…), 0)[0]" in cause.why, cause.why


def test_the_time_of_a_steps_middle_is_told(tmp_path):
    cause = cause_of(tmp_path, "middle")
    assert (cause.name, "0.5 of the way to the next" in cause.why) == ("step_offset", True), cause.why
