"""Everything in the port is written otherwise, and one thing is otherwise: only that is told, and at its place.

Group norms and activations are written out with the channels last, rotations are complex numbers, attentions are
`einsum`, and residuals are added in place: none of it is a difference.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity import compare, record
from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

CHANNELS, HEADS, WIDTH, ROWS, COLUMNS = 16, 2, 8, 3, 5
PICTURE = torch.randn(2, CHANNELS, ROWS, COLUMNS, generator=torch.Generator().manual_seed(1))
ANGLES = torch.outer(torch.arange(ROWS * COLUMNS), 10.0 ** -torch.arange(WIDTH // 2))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, CHANNELS), nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.shift = nn.Parameter(torch.zeros(CHANNELS))

    def forward(self, x):
        return x + self.conv(F.silu(self.norm(x + self.shift[:, None, None])))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(CHANNELS, CHANNELS) for _ in range(4))
        self.norm_q, self.norm_k = Scaled(), Scaled()

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        q, k = (self.turned(norm(value)) for norm, value in ((self.norm_q, q), (self.norm_k, k)))
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def turned(self, x):
        cos, sin, a, b = ANGLES.cos(), ANGLES.sin(), x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mixing, self.last = Residual(), Mixing(), Residual()

    def forward(self, x):
        first = self.first(x)
        tokens = self.mixing(first.flatten(2).transpose(1, 2))
        return self.last(tokens.transpose(1, 2).unflatten(2, (ROWS, COLUMNS)) + first)


class Function(nn.Module):
    """One function over a table of weights, channels last."""

    def __init__(self, reference, fault=""):
        super().__init__()
        self.fault, self.w = fault, {name: t.detach().clone() for name, t in reference.named_parameters()}

    def forward(self, x):
        first = self.residual(x.permute(0, 2, 3, 1), "first")
        x = self.mixed(first.flatten(1, 2)).unflatten(1, (ROWS, COLUMNS))
        if self.fault == "in place":
            first += x
        return self.residual(x + first, "last").permute(0, 3, 1, 2)

    def residual(self, x, name):
        h, shift = x, self.w[f"{name}.shift"]
        if self.fault == "shift behind":
            h = self.silu(self.normed(h, name) + shift)
        elif self.fault == "activation before":
            h = self.normed(self.silu(h + shift), name)
        else:
            h = self.silu(self.normed(h + shift, name))
        h = F.conv2d(h.permute(0, 3, 1, 2), self.w[f"{name}.conv.weight"], self.w[f"{name}.conv.bias"], padding=1)
        return x + h.permute(0, 2, 3, 1)

    def silu(self, x):
        return F.relu(x) if self.fault == "relu" else x / (1 + torch.exp(-x))

    def normed(self, x, name):
        groups = 8 if self.fault == "groups" else 4
        parts = x.flatten(1, 2).unflatten(-1, (groups, -1))
        mean, variance = parts.mean((1, 3), keepdim=True), parts.var((1, 3), keepdim=True, unbiased=False)
        parts = ((parts - mean) / torch.sqrt(variance + 1e-5)).reshape(x.shape)
        return parts * self.w[f"{name}.norm.weight"] + self.w[f"{name}.norm.bias"]

    def mixed(self, x):
        heads = 4 if self.fault == "heads" else HEADS
        query, key, value = (self.layer(x, name).unflatten(-1, (HEADS, -1)) for name in ("query", "key", "value"))
        if self.fault == "rotation before":
            query, key = self.scaled(self.turned(query), "q"), self.scaled(self.turned(key), "k")
        elif self.fault == "key not normed":
            query, key = self.turned(self.scaled(query, "q")), self.turned(key)
        else:
            query, key = self.turned(self.scaled(query, "q")), self.turned(self.scaled(key, "k"))
        query, key, value = (part.flatten(2).unflatten(-1, (heads, -1)) for part in (query, key, value))
        scores = torch.einsum("bnhd,bmhd->bhnm", query, key) * (CHANNELS // heads) ** -0.5
        if self.fault == "masked":
            scores = scores + torch.full(scores.shape[-2:], float("-inf")).triu(1)
        mixed = torch.einsum("bhnm,bmhd->bnhd", scores.softmax(-1), value).flatten(2)
        return x + self.layer(mixed, "out")

    def scaled(self, x, which):
        eps = 1e-2 if self.fault == "eps" else 1e-6
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * self.w[f"mixing.norm_{which}.weight"]

    def turned(self, x):
        table = torch.polar(torch.ones_like(ANGLES), ANGLES)[None, :, None]
        if self.fault == "halves":
            turned = torch.complex(*x.chunk(2, -1)) * table
            return torch.cat([turned.real, turned.imag], -1)
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
        turned = turned * (table.conj() if self.fault == "other way" else table)
        return torch.view_as_real(turned).flatten(-2)

    def layer(self, x, name):
        return torch.einsum("...i,oi->...o", x, self.w[f"mixing.{name}.weight"]) + self.w[f"mixing.{name}.bias"]


def told(folder, fault):
    reference = seeded(Model())
    return diagnosed(folder, reference, Function(reference, fault), lambda model: model(PICTURE), evaluations=150)


def test_what_is_only_written_otherwise_is_no_difference(tmp_path):
    assert told(tmp_path, "").verdict == "PASS"


@pytest.mark.parametrize(
    ("fault", "at", "name", "words"),
    [
        ("shift behind", "model.first", "order_exchanged", "before the sum with"),
        ("activation before", "model.first", "order_exchanged", "`silu` before `norm`"),
        ("relu", "model.first", "activation", "ReLU instead of SiLU"),
        ("groups", "model.first.norm", "norm_groups", "8 groups instead of 4"),
        ("rotation before", "model.mixing", "order_exchanged", "the rotation before `norm_q`"),
        ("key not normed", "model.mixing", "left_out", "`key(…)` instead of"),
        ("eps", "model.mixing.norm_q", "norm_eps", "eps 0.01 instead of eps 1e-06"),
        ("halves", "model.mixing", "rope_lanes", "lanes of the two halves instead of neighbouring lanes"),
        ("other way", "model.mixing", "sign", "turned the other way round"),
        ("heads", "model.mixing", "attention_heads", "4 heads instead of 2"),
        ("masked", "model.mixing", "attention_mask", "has a mask, and should have none"),
        ("in place", "model", "in_place", "is overwritten by `add` in place"),
    ],
)
def test_the_one_thing_is_told(tmp_path, fault, at, name, words):
    result = told(tmp_path, fault)
    assert result.verdict == "BUG", result.sentence()
    cause = result.causes[0]
    assert (cause.name, cause.standing) == (name, Standing.PROVEN), cause.why
    assert words in cause.why, cause.why
    assert (result.place or result.first).key.path.startswith(at), result.sentence()


class Capped(nn.Module):
    """Scores under a soft cap and a mask whose numbers stand for minus infinity."""

    def __init__(self, cap=5.0, divided=True):
        super().__init__()
        self.proj, self.cap, self.divided = nn.Linear(8, 24), cap, divided

    def forward(self, x):
        q, k, v = self.proj(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2)
        scores = torch.tanh(scores / self.cap if self.divided else scores) * self.cap
        mask = torch.full((5, 5), torch.finfo(torch.float32).min).triu(1)
        return torch.softmax(scores + mask, -1) @ v


def test_a_mask_hides_no_difference_before_it(tmp_path):
    for name, divided in (("a.trace", True), ("b.trace", False)):
        model = seeded(Capped(divided=divided))
        with torch.no_grad(), record(model, tmp_path / name, keep="full", level="module+ops"):
            model(drawn(2, 5, 8))
    result = compare(tmp_path / "a.trace", tmp_path / "b.trace")
    assert result.first.key.path.endswith("tanh.0"), result.sentence()


class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 6)

    def forward(self, x, timestep):
        return self.first(x) * torch.cos(timestep / 100 + torch.arange(6))


class Fractional(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Timed()

    def forward(self, x):
        for t in (torch.tensor([981.3, 785.7, 402.6]) / 1.5).unbind():
            x = x - 0.1 * self.net(x, t)
        return x


class Whole(Fractional):
    def forward(self, x):
        for t in (654.0, 524.0, 268.0):
            x = x - 0.1 * self.net(x, torch.tensor(t))
        return x


def test_a_number_that_was_made_whole_is_told_so(tmp_path):
    result = diagnosed(tmp_path, seeded(Fractional()), seeded(Whole()), lambda m: m(drawn(2, 6)))
    assert "rounded to a whole number: 654 for 654.2" in result.causes[0].why, result.causes[0].why
