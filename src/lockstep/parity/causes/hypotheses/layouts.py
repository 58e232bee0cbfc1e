"""What other implementations do with the order of elements and with their precision."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import torch

from ..edits import Call, Edit, NotApplicable, Site
from ..examples import Example, edit
from .tensors import ARITHMETIC, swaps

Sites = frozenset[Site]
FEW = 64  # elements: a timestep per row, not an image
_SPATIAL = {"interpolate", "pad", "conv2d", "conv1d", "embedding", "repeat_interleave", "cat", "roll"}


def layout_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    """Rearrangements of the result that keep its shape."""
    shape = example.shape
    if not shape or example.op in ARITHMETIC or max(shape) < 2 or not example.floating:
        return
    if example.op in _SPATIAL:
        yield from _shifts(example, sites)
    if example.op in ("view", "reshape", "unflatten", "permute", "transpose", "flatten", "movedim", "rearrange"):
        for axes, a, b in (("the last two axes", -1, -2), ("axes -2 and -3", -2, -3)):
            if len(shape) >= -b:
                words = f"{axes} in the other memory order"
                yield edit("head_layout", words, sites, lambda c, a=a, b=b: _reread(c.run(), a, b), rank=3)
        for a in range(1, len(shape)):
            for b in range(a + 1, len(shape)):
                if shape[a] == shape[b] > 1:
                    yield edit(
                        "axes_swapped",
                        f"axes {a} and {b} swapped",
                        sites,
                        lambda c, a=a, b=b: c.run().transpose(a, b),
                        rank=2,
                    )
    if example.op in (
        "linear",
        "conv2d",
        "embedding",
        "sin",
        "cos",
        "cat",
        "getitem",
        "matmul",
        "flatten",
        "reshape",
        "view",
    ):
        axis = 1 if example.op == "conv2d" else -1
        yield from _axis_orders(shape[axis], axis, sites)


def _shifts(example: Example, sites: Sites) -> Iterator[Edit]:
    for axis in range(1, len(example.shape)):
        for by in (1, -1) if example.shape[axis] > 2 else ():
            yield edit(
                "shifted", f"moved by {by} along axis {axis}", sites, lambda c, b=by, a=axis: c.run().roll(b, a), rank=4
            )


def _axis_orders(size: int, axis: int, sites: Sites) -> Iterator[Edit]:
    for parts in (2, 3, 4, 6):
        if size % parts or size == parts:
            continue
        for order in list(permutations(range(parts)))[1:] if parts <= 3 else swaps(parts):
            name = {2: "half_swap", 3: "qkv_order"}.get(parts, "part_order")
            words = (
                "halves of the output swapped"
                if parts == 2
                else f"{parts} parts of the output in the order {', '.join(map(str, order))}"
            )
            yield edit(name, words, sites, lambda c, n=parts, o=order: _ordered(c.run(), n, o, axis), rank=3)
        yield edit(
            "interleave",
            f"output read as {parts} interleaved parts",
            sites,
            lambda c, n=parts: _dealt(c.run(), n, axis),
            rank=4,
        )
        yield edit(
            "interleave",
            f"{parts} parts of the output interleaved",
            sites,
            lambda c, n=parts: _dealt(c.run(), c.run().shape[axis] // n, axis),
            rank=4,
        )
    yield edit("reversed", "output in reversed order", sites, lambda c: c.run().flip(axis), rank=4)


def _ordered(x: torch.Tensor, parts: int, order: tuple[int, ...], axis: int) -> torch.Tensor:
    pieces = x.chunk(parts, axis)
    if len(pieces) != parts:
        raise NotApplicable(f"not {parts} parts")
    return torch.cat([pieces[i] for i in order], axis)


def _dealt(x: torch.Tensor, parts: int, axis: int) -> torch.Tensor:
    axis = axis % x.ndim
    return x.unflatten(axis, (-1, parts)).transpose(axis, axis + 1).flatten(axis, axis + 1)


def _reread(x: torch.Tensor, first: int, second: int) -> torch.Tensor:
    return x.transpose(first, second).reshape(x.shape)


def precision_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if not example.floating:
        return
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        yield edit("precision", f"result rounded to {name}", sites, lambda c, d=dtype: _rounded(c.run(), d), rank=4)
        yield edit("precision", f"computed in {name}", sites, lambda c, d=dtype: _computed_in(c, d), rank=4)
    if math.prod(example.shape) <= FEW and example.op not in ARITHMETIC:
        for words, function in (("cut", torch.trunc), ("rounded", torch.round)):
            yield edit("timestep_dtype", f"result {words} to integers", sites, lambda c, f=function: f(c.run()), rank=3)
    yield edit("precision", "computed in float32", sites, lambda c: _computed_in(c, torch.float32), rank=4)


def _rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype).to(x.dtype)


def _computed_in(call: Call, dtype: torch.dtype) -> torch.Tensor:
    def cast(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(dtype)
        return type(value)(cast(v) for v in value) if type(value) in (list, tuple) else value

    wanted = next((a.dtype for a in call.args if isinstance(a, torch.Tensor) and a.is_floating_point()), torch.float32)
    return call.function(*[cast(a) for a in call.args], **{k: cast(v) for k, v in call.kwargs.items()}).to(wanted)
