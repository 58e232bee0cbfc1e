"""Ports that write out what the reference does in one call, or do the same in other modules: what differs is told as
the one thing that it is, and what does not is no difference."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep import parity as px
from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

WIDTH, HEADS, LENGTH = 16, 2, 6


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, mask):
        q, k, v = (f(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for f in (self.query, self.key, self.value))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.late, self.wide, self.narrow = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, mask):
        x = x + self.attention(self.norm(x), mask)
        return x + self.narrow(self.drop(F.silu(self.wide(self.late(x)))))


class Reference(nn.Module):
    def __init__(self):
        super().__init__()
        self.places, self.first = nn.Embedding(LENGTH + 2, WIDTH), nn.Linear(5, WIDTH)
        self.blocks, self.last = nn.ModuleList(Block() for _ in range(2)), nn.Linear(WIDTH, 3)

    def forward(self, x, mask):
        x = self.first(x) + self.places(torch.arange(LENGTH)[None])
        hidden = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, -1e9)[:, None, None]
        for block in self.blocks:
            x = block(x, hidden)
        return self.last(x)


class WrittenOut(nn.Module):
    """One function over a table, tokens before the batch, every call taken apart."""

    def __init__(self, weights, fault=""):
        super().__init__()
        self.weights, self.fault = weights, fault

    def dense(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, x):
        eps = 1e-3 if self.fault == "eps" else 1e-5
        x = x - x.mean(-1, keepdim=True)
        x = x / torch.sqrt(x.var(-1, keepdim=True, unbiased=self.fault == "unbiased") + eps)
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def heads(self, x):
        length, batch, _ = x.shape
        if self.fault == "heads":
            return x.reshape(length, batch, -1, HEADS).permute(1, 3, 0, 2)
        return x.reshape(length, batch, HEADS, -1).permute(1, 2, 0, 3)

    def attention(self, name, x, mask):
        q, k, v = (self.heads(self.dense(f"{name}.{part}", x)) for part in ("query", "key", "value"))
        if self.fault == "exchanged":
            k, v = v, k
        scores = q @ k.transpose(-1, -2) * (1.0 if self.fault == "scale" else q.shape[-1] ** -0.5)
        if self.fault == "behind":
            weights = scores.softmax(-1) * mask[:, None, None].to(scores.dtype)
        else:
            weights = (scores + (~mask)[:, None, None] * -1e9).softmax(-1)
        mixed = (weights @ v).permute(2, 0, 1, 3)
        return self.dense(f"{name}.out", mixed.reshape(x.shape))

    def act(self, x):
        return F.relu(x) if self.fault == "relu" else x * torch.sigmoid(x)

    def forward(self, x, mask):
        begin = 1 if self.fault == "places" else 0
        table = self.weights["places.weight"][begin : begin + LENGTH]
        x = self.dense("first", x.transpose(0, 1)) + table[:, None]
        for i in range(2):
            name = f"blocks.{i}"
            x = x + self.attention(f"{name}.attention", self.norm(f"{name}.norm", x), mask)
            x = x + self.dense(f"{name}.narrow", self.act(self.dense(f"{name}.wide", self.norm(f"{name}.late", x))))
        return self.dense("last", x).transpose(0, 1)


def found(folder, fault):
    reference = seeded(Reference())
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[1, 4:] = False
    port = WrittenOut({k: v.clone() for k, v in reference.state_dict().items()}, fault)
    x = drawn(2, LENGTH, 5)
    return diagnosed(folder, reference, port, lambda m: m(x, mask), evaluations=400)


def test_the_right_port_agrees(tmp_path):
    assert found(tmp_path, "").verdict in ("PASS", "NOISE")


@pytest.mark.parametrize(
    ("fault", "name", "words", "place"),
    [
        ("eps", "norm_eps", "eps 0.001 instead of eps 1e-05", "norm"),
        ("unbiased", "norm_variance", "over n - 1", "norm"),
        ("scale", "attention_scale", "times 1 (none) instead of times 0.353553", "attention"),
        ("exchanged", "operand_order", "key and value of the attention are exchanged", "attention"),
        ("heads", "axes_swapped", "reshape(6, 2, -1, 2)", "attention"),
        ("behind", "attention_mask", "behind the softmax instead of added before it", "attention"),
        ("relu", "activation", "relu", "blocks.0"),
        ("places", "index_offset", "one off: rows [1, 2, 3]… instead of [0, 1, 2]…", "places"),
    ],
)
def test_one_thing_is_told_of_what_is_written_out(tmp_path, fault, name, words, place):
    result = found(tmp_path, fault)
    first = result.causes[0]
    assert (first.name, first.standing) == (name, Standing.PROVEN), first.why
    assert words in first.why, first.why
    assert place in str((result.place or result.first).key)


class Modulated(nn.Module):
    """A norm with its modulation, as the reference has it: what it gives is normed already."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x, vector):
        shift, scale, gate = self.linear(F.silu(vector)).chunk(3, dim=-1)
        return F.layer_norm(x, (WIDTH,)) * (1 + scale[:, None]) + shift[:, None], gate


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.dense = Modulated(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, vector):
        h, gate = self.norm(x, vector)
        return x + gate[:, None] * self.dense(h)


class Modulation(nn.Module):
    """The port's: the three vectors alone, and the activation done before."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, vector):
        return self.linear(vector).chunk(3, dim=-1)


class PortedLayer(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.mod, self.dense, self.fault = Modulation(), nn.Linear(WIDTH, WIDTH), fault

    def forward(self, x, vector):
        shift, scale, gate = self.mod(vector)
        h = self.dense(F.layer_norm(x, (WIDTH,)) * (1 + scale[:, None]) + shift[:, None])
        return x + (h if self.fault else gate[:, None] * h)


class Tower(nn.Module):
    def __init__(self, layers, before):
        super().__init__()
        self.layers, self.before = nn.ModuleList(layers), before

    def forward(self, x, vector):
        vector = F.silu(vector) if self.before else vector
        for layer in self.layers:
            x = layer(x, vector)
        return x


@pytest.mark.parametrize("fault", ["", "gate"])
def test_modules_that_give_other_things_are_not_compared_by_them(tmp_path, fault):
    reference = seeded(Tower([Layer(), Layer()], before=False))
    port = Tower([PortedLayer(fault), PortedLayer(fault)], before=True).eval()
    port.load_state_dict({k.replace("norm.", "mod."): v for k, v in reference.state_dict().items()})
    x, vector = drawn(2, LENGTH, WIDTH), drawn(2, WIDTH, seed=4)
    result = diagnosed(tmp_path, reference, port, lambda m: m(x, vector), evaluations=400)
    if not fault:
        assert result.verdict in ("PASS", "NOISE"), result.sentence()
        return
    assert result.first.key.path.partition("/")[0] == "model.layers.0", result.sentence()
    first = result.causes[0]
    assert first.standing is Standing.PROVEN, first.why
    assert first.name == "left_out" or "x + (gate[:, None] * h" in first.evidence["after"], first.why


class Packed(nn.Module):
    """Query, key and value as one bare parameter."""

    def __init__(self, source):
        super().__init__()
        parts = (source.query, source.key, source.value)
        self.packed = nn.Parameter(torch.cat([part.weight for part in parts]))
        self.offset = nn.Parameter(torch.cat([part.bias for part in parts]))
        self.out = source.out

    def forward(self, x, mask):
        q, k, v = F.linear(x, self.packed, self.offset).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in (q, k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Mixer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), attention

    def forward(self, x, mask):
        return self.attention(self.norm(x), mask)


def test_a_part_of_a_packed_weight_is_not_the_module_around_it(tmp_path):
    reference = seeded(Mixer(Attention()))
    port = Mixer(Packed(reference.attention)).eval()
    port.norm = reference.norm
    x, mask = drawn(2, LENGTH, WIDTH), torch.zeros(2, 1, 1, LENGTH)
    mask[1, ..., 4:] = -1e9
    for model, path in ((reference, "a.trace"), (port, "b.trace")):
        with px.record(model, tmp_path / path, level="module+ops"), torch.no_grad():
            model(x, mask)
    floor = px.floor(reference, tmp_path / "a.trace", runs=("ulp", "ulp"))
    first = px.compare(tmp_path / "a.trace", tmp_path / "b.trace", floor=floor).first
    # the mask is missing in the code of the attention; what the query gives is right
    assert first.key.path in ("model.attention/scaled_dot_product_attention.0", "model.attention.out")
