"""Faults of transformers in a port that is arranged otherwise: fused projections, no attention module, another table of
rotations. The repaired port agrees, and of a planted fault the right thing is said or nothing for certain."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep.parity.comparison.results import Standing
from parity.causes.test_classes import diagnosed, drawn, seeded

WIDTH, HEADS, TOKENS, WORDS = 16, 2, 12, 5
LANES = WIDTH // HEADS
KEPT = torch.tensor([[1.0] * (WORDS + TOKENS - 3) + [0.0] * 3, [1.0] * (WORDS + TOKENS)])


def sinusoid(x, dim=8):
    frequencies = torch.exp(-torch.arange(dim // 2) * (torch.log(torch.tensor(10000.0)) / (dim // 2)))
    angles = x[:, None] * frequencies[None]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def angles_of(tokens, theta=100.0):
    return torch.arange(tokens)[:, None] * theta ** (-torch.arange(0, LANES, 2) / LANES)[None]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm_q, self.norm_k = nn.RMSNorm(LANES, eps=1e-6), nn.RMSNorm(LANES, eps=1e-6)

    def forward(self, x, rotary, bias):
        query, key, value = (f(x).unflatten(-1, (HEADS, LANES)) for f in (self.to_q, self.to_k, self.to_v))
        query, key = (turned(n(v), *rotary) for n, v in ((self.norm_q, query), (self.norm_k, key)))
        query, key, value = (v.transpose(1, 2) for v in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.to_out(mixed.transpose(1, 2).flatten(2))


def turned(x, cos, sin):
    """Neighbouring lanes are turned against each other."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.modulation = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.attention, self.feed = Attention(), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, vector, rotary, bias):
        shift, scale, gate = self.modulation(F.silu(vector))[:, None].chunk(3, dim=-1)
        x = x + gate * self.attention(self.norm(x) * (1 + scale) + shift, rotary, bias)
        return x + self.feed(F.silu(x))


class Reference(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text, self.head = nn.Linear(4, WIDTH), nn.Linear(6, WIDTH), nn.Linear(WIDTH, 4)
        self.time, self.guidance = nn.Linear(8, WIDTH), nn.Linear(8, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, image, text, timestep, guidance, kept):
        vector = self.time(sinusoid(timestep * 1000)) + self.guidance(sinusoid(guidance * 1000))
        angles = angles_of(WORDS + TOKENS)
        bias = ((1 - kept) * -10000.0)[:, None, None]
        x = torch.cat([self.text(text), self.image(image)], dim=1)
        for block in self.blocks:
            x = block(x, vector, (angles.cos(), angles.sin()), bias)
        return self.head(x[:, WORDS:])


class PortBlock(nn.Module):
    """Everything in one module: projections fused, heads before tokens, rotations as matrices."""

    fault = ""

    def __init__(self):
        super().__init__()
        self.norm, self.modulation = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.qkv, self.out, self.feed = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.query_norm, self.key_norm = nn.RMSNorm(LANES, eps=1e-6), nn.RMSNorm(LANES, eps=1e-6)

    def forward(self, x, vector, table, bias):
        shift, scale, gate = self.modulation(F.silu(vector))[:, None].chunk(3, dim=-1)
        h = self.norm(x) * (1 + scale) + shift
        query, key, value = self.qkv(h).unflatten(-1, (3, HEADS, LANES)).permute(2, 0, 3, 1, 4)
        query, key = self.normed(self.query_norm, query), self.normed(self.key_norm, key)
        query, key = self.rotated(query, table), self.rotated(key, table)
        scores = query @ key.transpose(-1, -2) * LANES**-0.5 + bias
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = x + (self.out(mixed) if self.fault == "gate" else gate * self.out(mixed))
        return x + self.feed(F.silu(x))

    def normed(self, norm, x):
        if self.fault != "norm over heads":
            return norm(x)
        squares = x.square().mean(dim=(1, 3), keepdim=True)
        return x * (squares + 1e-6).rsqrt() * norm.weight

    def rotated(self, x, table):
        if self.fault == "halves":
            cos, sin = table[..., 0, 0], table[..., 1, 0]
            first, second = x.chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        pairs = x.unflatten(-1, (-1, 1, 2))
        return (table[..., 0] * pairs[..., 0] + table[..., 1] * pairs[..., 1]).flatten(-2)


class Port(nn.Module):
    fault = ""

    def __init__(self, reference, fault=""):
        super().__init__()
        self.image, self.text, self.head = reference.image, reference.text, reference.head
        self.time_in, self.guidance_in = reference.time, reference.guidance
        self.layers = nn.ModuleList(PortBlock() for _ in range(2))
        self.fault = fault
        for mine, theirs in zip(self.layers, reference.blocks, strict=True):
            mine.fault = fault
            attention = theirs.attention
            parts = (attention.to_q, attention.to_k, attention.to_v)
            mine.norm, mine.modulation, mine.feed, mine.out = (
                theirs.norm,
                theirs.modulation,
                theirs.feed,
                attention.to_out,
            )
            mine.query_norm, mine.key_norm = attention.norm_q, attention.norm_k
            with torch.no_grad():
                mine.qkv.weight.copy_(torch.cat([part.weight for part in parts]))
                mine.qkv.bias.copy_(torch.cat([part.bias for part in parts]))

    def forward(self, image, text, timestep, guidance, kept):
        vector = self.time_in(sinusoid(timestep if self.fault == "time" else timestep * 1000))
        if self.fault != "no guidance":
            vector = vector + self.guidance_in(sinusoid(guidance if self.fault == "guidance" else guidance * 1000))
        angles = angles_of(WORDS + TOKENS, 1000.0 if self.fault == "theta" else 100.0)
        cos, sin = angles.cos(), angles.sin()
        table = torch.stack([torch.stack([cos, sin], -1), torch.stack([-sin, cos], -1)], -1)
        bias = kept[:, None, None] if self.fault == "mask" else ((1 - kept) * -10000.0)[:, None, None]
        x = torch.cat([self.text(text), self.image(image)], dim=1)
        for layer in self.layers:
            x = layer(x, vector, table, bias)
        return self.head(x[:, WORDS:])


def told(folder, fault, **options):
    reference = seeded(Reference())
    given = drawn(2, TOKENS, 4), drawn(2, WORDS, 6, seed=2), torch.tensor([0.7, 0.31]), torch.tensor([3.5, 4.5]), KEPT
    return diagnosed(folder, reference, Port(reference, fault), lambda model: model(*given), **options)


def test_the_repaired_port_agrees(tmp_path):
    assert told(tmp_path, "").verdict == "PASS"


@pytest.mark.parametrize(
    ("fault", "at", "words"),
    [
        ("halves", "blocks.0", "halves instead of interleaved pairs"),
        ("theta", "blocks.0", "1000 instead of 100 in `rpow`"),
        ("norm over heads", "blocks.0", "instead of"),
        ("time", "model/mul", "`timestep` instead of `(timestep * 1000)`"),
        ("guidance", "model/mul", "`guidance` instead of `(guidance * 1000)`"),
        ("no guidance", "model", "`time(…)` instead of `(time(…) + "),
        ("mask", "blocks.0", "kept"),
        ("gate", "blocks.0", "instead of"),
    ],
)
def test_a_planted_fault_is_told_in_the_terms_of_both_sides(tmp_path, fault, at, words):
    result = told(tmp_path, fault, evaluations=600)
    assert result.verdict == "BUG", result.sentence()
    cause = result.causes[0]
    assert at in str(result.first.key), result.sentence()
    assert cause.standing is Standing.PROVEN, cause.why
    assert words in cause.why, cause.why
    assert result.explained.verdict == "PASS", result.explained.sentence()
