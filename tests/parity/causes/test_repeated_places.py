"""One fault in many places is one cause: a helper that every layer calls, a step that moved, a part of a method."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, is_named, seeded

WIDTH, LENGTH, DEPTH = 16, 8, 6


def drawn(*shape, seed=5):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, LENGTH * LENGTH), nn.Linear(LENGTH * LENGTH, WIDTH)

    def forward(self, x):
        query, key, value = self.qkv(self.norm(x)).chunk(3, dim=-1)
        x = x + self.out(F.scaled_dot_product_attention(query, key, value, is_causal=True))
        return x + self.narrow(F.silu(self.wide(x)))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Function(nn.Module):
    """The same as one function over a table of weights."""

    def __init__(self, weights, fault=""):
        super().__init__()
        self.weights, self.fault = weights, fault

    def norm(self, x, name):
        w = self.weights
        if self.fault == "squares":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]
        return F.layer_norm(x, (WIDTH,), w[f"{name}.weight"], w[f"{name}.bias"])

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def forward(self, x):
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        for i in range(DEPTH):
            query, key, value = self.linear(self.norm(x, f"layers.{i}.norm"), f"layers.{i}.qkv").split(WIDTH, dim=-1)
            scores = query @ key.transpose(-1, -2) / WIDTH**0.5
            mixed = scores.softmax(-1) * (mask == 0) if self.fault == "mask behind" else (scores + mask).softmax(-1)
            x = x + self.linear(mixed @ value, f"layers.{i}.out")
            x = x + self.linear(F.silu(self.linear(x, f"layers.{i}.wide")), f"layers.{i}.narrow")
        return x


def encoded(folder, fault):
    reference = seeded(Encoder())
    x = drawn(2, LENGTH, WIDTH)
    return diagnosed(folder, reference, Function(dict(reference.state_dict()), fault), lambda model: model(x))


def test_a_mask_with_infinities_is_not_taken_for_another_value_of_its_size(tmp_path):
    """The mask has as many numbers as the bias of a layer, and no length that could be compared."""
    is_named(encoded(tmp_path, "mask behind"), "attention_mask", "behind the softmax")


def test_a_helper_that_every_layer_calls_is_one_cause(tmp_path):
    result = encoded(tmp_path, "squares")
    first = result.causes[0]
    assert first.standing is Standing.PROVEN, first.why
    assert "rms norm (no mean taken off) instead of `layer_norm`" in first.why
    assert result.explained.verdict in ("PASS", "NOISE")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(4, 8), nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, z):
        return z + F.silu(self.conv(F.silu(self.norm(z))))


class Decoder(nn.Module):
    """Run by a method, as a VAE is."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def decode(self, z):
        z = self.first(z)
        for block in self.blocks:
            z = block(z)
        return self.last(z)

    def forward(self, z):
        return self.decode(z)


class DecodingFunction(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, z):
        w = self.weights
        z = F.conv2d(z, w["first.weight"], w["first.bias"], padding=1)
        for i in range(2):
            x = F.silu(F.group_norm(z, 4, w[f"blocks.{i}.norm.weight"], w[f"blocks.{i}.norm.bias"]))
            z = z + torch.atan(F.conv2d(x, w[f"blocks.{i}.conv.weight"], w[f"blocks.{i}.conv.bias"], padding=1))
        return F.conv2d(z, w["last.weight"], w["last.bias"], padding=1)


def test_inside_of_a_method_the_steps_are_put_side_by_side(tmp_path):
    reference, z = seeded(Decoder()), drawn(2, 4, 5, 6)
    port = DecodingFunction(dict(reference.state_dict()))
    result = diagnosed(tmp_path, reference, port, lambda m: m.decode(z) if m is reference else m(z))
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    assert "atan" in result.causes[0].why


def turned(x, table, halves=False):
    a, b = x.chunk(2, dim=-1) if halves else (x[..., ::2], x[..., 1::2])
    c, s = table.cos(), table.sin()
    both = a * c - b * s, a * s + b * c
    return torch.cat(both, -1) if halves else torch.stack(both, -1).flatten(-2)


class Turning(nn.Module):
    """Attention with rotations; some have a gate beside it."""

    def __init__(self, gated=False):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        if gated:
            self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, table, halves=False, both=True):
        query, key, value = (f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        query, key = turned(query, table, halves), turned(key, table, halves) if both else key
        x = self.to_out(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return x * self.gate(x).sigmoid() if hasattr(self, "gate") else x


class Rotary(nn.Module):
    halves, both = False, True

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Turning(gated=i == 1) for i in range(DEPTH))

    def forward(self, x):
        table = torch.arange(LENGTH)[:, None] * 10.0 ** -torch.arange(WIDTH // 4)
        for layer in self.layers:
            x = x + layer(x, table, self.halves, self.both)
        return x


class OtherLanes(Rotary):
    halves = True


class KeyAsItIs(Rotary):
    both = False


def test_lanes_are_put_right_in_every_attention_whatever_stands_beside_it(tmp_path):
    reference, x = seeded(Rotary()), drawn(2, LENGTH, WIDTH)
    port = OtherLanes()
    port.load_state_dict(reference.state_dict())
    result = diagnosed(tmp_path, reference, port.eval(), lambda model: model(x))
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    assert len(result.causes) == 1
    assert result.explained.verdict in ("PASS", "NOISE")


def test_a_key_that_is_not_turned_has_no_other_table(tmp_path):
    reference, x = seeded(Rotary()), drawn(2, LENGTH, WIDTH)
    port = KeyAsItIs()
    port.load_state_dict(reference.state_dict())
    result = diagnosed(tmp_path, reference, port.eval(), lambda model: model(x))
    is_named(result, "rope_missing")


class Scaled(nn.Module):
    """Attention of another width in every layer, so that the wrong number is another one, too."""

    def __init__(self, width):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(width, width) for _ in range(4))

    def width(self, x):
        return x.shape[-1] // 2

    def forward(self, x):
        heads = [f(x).unflatten(-1, (2, -1)).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v)]
        scores = heads[0] @ heads[1].transpose(-1, -2) * self.width(x) ** -0.5
        return self.to_out((scores.softmax(-1) @ heads[2]).transpose(1, 2).flatten(2))


class ScaledByAll(Scaled):
    def width(self, x):
        return x.shape[-1]


class Widening(nn.Module):
    def __init__(self, kind=Scaled):
        super().__init__()
        self.layers = nn.ModuleList(kind(width) for width in (8, 16, 32, 64, 128))
        self.up = nn.ModuleList(nn.Linear(width, 2 * width) for width in (8, 16, 32, 64))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = x + layer(x)
            x = self.up[i](x) if i < len(self.up) else x
        return x


def test_one_line_with_another_number_in_every_layer_is_one_cause(tmp_path):
    reference, x = seeded(Widening()), drawn(2, LENGTH, 8)
    port = Widening(ScaledByAll)
    port.load_state_dict(reference.state_dict())
    result = diagnosed(tmp_path, reference, port.eval(), lambda model: model(x))
    assert [cause.standing for cause in result.causes] == [Standing.PROVEN], [c.why for c in result.causes]
    assert result.explained.verdict in ("PASS", "NOISE")


class Shortcut(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.conv, self.shortcut = nn.GroupNorm(2, 4), nn.Conv2d(4, 7, 3, padding=1), nn.Conv2d(4, 7, 1)
        self.last = nn.Conv2d(7, 3, 3, padding=1)

    def forward(self, x):
        return self.last(self.conv(F.silu(self.norm(x))) + self.shortcut(x))


class ChannelsLast(Shortcut):
    """The layer of one pixel is a linear one, and is given what was normed."""

    def __init__(self, source):
        super().__init__()
        self.norm, self.conv, self.last, self.shortcut = source.norm, source.conv, source.last, nn.Linear(4, 7)
        with torch.no_grad():
            self.shortcut.weight.copy_(source.shortcut.weight[:, :, 0, 0])
            self.shortcut.bias.copy_(source.shortcut.bias)

    def forward(self, x):
        def wide(layer, y):
            return layer(y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

        h = F.silu(wide(self.norm, x))
        return wide(self.last, wide(self.conv, h) + self.shortcut(h))


def test_another_value_handed_on_in_another_layout_is_put_right(tmp_path):
    reference, x = seeded(Shortcut()), drawn(2, 4, 5, 6)
    port = ChannelsLast(reference)
    given = {id(reference): x, id(port): x.permute(0, 2, 3, 1).contiguous()}
    result = diagnosed(tmp_path, reference, port.eval(), lambda model: model(given[id(model)]))
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    assert "silu" in result.causes[0].why


class Modulated(nn.Module):
    """Scale, shift, a factor and an activation."""

    def __init__(self):
        super().__init__()
        self.norm, self.ada, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        scale, shift = self.parts(x.mean(1))
        return x + self.out(self.ready(self.norm(x) * (1 + scale[:, None]) + shift[:, None]))

    def parts(self, given):
        return self.ada(F.silu(given)).chunk(2, dim=-1)

    def ready(self, x):
        return x


class Exchanged(Modulated):
    def parts(self, given):
        return super().parts(given)[::-1]


class Halved(Modulated):
    def ready(self, x):
        return x * 0.5


class Plain(Modulated):
    def parts(self, given):
        return self.ada(given).chunk(2, dim=-1)


@pytest.mark.parametrize(("kind", "name"), [(Exchanged, "split_order"), (Halved, "scale"), (Plain, "activation")])
def test_what_was_seen_has_the_name_that_a_hypothesis_about_it_has(tmp_path, kind, name):
    x = drawn(2, LENGTH, WIDTH)
    reference, port = seeded(Modulated()), kind()
    port.load_state_dict(reference.state_dict())
    is_named(diagnosed(tmp_path, reference, port.eval(), lambda model: model(x)), name)
