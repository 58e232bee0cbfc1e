"""Calls of the library with tensors. Sizes and kinds are the caller's to check: `operators` and `trial` do.

Weights that are packed for products in bf16 are tensors of that dtype, and choose the kernel that way; what goes in and
what comes out is fp32 either way.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .library import Library

Tensor = torch.Tensor
FP32 = torch.float32  # what kernels read and write, whatever the default dtype and device of the process are


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def feature_map(batch: int, channels: int, height: int, width: int) -> Tensor:
    """Room for a feature map whose channels lie side by side."""
    shape = batch, channels, height, width
    return torch.empty(shape, dtype=FP32, device="cpu", memory_format=torch.channels_last)


def aligned(floats: int, bf16: bool = False) -> Tensor:
    """Room for so many floats (or twice as many bf16) that begins at a line of the cache."""
    room = torch.empty(floats + 16, dtype=FP32, device="cpu")
    begins = room[-(room.data_ptr() // 4) % 16 :][:floats]
    return begins.view(torch.bfloat16) if bf16 else begins


def in_bf16(packed: Tensor) -> bool:
    return packed.dtype == torch.bfloat16


def units(depth: int, bf16: bool) -> int:
    """How many lanes a sum over `depth` products takes: bf16 are multiplied in pairs."""
    return -(-depth // 2) if bf16 else depth


def pack_linear(library: Library, weight: Tensor, bf16: bool = False) -> Tensor:
    """A weight (columns, depth) in panels."""
    columns, depth = weight.shape
    packed = aligned(library.padded(columns) * units(depth, bf16), bf16)
    sizes = (columns, depth, torch.get_num_threads())
    weight = weight.contiguous()  # has a name, so that it lives until it is read
    library.run("pack_linear", address(weight), address(packed), *sizes, bf16=bf16)
    return packed


def linear(
    library: Library,
    x: Tensor,
    packed: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    columns: int,
    gelu: bool = False,
) -> Tensor:
    """x W' + bias, bent by the approximation of GELU where asked for, + residual."""
    x, depth = x.contiguous(), x.shape[-1]
    y = x.new_empty((*x.shape[:-1], columns))
    residual, bias = (None if one is None else one.contiguous() for one in (residual, bias))
    parts = (address(x), address(packed), address(bias), address(residual), address(y))
    sizes = (x.numel() // depth, columns, depth, gelu, torch.get_num_threads())
    library.run("linear", *parts, *sizes, bf16=in_bf16(packed))
    return y


def interleaved(library: Library, both: Tensor) -> Tensor:
    """Rows of values and then rows of gates, as some of these and some of those in turn."""
    return both.unflatten(0, (2, -1, library.lanes)).transpose(0, 1).reshape(both.shape).contiguous()


def geglu(library: Library, x: Tensor, packed: Tensor, bias: Tensor, columns: int) -> Tensor:
    """Values times the GELU of gates, both linear in x; weights and bias interleaved."""
    x, depth = x.contiguous(), x.shape[-1]
    y = x.new_empty((*x.shape[:-1], columns))
    parts = (address(x), address(packed), address(bias), address(y))
    sizes = (x.numel() // depth, columns, depth, torch.get_num_threads())
    library.run("geglu", *parts, *sizes, bf16=in_bf16(packed))
    return y


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def pack_convolution(library: Library, weight: Tensor, stored: bool, bf16: bool = False) -> Tensor:
    """A weight (out, in, 3, 3) in panels: transformed (`stored`: 36 numbers for 9), or to be while it is used."""
    out, into = weight.shape[:2]
    packed = aligned((36 * units(into, bf16) if stored else 9 * into) * library.padded(out), bf16)
    sizes = (into, out, stored, torch.get_num_threads())
    weight = weight.contiguous()  # has a name, so that it lives until it is read
    library.run("pack_convolution", address(weight), address(packed), *sizes, bf16=bf16)
    return packed


def convolution(
    library: Library, x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: int, stored: bool
) -> Tensor:
    """A 3x3 convolution with padding 1; `bias` is (out) or one for each image, (batch, out)."""
    x, residual = channels_last(x), None if residual is None else channels_last(residual)
    batch, into, height, width = x.shape
    y = feature_map(batch, out, height, width)
    step = 0 if bias is None or bias.ndim == 1 else out
    bias = None if bias is None else bias.contiguous()
    parts = (address(x), address(packed), address(bias), address(residual), address(y))
    sizes = (batch, height, width, into, out, step, stored, torch.get_num_threads())
    library.run("convolution", *parts, *sizes, bf16=in_bf16(packed))
    return y


def normed_convolution(
    library: Library,
    x: Tensor,
    norm: tuple[int, Tensor, Tensor, float],
    packed: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    out: int,
    stored: bool,
) -> Tensor:
    """The 3x3 convolution of SiLU of the GroupNorm of x, in bands; `norm` is groups, weight, bias and eps."""
    x, residual = channels_last(x), None if residual is None else channels_last(residual)
    batch, into, height, width = x.shape
    y = feature_map(batch, out, height, width)
    step = 0 if bias is None or bias.ndim == 1 else out
    bias = None if bias is None else bias.contiguous()
    groups, weight, shift, eps = norm
    parts = (x, weight, shift, packed, bias, residual, y)
    sizes = (batch, height, width, into, out, step, groups, eps, stored, torch.get_num_threads())
    library.run("normed_convolution", *map(address, parts), *sizes, bf16=in_bf16(packed))
    return y


def doubled_convolution(
    library: Library, x: Tensor, packed: Tensor, bias: Tensor | None, out: int, stored: bool
) -> Tensor:
    """The 3x3 convolution of x with each pixel taken twice, in rows and in columns."""
    x = channels_last(x)
    batch, into, height, width = x.shape
    y = feature_map(batch, out, 2 * height, 2 * width)
    bias = None if bias is None else bias.contiguous()
    sizes = (batch, 2 * height, 2 * width, into, out, stored, torch.get_num_threads())
    library.run("doubled_convolution", *map(address, (x, packed, bias, y)), *sizes, bf16=in_bf16(packed))
    return y


def pack_patches(library: Library, weight: Tensor, bf16: bool = False) -> Tensor:
    """A weight (out, in, rows, columns) as that of a linear layer whose inputs are pixels, one behind the other."""
    return pack_linear(library, weight.permute(0, 2, 3, 1).flatten(1), bf16)


def patches(
    library: Library, x: Tensor, packed: Tensor, bias: Tensor | None, out: int, size: int, stride: int, padding: int
) -> Tensor:
    """A convolution of any (square) size, stride and padding."""
    x = channels_last(x)
    batch, into, height, width = x.shape
    left = [(side + 2 * padding - size) // stride + 1 for side in (height, width)]
    y = feature_map(batch, out, *left)
    bias = None if bias is None else bias.contiguous()
    sizes = (batch, height, width, into, out, size, stride, padding, torch.get_num_threads())
    library.run("patches", *map(address, (x, packed, bias, y)), *sizes, bf16=in_bf16(packed))
    return y


def join(library: Library, left: Tensor, right: Tensor) -> Tensor:
    """The channels of two feature maps side by side."""
    left, right = channels_last(left), channels_last(right)
    batch, lefts, height, width = left.shape
    rights = right.shape[1]
    y = feature_map(batch, lefts + rights, height, width)
    sizes = (batch * height * width, lefts, rights, torch.get_num_threads())
    library.run("join", *map(address, (left, right, y)), *sizes)
    return y


def same(library: Library, one: Tensor, other: Tensor) -> bool:
    """Have two tensors, each without gaps and in the same order, the same bits?"""
    return bool(library.run("same", address(one), address(other), one.numel()))


def group_norm(
    library: Library, x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float, silu: bool
) -> Tensor:
    """GroupNorm of a feature map, and SiLU behind it; weight and bias are (channels) or one for each image."""
    x = channels_last(x)
    batch, channels, height, width = x.shape
    y = torch.empty_like(x)
    step = channels if weight.ndim == 2 else 0
    weight, bias = weight.contiguous(), bias.contiguous()
    parts = (address(x), address(weight), address(bias), address(y))
    sizes = (batch, height * width, channels, groups, step, eps, silu, torch.get_num_threads())
    library.run("group_norm", *parts, *sizes)
    return y


def attention(
    library: Library,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_bias: Tensor | None,
    scale: float,
    bf16: bool = False,
) -> Tensor:
    """softmax(scale Q K' + bias) V of tensors (batch, tokens, heads, width) whose heads lie side by side."""
    batch, queries, heads, width = query.shape
    out = query.new_empty((batch, queries, heads, width))
    steps = [tensor.stride(axis) for axis in (1, 0) for tensor in (query, key, value, out)]
    parts = (address(query), address(key), address(value), address(key_bias), address(out))
    sizes = (batch, heads, queries, key.shape[1], width)
    library.run("attention", *parts, *sizes, (ctypes.c_int64 * 8)(*steps), scale, torch.get_num_threads(), bf16=bf16)
    return out


def row_norm(
    library: Library, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> Tensor:
    """LayerNorm (`centred`) or RMSNorm of the last axis; weight and bias are (width) or one for each image."""
    x = x.contiguous()
    y, width = torch.empty_like(x), x.shape[-1]
    by_image = next((one.ndim == 2 for one in (weight, bias) if one is not None), False)
    images, step = (x.shape[0], width) if by_image else (1, 0)
    weight, bias = (None if one is None else one.contiguous() for one in (weight, bias))
    parts = (address(x), address(weight), address(bias), address(y))
    rows = x.numel() // width // images
    library.run("row_norm", *parts, images, rows, width, step, eps, centred, torch.get_num_threads())
    return y


def turn(library: Library, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Pairs of neighbouring numbers of (batch, tokens, heads, width) turned by a table (tokens, width) or several."""
    x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    y, step = torch.empty_like(x), 0 if cos.ndim == 2 or len(cos) == 1 else cos.stride(0)  # one table may be for all
    parts = (address(x), address(cos), address(sin), address(y))
    library.run("turn", *parts, *x.shape, step, torch.get_num_threads())
    return y
