"""What other implementations do between layers: order of parts, attention, constants, resizing, indices, precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F

from .edits import Call, Edit, Site
from .examples import Example, edit

Sites = frozenset[Site]
_ARITHMETIC = {
    "add",
    "sub",
    "mul",
    "div",
    "pow",
    "rsub",
    "rdiv",
    "rpow",
    "truediv",
    "floordiv",
    "floor_divide",
    "addcmul",
}
_SPLITS = {"chunk", "split", "unbind", "tensor_split", "split_with_sizes"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def arithmetic_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in _ARITHMETIC or not example.operands:
        return
    for index, operand in enumerate(example.operands[:2]):
        if _is_number(operand):
            yield from _constant_edits(example, index, operand, sites)
        elif operand == example.shape and len(example.operands) > 1:
            other = example.operands[1 - index]
            what = "tensor" if isinstance(other, tuple) else repr(other)
            yield edit(
                "left_out", f"`{example.op}` of the {what} left out", sites, lambda call, i=index: call.args[i], rank=6
            )
    tensors = [o for o in example.operands[:2] if isinstance(o, tuple)]
    if len(tensors) == 2:
        yield from _two_tensor_edits(example, sites)


def _two_tensor_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op in ("sub", "div", "truediv"):
        yield edit(
            "operand_order",
            f"operands of `{example.op}` swapped",
            sites,
            lambda c: c.function(c.args[1], c.args[0]),
            rank=2,
        )
    if example.op == "add":
        yield edit("sign", "subtracted instead of added", sites, lambda call: call.args[0] - call.args[1], rank=3)
        yield edit("residual_scale", "sum divided by sqrt(2)", sites, lambda call: call.run() / math.sqrt(2), rank=4)
    if example.op == "sub":
        yield edit("sign", "added instead of subtracted", sites, lambda call: call.args[0] + call.args[1], rank=3)
    if example.op == "mul":
        for i in (0, 1):
            yield edit(
                "modulation",
                "multiplied with (1 + x) instead of x",
                sites,
                lambda c, i=i: c.args[1 - i] * (1 + c.args[i]),
                rank=3,
            )


def _constant_edits(example: Example, index: int, value: float, sites: Sites) -> Iterator[Edit]:
    small = 0 < abs(value) < 1e-2
    cause = "norm_eps" if small and example.op == "add" else "constant"
    tried = [
        value + 1,
        value - 1,
        2 * value,
        value / 2,
        -value,
        0.0,
        1.0,
        10 * value,
        value / 10,
        100 * value,
        value / 100,
    ]
    tried += [1 / value, value * value] if value else []
    tried += [math.sqrt(value), 1 / math.sqrt(value)] if value > 0 else []
    if example.op == "pow" or abs(value) > 100:
        tried += [500.0, 1000.0, 10000.0, 100000.0, 1e6]
    for new in dict.fromkeys(tried):
        if new != value and math.isfinite(new):
            yield constant(example.op, cause, index, value, new, sites)


def constant(op: str, cause: str, index: int, before: float, value: float, sites: Sites) -> Edit:
    return edit(
        cause, f"{value:.6g} instead of {before:.6g} in `{op}`", sites, lambda call: call.operand(index, value), rank=4,
        parameter=value, refit=lambda v: constant(op, cause, index, before, v, sites),
    )  # fmt: skip


def split_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    pieces = example.pieces
    if example.op not in _SPLITS or len(pieces) < 2 or len(set(pieces)) > 1:
        return
    count = len(pieces)
    orders = list(permutations(range(count)))[1:] if count <= 4 else _swaps(count)
    for order in orders:
        words = ", ".join(str(i) for i in order)
        yield edit(
            "split_order",
            f"parts taken in the order {words}",
            sites,
            lambda c, o=order: tuple(c.run()[i] for i in o),
            rank=1,
        )
    yield edit(
        "split_interleave", f"every {count}th element instead of {count} blocks", sites, _interleaved_split, rank=1
    )


def _swaps(count: int) -> list[tuple[int, ...]]:
    found = [tuple(reversed(range(count)))]
    for i in range(count):
        for j in range(i + 1, count):
            order = list(range(count))
            order[i], order[j] = j, i
            found.append(tuple(order))
    half = count // 2
    if count % 2 == 0:
        found.append((*range(half, count), *range(half)))
    return found


def _interleaved_split(call: Call) -> Any:
    pieces = call.run()
    whole, count = call.args[0], len(pieces)
    dim = call.named.get("dim", 0)
    size = whole.shape[dim]
    shown = [whole.index_select(dim, torch.arange(start, size, count)) for start in range(count)]
    return tuple(piece.reshape(pieces[0].shape) for piece in shown)


def _split_per_head(call: Call, heads: int) -> Any:
    count = len(call.run())
    dim = call.named.get("dim", 0)
    dim = dim % call.args[0].ndim
    parts = call.args[0].unflatten(dim, (heads, count, -1)).unbind(dim + 1)
    return tuple(part.flatten(dim, dim + 1) for part in parts)


def join_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in ("cat", "stack") or not isinstance(example.operands[0], list):
        return
    count = len(example.operands[0])
    trigonometric = set(example.makers) == {"sin", "cos"}
    name = "flip_sin_to_cos" if trigonometric else "concat_order"
    if count > 1:
        shown = "cosines and sines swapped" if trigonometric else "parts joined in reversed order"
        yield edit(
            name,
            shown,
            sites,
            lambda call: call.function(list(call.args[0])[::-1], *call.args[1:], **call.kwargs),
            rank=1,
        )
        if len(set(example.operands[0])) == 1 and example.op == "cat":
            yield edit(
                "concat_interleave",
                "parts joined element by element instead of block by block",
                sites,
                _interleaved_join,
                rank=2,
            )
        if count == 2:
            for i in (0, 1):
                yield edit(
                    "sign", f"part {i} of `{example.op}` negated", sites, lambda call, i=i: _negated(call, i), rank=4
                )


def _negated(call: Call, index: int) -> Any:
    parts = list(call.args[0])
    parts[index] = -parts[index]
    return call.function(parts, *call.args[1:], **call.kwargs)


def _interleaved_join(call: Call) -> Any:
    parts = call.args[0]
    dim = call.named.get("dim", 0)
    dim = dim % parts[0].ndim
    return torch.stack(list(parts), dim + 1).flatten(dim, dim + 1)


def trigonometry_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    other = {"sin": torch.cos, "cos": torch.sin}.get(example.op)
    if other is not None:
        yield edit(
            "sin_cos",
            f"{'cos' if example.op == 'sin' else 'sin'} instead of {example.op}",
            sites,
            lambda c: other(c.args[0]),
            rank=2,
        )
        yield edit("sign", f"{example.op} of the negative angle, negated", sites, lambda c: -c.run(), rank=3)


def attention_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op == "softmax":
        yield from _softmax_edits(example, sites)
    if example.op != "scaled_dot_product_attention":
        return
    query = example.tensors["query"]
    heads, width = query[1] if len(query) == 4 else 1, query[-1]
    now = example.settings.get("scale") or width**-0.5
    scales = {
        "none": 1.0,
        "1/d": 1 / width,
        "1/sqrt(heads)": heads**-0.5,
        "1/sqrt(width)": (heads * width) ** -0.5,
        "d^-1/4": width**-0.25,
    }
    for name, scale in {**scales, "1/sqrt(d)": width**-0.5, "sqrt(d)": width**0.5, "1/heads": 1 / heads}.items():
        if not math.isclose(scale, now):
            yield attention_scale(sites, now, scale, name)
    causal = bool(example.settings.get("is_causal"))
    square = example.tensors["query"][-2] == example.tensors["key"][-2]
    if "attn_mask" in example.tensors:
        yield edit("attention_mask", "without the mask", sites, lambda call: call.given(attn_mask=None), rank=2)
        yield edit(
            "attention_mask",
            "mask inverted",
            sites,
            lambda call: call.given(attn_mask=_inverted(call.named["attn_mask"])),
            rank=2,
        )
        yield edit(
            "attention_mask",
            "mask transposed",
            sites,
            lambda call: call.given(attn_mask=call.named["attn_mask"].transpose(-1, -2)),
            rank=3,
        )
    elif causal:
        yield edit("causal_mask", "not causal", sites, lambda call: call.given(is_causal=False), rank=1)
    elif square:
        yield edit("causal_mask", "causal", sites, lambda call: call.given(is_causal=True), rank=1)
    yield from _operand_edits(example, sites, heads, width)


def attention_scale(sites: Sites, before: float, value: float, name: str = "fitted") -> Edit:
    return edit(
        "attention_scale", f"attention scale {value:.5g} ({name}) instead of {before:.5g}", sites, lambda call: call.given(scale=value),
        rank=2, parameter=value, refit=lambda v: attention_scale(sites, before, v),
    )  # fmt: skip


def _inverted(mask: torch.Tensor) -> torch.Tensor:
    return (
        ~mask
        if mask.dtype is torch.bool
        else torch.where(mask < 0, torch.zeros_like(mask), torch.full_like(mask, -1e4))
    )


def _operand_edits(example: Example, sites: Sites, heads: int, width: int) -> Iterator[Edit]:
    names = ("query", "key", "value")
    shapes = [example.tensors[n] for n in names]
    for i, j in ((0, 1), (1, 2), (0, 2)):
        if shapes[i] == shapes[j]:
            yield edit(
                "qkv_order", f"{names[i]} and {names[j]} swapped", sites, lambda c, i=i, j=j: _swapped(c, i, j), rank=2
            )
    if len(shapes[0]) != 4:
        return
    total = heads * width
    for count in [d for d in range(1, total + 1) if total % d == 0 and d != heads and d <= 64]:
        yield edit("attention_heads", f"{count} heads of {total // count} instead of {heads} of {width}", sites, lambda c, n=count: _other_heads(c, n), rank=2)  # fmt: skip
    yield edit(
        "head_layout",
        "heads interleaved in the channels instead of one after the other",
        sites,
        lambda c: _interleaved_heads(c),
        rank=2,
    )
    yield edit(
        "head_layout",
        "heads not put back before the output (batch, heads and tokens mixed)",
        sites,
        _unmerged_heads,
        rank=3,
    )
    yield edit("query_key_norm", "query and key normalized", sites, lambda c: c.given(query=F.normalize(c.args[0], dim=-1), key=F.normalize(c.args[1], dim=-1)), rank=5)  # fmt: skip


def _swapped(call: Call, i: int, j: int) -> Any:
    args = list(call.args)
    args[i], args[j] = args[j], args[i]
    return call.function(*args, **call.kwargs)


def _resplit(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2).unflatten(-1, (heads, -1)).transpose(1, 2)


def _other_heads(call: Call, count: int) -> torch.Tensor:
    heads = call.args[0].shape[1]
    args = [_resplit(x, count) for x in call.args[:3]]
    result = call.function(*args, *call.args[3:], **{**call.kwargs, "scale": None})
    return _resplit(result, heads)


def _interleaved_heads(call: Call) -> torch.Tensor:
    def deal(x: torch.Tensor) -> torch.Tensor:
        heads, width = x.shape[1], x.shape[3]
        return x.transpose(1, 2).flatten(2).unflatten(-1, (width, heads)).permute(0, 3, 1, 2)

    def back(x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1).flatten(2).unflatten(-1, (x.shape[1], x.shape[3])).transpose(1, 2)

    return back(call.function(*[deal(x) for x in call.args[:3]], *call.args[3:], **call.kwargs))


def _unmerged_heads(call: Call) -> torch.Tensor:
    result = call.run()
    batch, heads, tokens, width = result.shape
    return result.reshape(batch, tokens, heads, width).transpose(1, 2)


def _softmax_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    rank = len(example.shape)
    now = example.settings.get("dim", -1)
    for dim in range(1, rank):
        if dim != now % rank:
            yield edit("softmax_axis", f"softmax over axis {dim}", sites, lambda call, d=dim: call.given(dim=d), rank=3)
    yield softmax_temperature(sites, 2.0)


def softmax_temperature(sites: Sites, value: float) -> Edit:
    return edit(
        "attention_scale", f"scores times {value:.5g} before the softmax", sites,
        lambda c: c.function(c.args[0] * value, *c.args[1:], **c.kwargs), rank=3, parameter=value, refit=lambda v: softmax_temperature(sites, v),
    )  # fmt: skip


def resize_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op == "interpolate":
        now = example.settings.get("mode", "nearest")
        for mode, align in (("nearest", None), ("nearest-exact", None), ("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True), ("area", None)):  # fmt: skip
            if mode != now or align != example.settings.get("align_corners"):
                words = mode + ("" if align is None else f", align_corners={align}")
                yield edit(
                    "upsample_mode",
                    f"{words} instead of {now}",
                    sites,
                    lambda c, m=mode, a=align: c.given(mode=m, align_corners=a),
                    rank=2,
                )
    elif example.op == "pad":
        for mode in ("constant", "reflect", "replicate", "circular"):
            yield edit("padding_mode", f"{mode} padding", sites, lambda c, m=mode: c.given(mode=m, value=None), rank=2)
        sides = example.operands[1] if len(example.operands) > 1 else None
        if isinstance(sides, (list, tuple)) and len(sides) == 4:
            for order in ((1, 0, 3, 2), (2, 3, 0, 1)):
                yield edit("padding_sides", "padding on the other sides", sites, lambda c, o=order: c.operand(1, tuple(c.args[1][i] for i in o)), rank=2)  # fmt: skip
    elif example.op in ("avg_pool2d", "max_pool2d"):
        other = F.max_pool2d if example.op == "avg_pool2d" else F.avg_pool2d
        yield edit(
            "pooling_kind",
            "average and maximum pooling exchanged",
            sites,
            lambda c: other(c.args[0], c.args[1]),
            rank=2,
        )


def index_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op == "arange":
        for by in (1, -1):
            yield edit("position_offset", f"positions {by:+d}", sites, lambda c, b=by: c.run() + b, rank=2)
        yield edit("position_order", "positions in reversed order", sites, lambda c: c.run().flip(0), rank=3)
    elif example.op == "argmax":
        for by in (1, -1):
            yield edit("pooling_index", f"token {by:+d} from the one taken", sites, lambda c, b=by: c.run() + b, rank=2)
        yield edit(
            "pooling_index", "last token", sites, lambda c: torch.full_like(c.run(), c.args[0].shape[-1] - 1), rank=1
        )
        yield edit("pooling_index", "first token", sites, lambda c: torch.zeros_like(c.run()), rank=2)
        yield edit("pooling_index", "last of equal maxima", sites, _last_maximum, rank=1)
    elif example.op == "getitem" and len(example.operands) > 1:
        yield from _selection_edits(example, sites)
    elif example.op in (
        "flip",
        "roll",
        "clamp",
        "round",
        "floor",
        "ceil",
        "tril",
        "triu",
        "masked_fill",
        "where",
        "repeat_interleave",
    ):
        if example.operands and example.operands[0] == example.shape:
            yield edit("left_out", f"`{example.op}` left out", sites, lambda c: c.args[0], rank=5)
        if example.op == "masked_fill":
            yield edit("attention_mask", "mask inverted", sites, lambda c: c.operand(1, ~c.args[1]), rank=2)
        if example.op == "where":
            yield edit("attention_mask", "condition inverted", sites, lambda c: c.operand(0, ~c.args[0]), rank=2)
        if example.op == "repeat_interleave":
            yield edit("repeat_kind", "repeated block by block instead of element by element", sites, _tiled, rank=2)
    elif example.op in ("repeat", "tile"):
        yield edit(
            "repeat_kind", "repeated element by element instead of block by block", sites, _interleaved_repeat, rank=2
        )


_REDUCTIONS = {"mean", "amax", "sum"}


def _reduction_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    dim = example.settings.get("dim", example.operands[1] if len(example.operands) > 1 else None)
    if not isinstance(dim, int) or not isinstance(example.operands[0], tuple):
        return
    keep = len(example.shape) == len(example.operands[0])
    others = {
        "the first element": lambda x: x.narrow(dim, 0, 1),
        "the last element": lambda x: x.narrow(dim, x.shape[dim] - 1, 1),
        "the maximum": lambda x: x.amax(dim, keepdim=True),
        "the mean": lambda x: x.mean(dim, keepdim=True),
        "the sum": lambda x: x.sum(dim, keepdim=True),
    }
    for words, function in others.items():
        if words != f"the {example.op}":
            yield edit("pooling_kind", f"{words} instead of the {example.op}", sites, lambda c, f=function: f(c.args[0]) if keep else f(c.args[0]).squeeze(dim), rank=2)  # fmt: skip
    for other in range(1, len(example.operands[0])):
        if other != dim % len(example.operands[0]) and keep:
            yield edit("reduced_axis", f"`{example.op}` over axis {other}", sites, lambda c, d=other: getattr(c.args[0], c.op)(d, keepdim=True), rank=3)


def _tiled(call: Call) -> torch.Tensor:
    dim = call.named.get("dim", -1)
    return torch.cat([call.args[0]] * int(call.named["repeats"]), dim)


def _interleaved_repeat(call: Call) -> torch.Tensor:
    x = call.args[0]
    sizes = call.args[1] if isinstance(call.args[1], (list, tuple)) else call.args[1:]
    for dim, count in enumerate(sizes):
        x = x.repeat_interleave(count, dim) if count > 1 else x
    return x


def _last_maximum(call: Call) -> torch.Tensor:
    x = call.args[0]
    return x.shape[-1] - 1 - x.flip(-1).argmax(-1)


def _selection_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    index = example.operands[1]
    parts = list(index) if isinstance(index, tuple) else [index]
    for position, part in enumerate(parts):
        if isinstance(part, int) and not isinstance(part, bool):
            for other in dict.fromkeys((part + 1, part - 1, 0, -1)):
                if other != part:
                    yield edit("wrong_index", f"index {other} instead of {part}", sites, _at(position, other), rank=3)
        elif isinstance(part, slice) and part.step in (2, None) and part != slice(None):
            for other in _other_slices(part):
                yield edit(
                    "slice_lanes", f"[{_words(other)}] instead of [{_words(part)}]", sites, _at(position, other), rank=3
                )


def _words(part: slice) -> str:
    return ":".join("" if v is None else str(v) for v in (part.start, part.stop, part.step))


def _other_slices(part: slice) -> list[slice]:
    if part.step == 2:
        return [slice(1 - (part.start or 0), None, 2)]
    start, stop = part.start, part.stop
    found = [slice(stop, None)] if start is None and stop is not None else []
    found += [slice(None, start)] if start is not None and stop is None else []
    return found


def _at(position: int, value: Any) -> Callable[[Call], Any]:
    def apply(call: Call) -> Any:
        if not isinstance(call.args[1], tuple):
            return call.args[0][value]
        parts = list(call.args[1])
        parts[position] = value
        return call.args[0][tuple(parts)]

    return apply


def layout_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    """Rearrangements of the result that keep its shape."""
    shape = example.shape
    if not shape or example.op in _ARITHMETIC or max(shape) < 2 or not example.floating:
        return
    if example.op in ("view", "reshape", "unflatten", "permute", "transpose", "flatten", "movedim", "rearrange"):
        yield edit(
            "head_layout",
            "the last two axes in the other memory order",
            sites,
            lambda c: _reread(c.run(), -1, -2),
            rank=3,
        )
        if len(shape) > 2:
            yield edit(
                "head_layout",
                "axes -2 and -3 in the other memory order",
                sites,
                lambda c: _reread(c.run(), -2, -3),
                rank=3,
            )
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
    if example.op in ("linear", "conv2d", "embedding", "sin", "cos", "cat", "getitem", "matmul", "flatten", "reshape", "view"):
        axis = 1 if example.op == "conv2d" else -1
        yield from _axis_orders(shape[axis], axis, sites)


def _axis_orders(size: int, axis: int, sites: Sites) -> Iterator[Edit]:
    for parts in (2, 3, 4, 6):
        if size % parts or size == parts:
            continue
        for order in list(permutations(range(parts)))[1:] if parts <= 3 else _swaps(parts):
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
        yield edit("interleave", f"{parts} parts of the output interleaved", sites, lambda c, n=parts: _dealt(c.run(), c.run().shape[axis] // n, axis), rank=4)  # fmt: skip
    yield edit("reversed", "output in reversed order", sites, lambda c: c.run().flip(axis), rank=4)


def _ordered(x: torch.Tensor, parts: int, order: tuple[int, ...], axis: int) -> torch.Tensor:
    pieces = x.chunk(parts, axis)
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
