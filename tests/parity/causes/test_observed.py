"""What both live sides compute, step by step, put side by side: the name, the words, the proof."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lockstep import parity as px
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.comparison.results import Comparison, Standing

Code = Callable[["Block", torch.Tensor, torch.Tensor], torch.Tensor]


class Block(nn.Module):
    """A block whose own code is given from outside."""

    def __init__(self, code: Code) -> None:
        super().__init__()
        self.code = code
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.up, self.down, self.mod = nn.Linear(16, 64), nn.Linear(32, 16), nn.Linear(16, 32)

    def forward(self, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
        return self.code(self, x, emb)


class Model(nn.Module):
    def __init__(self, code: Code) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(code) for _ in range(2))

    def forward(self, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, emb)
        return x


def right(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    value, gate = s.up(s.norm1(x) * (1 + scale) + shift).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def gelu_of_the_product(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    value, gate = s.up(s.norm1(x) * (1 + scale) + shift).chunk(2, -1)
    return x + s.norm2(s.down(F.gelu(value * gate)))


def gate_and_value(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    gate, value = s.up(s.norm1(x) * (1 + scale) + shift).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def without_silu(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(emb).unsqueeze(1).chunk(2, -1)
    value, gate = s.up(s.norm1(x) * (1 + scale) + shift).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def other_norm(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    value, gate = s.up(s.norm2(x) * (1 + scale) + shift).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def modulated_by_shift(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    value, gate = s.up((s.norm1(x) + shift) * (1 + scale)).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def residual_of_the_normed(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    normed = s.norm1(x)
    value, gate = s.up(normed * (1 + scale) + shift).chunk(2, -1)
    return normed + s.norm2(s.down(value * F.gelu(gate)))


def squared_scale(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    value, gate = s.up(s.norm1(x) * (1 + scale.cumsum(-1) / 16) + shift).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def through_bfloat16(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    scale, shift = s.mod(F.silu(emb)).unsqueeze(1).chunk(2, -1)
    value, gate = s.up((s.norm1(x) * (1 + scale)).bfloat16().float() + shift).chunk(2, -1)
    return x + s.norm2(s.down(value * F.gelu(gate)))


def written_otherwise(s: Block, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
    both = s.mod(emb * emb.sigmoid())[:, None]
    value, gate = s.up(torch.addcmul(both[..., 16:], s.norm1(x), both[..., :16] + 1)).split(32, -1)
    return s.norm2(s.down(F.gelu(gate).mul(value))).add(x)


def proven(tmp_path: Path, code: Code) -> Comparison:
    x, emb = (torch.randn(*shape, generator=torch.Generator().manual_seed(3)) for shape in ((2, 5, 16), (2, 16)))
    sides = []
    for number, chosen in enumerate((right, code)):
        torch.manual_seed(0)
        model = Model(chosen).eval()
        for parameter in model.parameters():  # norms that are no identity
            parameter.data += 0.3 * torch.randn(parameter.shape)
        trace = tmp_path / f"{number}.trace"
        with px.record(model, trace, level="module+ops"), torch.no_grad():
            model(x, emb)
        sides.append((Live(model, lambda m=model: m(x, emb)), trace))
    (ref, a), (cand, b) = sides
    floor = px.floor(ref.target, a, call=ref.call)
    result = px.compare(a, b, floor=floor)
    diagnose(result, reference=ref, candidate=cand, floor=floor)
    return result


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (gelu_of_the_product, {"order_exchanged"}),
        (gate_and_value, {"split_order"}),
        (without_silu, {"left_out", "activation"}),
        (other_norm, {"wrong_module"}),
        (modulated_by_shift, {"order_exchanged", "other_computation"}),
        (residual_of_the_normed, {"wrong_operand"}),
        (squared_scale, {"extra_step"}),
        (through_bfloat16, {"precision"}),
    ],
)
def test_the_steps_of_both_sides_name_the_cause(tmp_path: Path, code: Code, names: set[str]) -> None:
    result = proven(tmp_path, code)
    assert result.verdict.value == "BUG"
    assert result.causes[0].standing is Standing.PROVEN, result.causes[0].why
    assert result.causes[0].name in names, result.causes[0].why
    assert result.explained is not None
    assert result.explained.verdict.value in ("PASS", "NOISE")


def test_both_expressions_and_the_line_are_told(tmp_path: Path) -> None:
    cause = proven(tmp_path, gelu_of_the_product).causes[0]
    assert "gelu(" in cause.why
    assert " instead of " in cause.why
    assert "test_observed.py:" in cause.fix


def test_the_same_written_otherwise_is_no_difference(tmp_path: Path) -> None:
    assert proven(tmp_path, written_otherwise).verdict.value in ("PASS", "NOISE")
