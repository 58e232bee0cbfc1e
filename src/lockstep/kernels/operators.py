"""The kernels as torch operators (`torch.ops.lockstep.…`): `torch.compile` keeps them whole, `meta` tensors pass.

Packed weights of dtype bf16 mean products in bf16; tensors that go in and come out are fp32 always. They have no
gradient: who calls them has to take torch's own way where one is recorded (`takes`).
"""

from __future__ import annotations

import torch

from . import calls
from .library import found, library

Tensor = torch.Tensor
_OPERATORS = torch.library.Library("lockstep", "DEF")


def takes(*tensors: Tensor | None) -> bool:
    """Are there kernels here, and are these tensors what they compute: fp32 on the processor, no gradient recorded,
    nothing empty? Under autocast torch decides the dtypes, so it computes, too."""
    if library() is None or torch.is_autocast_enabled("cpu"):
        return False
    return all(
        tensor is None
        or (
            tensor.dtype == torch.float32
            and tensor.device.type == "cpu"
            and tensor.numel() > 0
            and not (tensor.requires_grad and torch.is_grad_enabled())
        )
        for tensor in tensors
    )


def _linear(
    x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, columns: int, gelu: bool = False
) -> Tensor:
    return calls.linear(found(), x, packed, bias, residual, columns, gelu)


def _linear_shape(
    x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, columns: int, gelu: bool = False
) -> Tensor:
    return x.new_empty((*x.shape[:-1], columns))


def _geglu(x: Tensor, packed: Tensor, bias: Tensor, columns: int) -> Tensor:
    return calls.geglu(found(), x, packed, bias, columns)


def _geglu_shape(x: Tensor, packed: Tensor, bias: Tensor, columns: int) -> Tensor:
    return x.new_empty((*x.shape[:-1], columns))


def _convolution(
    x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: int, stored: bool
) -> Tensor:
    return calls.convolution(found(), x, packed, bias, residual, out, stored)


def _convolution_shape(
    x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: int, stored: bool
) -> Tensor:
    return x.new_empty((x.shape[0], out, *x.shape[2:])).contiguous(memory_format=torch.channels_last)


def _normed_convolution(
    x: Tensor,
    groups: int,
    weight: Tensor,
    shift: Tensor,
    eps: float,
    packed: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    out: int,
    stored: bool,
) -> Tensor:
    return calls.normed_convolution(found(), x, (groups, weight, shift, eps), packed, bias, residual, out, stored)


def _normed_convolution_shape(
    x: Tensor,
    groups: int,
    weight: Tensor,
    shift: Tensor,
    eps: float,
    packed: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    out: int,
    stored: bool,
) -> Tensor:
    return _convolution_shape(x, packed, bias, residual, out, stored)


def _doubled_convolution(x: Tensor, packed: Tensor, bias: Tensor | None, out: int, stored: bool) -> Tensor:
    return calls.doubled_convolution(found(), x, packed, bias, out, stored)


def _doubled_convolution_shape(x: Tensor, packed: Tensor, bias: Tensor | None, out: int, stored: bool) -> Tensor:
    size = (2 * x.shape[2], 2 * x.shape[3])
    return x.new_empty((x.shape[0], out, *size)).contiguous(memory_format=torch.channels_last)


def _patches(x: Tensor, packed: Tensor, bias: Tensor | None, out: int, size: int, stride: int, padding: int) -> Tensor:
    return calls.patches(found(), x, packed, bias, out, size, stride, padding)


def _patches_shape(
    x: Tensor, packed: Tensor, bias: Tensor | None, out: int, size: int, stride: int, padding: int
) -> Tensor:
    left = [(side + 2 * padding - size) // stride + 1 for side in x.shape[2:]]
    return x.new_empty((x.shape[0], out, *left)).contiguous(memory_format=torch.channels_last)


def _join(left: Tensor, right: Tensor) -> Tensor:
    return calls.join(found(), left, right)


def _join_shape(left: Tensor, right: Tensor) -> Tensor:
    size = (left.shape[0], left.shape[1] + right.shape[1], *left.shape[2:])
    return left.new_empty(size).contiguous(memory_format=torch.channels_last)


def _group_norm(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float, silu: bool) -> Tensor:
    return calls.group_norm(found(), x, groups, weight, bias, eps, silu)


def _group_norm_shape(x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float, silu: bool) -> Tensor:
    return torch.empty_like(x, memory_format=torch.channels_last)


def _row_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    return calls.row_norm(found(), x, weight, bias, eps, centred)


def _row_norm_shape(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool) -> Tensor:
    return x.new_empty(x.shape)


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return calls.turn(found(), x, cos, sin)


def _turn_shape(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _attention(
    query: Tensor, key: Tensor, value: Tensor, key_bias: Tensor | None, scale: float, bf16: bool = False
) -> Tensor:
    return calls.attention(found(), query, key, value, key_bias, scale, bf16)


def _attention_shape(
    query: Tensor, key: Tensor, value: Tensor, key_bias: Tensor | None, scale: float, bf16: bool = False
) -> Tensor:
    return query.new_empty(query.shape)


for _name, _run, _shape in (
    ("linear", _linear, _linear_shape),
    ("geglu", _geglu, _geglu_shape),
    ("convolution", _convolution, _convolution_shape),
    ("normed_convolution", _normed_convolution, _normed_convolution_shape),
    ("doubled_convolution", _doubled_convolution, _doubled_convolution_shape),
    ("patches", _patches, _patches_shape),
    ("join", _join, _join_shape),
    ("group_norm", _group_norm, _group_norm_shape),
    ("row_norm", _row_norm, _row_norm_shape),
    ("turn", _turn, _turn_shape),
    ("attention", _attention, _attention_shape),
):
    _OPERATORS.define(_name + torch.library.infer_schema(_run, mutates_args=()))
    _OPERATORS.impl(_name, _run, "CPU")
    torch.library.register_fake(f"lockstep::{_name}", _shape, lib=_OPERATORS)

linear = torch.ops.lockstep.linear.default
geglu = torch.ops.lockstep.geglu.default
convolution = torch.ops.lockstep.convolution.default
normed_convolution = torch.ops.lockstep.normed_convolution.default
doubled_convolution = torch.ops.lockstep.doubled_convolution.default
patches = torch.ops.lockstep.patches.default
join = torch.ops.lockstep.join.default
group_norm = torch.ops.lockstep.group_norm.default
row_norm = torch.ops.lockstep.row_norm.default
turn = torch.ops.lockstep.turn.default
attention = torch.ops.lockstep.attention.default
