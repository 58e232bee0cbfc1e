"""Steps in another form on either side, with a fault behind the form: what is told is the fault."""

from __future__ import annotations

from inspect import getsourcelines

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

CHANNELS, PATCH, WIDTH, HEADS, LAYERS = 3, 2, 16, 2, 2
LANES = WIDTH // HEADS


def turns(tokens):
    angles = (torch.arange(tokens)[:, None] * 10.0 ** -torch.arange(LANES // 2)[None])[:, None]
    return angles.cos(), angles.sin()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.value, self.bias = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Embedding(15, HEADS)

    def places(self, tokens):
        at = torch.arange(tokens)
        return self.bias((at[None] - at[:, None]).clamp(-7, 7) + 7).permute(2, 0, 1)[None]

    def turned(self, x, cos, sin):
        """Into a tensor that is written piece by piece."""
        first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
        made = torch.empty_like(x)
        made[..., 0::2] = first * cos - second * sin
        made[..., 1::2] = first * sin + second * cos
        return made

    def scores(self, x, keep):
        query = self.turned(self.query(x).unflatten(-1, (HEADS, -1)), *turns(x.shape[1]))
        scores = query.transpose(1, 2) @ x.unflatten(-1, (HEADS, -1)).permute(0, 2, 3, 1)
        return scores + self.places(x.shape[1]) + torch.zeros(keep.shape).masked_fill(~keep, -1e38)

    def forward(self, x, keep):
        value = self.value(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return x + (self.scores(x, keep).softmax(-1) @ value).transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.patches = nn.Conv2d(CHANNELS, WIDTH, PATCH, stride=PATCH)
        self.blocks, self.last = nn.ModuleList(block() for _ in range(LAYERS)), nn.Linear(WIDTH, CHANNELS)

    def laid(self, picture):
        return self.patches(picture).flatten(2).transpose(1, 2)

    def forward(self, picture, keep):
        x = self.laid(picture)
        for block in self.blocks:
            x = block(x, keep)
        return self.last(x)


class Written(Model):
    """Patches as rows that are multiplied, with the bias added."""

    def rows(self, picture):
        return F.unfold(picture, PATCH, stride=PATCH).transpose(1, 2)

    def bias(self):
        return self.patches.bias

    def laid(self, picture):
        return self.rows(picture) @ self.patches.weight.flatten(1).T + self.bias()


class WithoutBias(Written):
    def laid(self, picture):
        return self.rows(picture) @ self.patches.weight.flatten(1).T


class ChannelsLast(Written):
    def rows(self, picture):
        rows = super().rows(picture).unflatten(-1, (CHANNELS, PATCH, PATCH))
        return rows.permute(0, 1, 3, 4, 2).flatten(2)


class Stacked(Block):
    def turned(self, x, cos, sin):
        first, second = x[..., 0::2], x[..., 1::2]
        return torch.stack([first * cos + second * sin, second * cos - first * sin], -1).flatten(-2)


class OfTheFirst(Block):
    """Hides keys with another number, and calls what is the first block's in all of them."""

    def __init__(self):
        super().__init__()
        self.others: list[Block] = []

    def scores(self, x, keep):
        places = self.others[0].places(x.shape[1])
        query = self.turned(self.query(x).unflatten(-1, (HEADS, -1)), *turns(x.shape[1]))
        scores = query.transpose(1, 2) @ x.unflatten(-1, (HEADS, -1)).permute(0, 2, 3, 1)
        return (scores + places).masked_fill(~keep, -torch.inf)


class FirstPlaces(Model):
    def __init__(self):
        super().__init__(OfTheFirst)
        for block in self.blocks:
            block.others.append(self.blocks[0])


KEEP = torch.arange(6) < 5


def of(folder, kind):
    port = kind().eval()
    reference = seeded(Model())
    port.load_state_dict(reference.state_dict())
    return diagnosed(folder, reference, port, lambda model: model(drawn(2, CHANNELS, 4, 6), KEEP), evaluations=600)


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (WithoutBias, "missing_bias", "bias"),
        (ChannelsLast, "axes_swapped", "the order rows, columns, channels instead of"),
        (lambda: Model(Stacked), "sign", "turned the other way round"),
    ],
    ids=["bias", "patches", "rotation"],
)
def test_the_fault_is_told_and_not_the_form(tmp_path, kind, name, words):
    cause = of(tmp_path, kind).causes[0]
    assert (cause.name, cause.standing) == (name, Standing.PROVEN), cause.why
    assert words in cause.why, cause.why


def test_what_is_another_layers_is_told_with_the_ports_own_line_behind_another_form_of_the_mask(tmp_path):
    cause = of(tmp_path, FirstPlaces).causes[0]
    assert (cause.name, cause.standing) == ("wrong_module", Standing.PROVEN), cause.why
    assert "`model.blocks.0.bias` is called in the place of `model.blocks.1.bias`" in cause.why, cause.why
    line = getsourcelines(OfTheFirst.scores)[1] + 1  # not that of the helper, which the reference calls as well
    assert f"test_other_forms.py:{line} " in cause.fix, cause.fix


def test_patches_as_rows_are_right(tmp_path):
    assert of(tmp_path, Written).verdict == "PASS"
