"""The kernels as torch operators (`torch.ops.lockstep.…`): `torch.compile` keeps them whole, `meta` tensors pass.

Packed weights of dtype bf16 mean products in bf16; tensors that go in and come out are fp32 always. They have no
gradient: who calls them has to take torch's own way where one is recorded (`takes`), and they refuse to compute there.

Prepared weights come with the number of their layer (`LAYERS`) in a model that was compiled: the operator asks the
layer whether they are still what its weights are. 0 means that the caller has just asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.autograd import forward_ad
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from . import calls
from .library import found, library

Tensor = torch.Tensor
_OPERATORS = torch.library.Library("lockstep", "DEF")
LAYERS: WeakValueDictionary[int, Any] = WeakValueDictionary()  # those that have prepared weights, by number


def _now(given: Any, layer: int) -> Any:
    """What a layer has prepared now; what was given where nobody has to ask, or the layer is gone."""
    owner = LAYERS.get(layer) if layer else None
    return given if owner is None else owner.now()


def _packed(given: Tensor, layer: int) -> Tensor:
    """The packed weights alone."""
    now = _now(given, layer) if layer else given
    return now[1] if isinstance(now, tuple) else now


def takes(*tensors: Tensor | None) -> bool:
    """Are there kernels here, and are these tensors what they compute: fp32 on the processor, no gradient recorded,
    nothing empty, numbers that lie in memory as they are? Under autocast torch decides the dtypes, and under a mode of
    torch's dispatcher, a transform of functions (`torch.func`) or forward gradients what a tensor is, so it computes,
    too."""
    if torch.is_autocast_enabled("cpu") or _transformed() or library() is None:
        return False
    recorded = torch.is_grad_enabled()
    for one in tensors:
        if one is not None and (
            one.dtype != torch.float32
            or not one.is_cpu
            or one.numel() == 0
            or (recorded and one.requires_grad)
            or not lies_plainly(one)
        ):
            return False
    return True


def lies_plainly(tensor: Tensor) -> bool:
    """Are the numbers in memory what the tensor says: no class with a dispatch of its own (fake, functional, quantized
    tensors …), not negated when it is read, not a zero without memory?"""
    if torch.compiler.is_compiling():
        return True
    kind = type(tensor)
    own = kind is Tensor or kind is Parameter or kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl
    return own and not tensor.is_neg() and not tensor._is_zerotensor()


class ByTorch(TorchDispatchMode):
    """A context in which torch computes what our kernels would."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


def _transformed() -> bool:
    if forward_ad._current_level >= 0:
        return True
    if torch.compiler.is_compiling():
        return False
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._functorch.peek_interpreter_stack() is not None


def _refusing(name: str, run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The operator, which would otherwise be a constant to the gradient without a word."""

    def checked(*given: Any) -> Tensor:
        if torch.is_grad_enabled() and any(isinstance(one, Tensor) and one.requires_grad for one in given):
            raise RuntimeError(
                f"lockstep::{name} has no gradient, and one is recorded here. Call it under torch.no_grad(), or ask "
                "operators.takes about every tensor that goes into it and let torch compute where it says no."
            )
        return run(*given)

    return checked


def _linear(
    x: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    columns: int,
    gelu: bool = False,
    layer: int = 0,
) -> Tensor:
    return calls.linear(found(), x, _packed(packed, layer), bias, residual, columns, gelu)


def _linear_shape(
    x: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    columns: int,
    gelu: bool = False,
    layer: int = 0,
) -> Tensor:
    return x.new_empty((*x.shape[:-1], columns))


def _geglu(x: Tensor, packed: Tensor, bias: Tensor, columns: int, layer: int = 0) -> Tensor:
    packed, bias = _now((packed, bias), layer)
    return calls.geglu(found(), x, packed, bias, columns)


def _geglu_shape(x: Tensor, packed: Tensor, bias: Tensor, columns: int, layer: int = 0) -> Tensor:
    return x.new_empty((*x.shape[:-1], columns))


def _convolution(
    x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: int, stored: bool, layer: int = 0
) -> Tensor:
    return calls.convolution(found(), x, _packed(packed, layer), bias, residual, out, stored)


def _convolution_shape(
    x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: int, stored: bool, layer: int = 0
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
    layer: int = 0,
) -> Tensor:
    packed = _packed(packed, layer)
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
    layer: int = 0,
) -> Tensor:
    return _convolution_shape(x, packed, bias, residual, out, stored)


def _doubled_convolution(
    x: Tensor, packed: Tensor, bias: Tensor | None, out: int, stored: bool, layer: int = 0
) -> Tensor:
    return calls.doubled_convolution(found(), x, _packed(packed, layer), bias, out, stored)


def _doubled_convolution_shape(
    x: Tensor, packed: Tensor, bias: Tensor | None, out: int, stored: bool, layer: int = 0
) -> Tensor:
    size = (2 * x.shape[2], 2 * x.shape[3])
    return x.new_empty((x.shape[0], out, *size)).contiguous(memory_format=torch.channels_last)


def _patches(
    x: Tensor, packed: Tensor, bias: Tensor | None, out: int, size: int, stride: int, padding: int, layer: int = 0
) -> Tensor:
    return calls.patches(found(), x, _packed(packed, layer), bias, out, size, stride, padding)


def _patches_shape(
    x: Tensor, packed: Tensor, bias: Tensor | None, out: int, size: int, stride: int, padding: int, layer: int = 0
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
    _OPERATORS.impl(_name, _refusing(_name, _run), "CPU")
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
