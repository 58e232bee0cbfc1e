"""What other implementations do between layers: order of parts, attention, constants, resizing, indices, precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F

from ..edits import Call, Edit, NotApplicable, Site
from ..examples import Example, edit

Sites = frozenset[Site]
ARITHMETIC = {
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
MOST_PARTS = 4  # of a join that one may be missing from
_SPLITS = {"chunk", "split", "unbind", "tensor_split", "split_with_sizes"}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def arithmetic_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in ARITHMETIC or not example.operands:
        return
    for index, operand in enumerate(example.operands[:2]):
        if _is_number(operand):
            yield from _constant_edits(example, index, operand, sites)
        elif operand == example.shape and len(example.operands) > 1:
            other = example.operands[1 - index]
            what = "tensor" if isinstance(other, tuple) else repr(other)
            words, rank = f"`{example.op}` of the {what} left out", 6
            if example.op == "add" and other == operand:  # more specific than "some other value goes on"
                words, rank = f"the residual is missing: operand {index} of `add` goes on alone", 4
            yield edit("left_out", words, sites, lambda call, i=index: call.args[i], rank=rank)
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
    if example.op in ("mul", "div"):
        divides = example.op == "div"
        words = (
            "multiplied instead of divided by the tensor" if divides else "divided instead of multiplied by the tensor"
        )
        turn = (lambda c: c.args[0] * c.args[1]) if divides else (lambda c: c.args[0] / c.args[1])
        yield edit("inverse", words, sites, turn, rank=2)
    if example.op == "mul":
        yield edit(
            "inverse", "divided by the first tensor, not multiplied", sites, lambda c: c.args[1] / c.args[0], rank=3
        )
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
    tried = [value + 1, value - 1, 2 * value, value / 2, -value, 0.0, 1.0]
    exponent = example.op == "pow" and index == 1  # a large one takes the term away: that is said otherwise
    tried += [] if exponent else [10 * value, value / 10, 100 * value, value / 100]
    tried += [1 / value, value * value] if value else []
    tried += [math.sqrt(value), 1 / math.sqrt(value)] if value > 0 else []
    if (example.op == "pow" and not exponent) or abs(value) > 100:
        tried += [500.0, 1000.0, 10000.0, 100000.0, 1e6]
    if example.op == "div" and index == 1 and value:
        words = f"times the rounded inverse of {value:.6g} instead of a division by it"
        yield edit(
            "rounding", words, sites, lambda c: c.args[0] * torch.tensor(1 / value, dtype=c.args[0].dtype), rank=4
        )
    if example.op in ("div", "truediv", "mul") and index == 1 and abs(value) not in (0, 1):
        verbs = ("divided", "multiplied") if example.op == "mul" else ("multiplied", "divided")
        turn = (lambda c: c.args[0] / c.args[1]) if example.op == "mul" else (lambda c: c.args[0] * c.args[1])
        yield edit("inverse", f"{verbs[0]} by {value:.6g} instead of {verbs[1]}", sites, turn, rank=1)
    for new in dict.fromkeys(tried):
        if new != value and math.isfinite(new):
            yield constant(example.op, cause, index, value, new, sites)


def constant(op: str, cause: str, index: int, before: float, value: float, sites: Sites) -> Edit:
    def apply(call: Call) -> Any:
        return call.operand(index, _in_step(op, call.args[index], before, value))

    return edit(
        cause, f"{value:.6g} instead of {before:.6g} in `{op}`", sites, apply, rank=4,
        parameter=value, refit=lambda v: constant(op, cause, index, before, v, sites),
    )  # fmt: skip


def _in_step(op: str, given: Any, before: float, value: float) -> Any:
    """The number for one call: a factor that is another one in each step of a loop changes in the same way in each."""
    changes = op in ("mul", "div", "truediv") and isinstance(given, (int, float)) and before and given != before
    if not changes:
        return value
    return 1 / given if value == 1 / before and abs(before) != 1 else given * value / before


def split_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    pieces = example.pieces
    if example.op not in _SPLITS or len(pieces) < 2 or len(set(pieces)) > 1:
        return
    count = len(pieces)
    orders = list(permutations(range(count)))[1:] if count <= 4 else swaps(count)
    for order in orders:
        words = ", ".join(str(i) for i in order)
        words = f"parts taken in the order {words}"
        yield edit("split_order", words, sites, lambda c, o=order: _reordered(c, o), rank=1)
    yield edit(
        "split_interleave", f"every {count}th element instead of {count} blocks", sites, _interleaved_split, rank=1
    )
    dim = example.settings.get("dim", 0) if example.op != "unbind" else None
    size = pieces[0][dim] if isinstance(dim, int) else 0
    for heads in [h for h in range(2, 65) if size % h == 0 and size > h]:
        words = f"the {count} parts interleaved per head ({heads} heads)"
        yield edit("split_interleave", words, sites, lambda c, h=heads: _split_per_head(c, h), rank=2)


def _reordered(call: Call, order: tuple[int, ...]) -> Any:
    pieces = call.run()
    if len(pieces) != len(order):
        raise NotApplicable(f"{len(pieces)} parts, not {len(order)}")
    return tuple(pieces[i] for i in order)


def swaps(count: int) -> list[tuple[int, ...]]:
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
        for i in range(count) if example.op == "cat" and count <= MOST_PARTS else ():
            words = f"part {i} of the {count} of `cat` left out"
            yield edit("left_out", words, sites, lambda call, i=i: _without_part(call, i), rank=3)
        if count == 2:
            for i in (0, 1):
                yield edit(
                    "sign", f"part {i} of `{example.op}` negated", sites, lambda call, i=i: _negated(call, i), rank=4
                )


def _without_part(call: Call, index: int) -> Any:
    parts = list(call.args[0])
    if index >= len(parts):
        raise NotApplicable("fewer parts")
    return call.function([*parts[:index], *parts[index + 1 :]], *call.args[1:], **call.kwargs)


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


def resize_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op == "interpolate":
        now = example.settings.get("mode", "nearest")
        for mode, align in (
            ("nearest", None),
            ("nearest-exact", None),
            ("bilinear", False),
            ("bilinear", True),
            ("bicubic", False),
            ("bicubic", True),
            ("area", None),
        ):
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
                turned = tuple(sides[i] for i in order)
                yield edit(
                    "padding_sides",
                    f"padding {turned} instead of {tuple(sides)} (left, right, above, below)",
                    sites,
                    lambda c, o=order: c.operand(1, tuple(c.args[1][i] for i in o)),
                    rank=2,
                )
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
        yield from _pooling_edits(example, sites)
        yield from _selection_edits(example, sites)
    elif example.op in _CAN_BE_LEFT_OUT:
        if example.operands and example.operands[0] == example.shape:
            yield edit(
                _LEFT_OUT.get(example.op, "left_out"), f"`{example.op}` left out", sites, lambda c: c.args[0], rank=3
            )
        yield from _mask_edits(example, sites)
        if example.op == "where":
            yield edit("attention_mask", "condition inverted", sites, lambda c: c.operand(0, ~c.args[0]), rank=2)
        if example.op == "repeat_interleave":
            yield edit("repeat_kind", "repeated block by block instead of element by element", sites, _tiled, rank=2)
    elif example.op in ("repeat", "tile"):
        yield edit(
            "repeat_kind", "repeated element by element instead of block by block", sites, _interleaved_repeat, rank=2
        )


_LEFT_OUT = {
    "tril": "causal_mask",
    "triu": "causal_mask",
    "masked_fill": "attention_mask",
    "clamp": "clamp",
    "flip": "reversed",
    "roll": "shifted",
    "dropout": "dropout",
    "neg": "sign",
}
_MASKED = (float("-inf"), -1e4, -1e9, -100.0, -1.0, 0.0)


def _mask_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op in ("tril", "triu"):
        now = example.settings.get("diagonal", example.operands[1] if len(example.operands) > 1 else 0) or 0
        for by in (1, -1):
            yield edit(
                "causal_mask",
                f"diagonal {now + by} instead of {now}",
                sites,
                lambda c, d=now + by: getattr(c.args[0], c.op)(d),
                rank=2,
            )
        other = "triu" if example.op == "tril" else "tril"
        yield edit(
            "causal_mask", f"`{other}` instead of `{example.op}`", sites, lambda c: getattr(c.args[0], other)(), rank=2
        )
    if example.op == "masked_fill":
        yield edit("attention_mask", "mask inverted", sites, lambda c: c.operand(1, ~c.args[1]), rank=2)
        for value in _MASKED:
            yield edit(
                "attention_mask",
                f"masked with {value:g}",
                sites,
                lambda c, v=value: c.args[0].masked_fill(c.args[1], v),
                rank=3,
            )


def _pooling_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    """Tokens that are picked one by one: all of them pooled instead, or another one."""
    whole, picked = example.operands[0], example.shape
    if not isinstance(whole, tuple) or len(whole) != 3 or picked != (whole[0], whole[2]):
        return
    others: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "the mean of all tokens": lambda x: x.mean(1),
        "the largest of all tokens": lambda x: x.amax(1),
        "the sum of all tokens": lambda x: x.sum(1),
    }
    for words, function in others.items():
        yield edit("pooling_kind", f"{words} instead of one", sites, lambda c, f=function: f(c.args[0]), rank=2)
    for index, words in ((0, "the first token"), (-1, "the last token")):
        yield edit("pooling_index", words, sites, lambda c, i=index: c.args[0][:, i], rank=2)


_CAN_BE_LEFT_OUT = {*_LEFT_OUT, "round", "floor", "ceil", "where", "repeat_interleave"}


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
    if index is None:  # tensors pick the elements
        return
    parts = list(index) if isinstance(index, tuple) else [index]
    for position, part in enumerate(parts):
        if isinstance(part, int) and not isinstance(part, bool):
            for by in (1, -1):  # of whatever the index is: in a loop it is another one at every step
                words = f"index {part + by} instead of {part}"
                yield edit("wrong_index", words, sites, _moved_index(position, by), rank=3)
            for other in dict.fromkeys((0, -1)):
                if other not in (part, part + 1, part - 1):
                    yield edit("wrong_index", f"index {other} instead of {part}", sites, _at(position, other), rank=3)
        elif isinstance(part, slice) and part.step in (2, None) and part != slice(None):
            for lanes in _other_slices(part):
                yield edit(
                    "slice_lanes", f"[{_words(lanes)}] instead of [{_words(part)}]", sites, _at(position, lanes), rank=3
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
        if position >= len(parts):
            raise NotApplicable("another kind of index")
        parts[position] = value
        return call.args[0][tuple(parts)]

    return apply


def _moved_index(position: int, by: int) -> Callable[[Call], Any]:
    def apply(call: Call) -> Any:
        index = call.args[1]
        if isinstance(index, tuple) and (position >= len(index) or not isinstance(index[position], int)):
            raise NotApplicable("another kind of index")
        return _at(position, (index[position] if isinstance(index, tuple) else index) + by)(call)

    return apply
