"""Calls of the library with tensors. Sizes and kinds are the caller's to check: `operators` and `trial` do."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .library import Library

Tensor = torch.Tensor


def address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def aligned(floats: int) -> Tensor:
    """Room for so many floats that begins at a line of the cache."""
    room = torch.empty(floats + 16)
    return room[-(room.data_ptr() // 4) % 16 :][:floats]


def pack_linear(library: Library, weight: Tensor) -> Tensor:
    """A weight (columns, depth) in panels."""
    columns, depth = weight.shape
    packed = aligned(library.padded(columns) * depth)
    library.pack_linear(address(weight.contiguous()), address(packed), columns, depth, torch.get_num_threads())
    return packed


def linear(
    library: Library, x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, columns: int
) -> Tensor:
    """x W' + bias + residual."""
    x, depth = x.contiguous(), x.shape[-1]
    y = x.new_empty((*x.shape[:-1], columns))
    residual = None if residual is None else residual.contiguous()
    parts = (address(x), address(packed), address(bias), address(residual), address(y))
    library.linear(*parts, x.numel() // depth, columns, depth, torch.get_num_threads())
    return y


def interleaved(library: Library, both: Tensor) -> Tensor:
    """Rows of values and then rows of gates, as some of these and some of those in turn."""
    return both.unflatten(0, (2, -1, library.lanes)).transpose(0, 1).reshape(both.shape).contiguous()


def geglu(library: Library, x: Tensor, packed: Tensor, bias: Tensor, columns: int) -> Tensor:
    """Values times the GELU of gates, both linear in x; weights and bias interleaved."""
    x, depth = x.contiguous(), x.shape[-1]
    y = x.new_empty((*x.shape[:-1], columns))
    parts = (address(x), address(packed), address(bias), address(y))
    library.geglu(*parts, x.numel() // depth, columns, depth, torch.get_num_threads())
    return y


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def pack_convolution(library: Library, weight: Tensor, stored: bool) -> Tensor:
    """A weight (out, in, 3, 3) in panels: transformed (`stored`, four times the size), or to be while it is used."""
    out, into = weight.shape[:2]
    packed = aligned((36 if stored else 9) * into * library.padded(out))
    library.pack_convolution(address(weight.contiguous()), address(packed), into, out, stored, torch.get_num_threads())
    return packed


def convolution(
    library: Library, x: Tensor, packed: Tensor, bias: Tensor | None, residual: Tensor | None, out: int, stored: bool
) -> Tensor:
    """A 3x3 convolution with padding 1; `bias` is (out) or one for each image, (batch, out)."""
    x, residual = channels_last(x), None if residual is None else channels_last(residual)
    batch, into, height, width = x.shape
    y = torch.empty((batch, out, height, width), memory_format=torch.channels_last)
    step = 0 if bias is None or bias.ndim == 1 else out
    bias = None if bias is None else bias.contiguous()
    parts = (address(x), address(packed), address(bias), address(residual), address(y))
    library.convolution(*parts, batch, height, width, into, out, step, stored, torch.get_num_threads())
    return y


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
    library.group_norm(*parts, batch, height * width, channels, groups, step, eps, silu, torch.get_num_threads())
    return y


def attention(
    library: Library, query: Tensor, key: Tensor, value: Tensor, key_bias: Tensor | None, scale: float
) -> Tensor:
    """softmax(scale Q K' + bias) V of tensors (batch, tokens, heads, width) whose heads lie side by side."""
    batch, queries, heads, width = query.shape
    out = query.new_empty((batch, queries, heads, width))
    steps = [tensor.stride(axis) for axis in (1, 0) for tensor in (query, key, value, out)]
    parts = (address(query), address(key), address(value), address(key_bias), address(out))
    sizes = (batch, heads, queries, key.shape[1], width)
    library.attention(*parts, *sizes, (ctypes.c_int64 * 8)(*steps), scale, torch.get_num_threads())
    return out
