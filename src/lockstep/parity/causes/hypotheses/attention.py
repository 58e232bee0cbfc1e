"""What other implementations do in attention: scale, mask, heads, order of the operands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F

from ..edits import Call, Edit, Site
from ..examples import Example, edit

Sites = frozenset[Site]
MOST_KEYS = 128


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
    if not causal:
        yield from _hidden_keys(example.tensors["key"][-2], sites, _attention_without)


def attention_scale(sites: Sites, before: float, value: float, name: str = "fitted") -> Edit:
    return edit(
        "attention_scale",
        f"attention scale {value:.5g} ({name}) instead of {before:.5g}",
        sites,
        lambda call: call.given(scale=value),
        rank=2,
        parameter=value,
        refit=lambda v: attention_scale(sites, before, v),
    )


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
        yield edit(
            "attention_heads",
            f"{count} heads of {total // count} instead of {heads} of {width}",
            sites,
            lambda c, n=count: _other_heads(c, n),
            rank=2,
        )
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
    yield edit(
        "query_key_norm",
        "query and key normalized",
        sites,
        lambda c: c.given(query=F.normalize(c.args[0], dim=-1), key=F.normalize(c.args[1], dim=-1)),
        rank=5,
    )


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
    yield from _hidden_keys(example.shape[-1] if example.shape else 0, sites, _softmax_without)


def _hidden_keys(count: int, sites: Sites, change: Any) -> Iterator[Edit]:
    """Padding: the keys behind some token are not attended to."""
    if 1 < count <= MOST_KEYS:
        for start in range(1, count):
            words = f"keys from {start} on masked (padding)"
            yield edit("attention_mask", words, sites, lambda c, s=start: change(c, s), rank=3)


def _softmax_without(call: Call, start: int) -> Any:
    scores = call.args[0].clone()
    scores[..., start:] = float("-inf")
    return call.function(scores, *call.args[1:], **call.kwargs)


def _attention_without(call: Call, start: int) -> Any:
    query, key = call.args[0], call.args[1]
    mask = torch.zeros(query.shape[-2], key.shape[-2], dtype=query.dtype)
    mask[:, start:] = float("-inf")
    if call.named.get("attn_mask") is not None:
        given = call.named["attn_mask"]
        mask = mask + (
            given if given.dtype is not torch.bool else mask.new_zeros(()).masked_fill(~given, float("-inf"))
        )
    return call.given(attn_mask=mask)


def softmax_temperature(sites: Sites, value: float) -> Edit:
    return edit(
        "attention_scale",
        f"scores times {value:.5g} before the softmax",
        sites,
        lambda c: c.function(c.args[0] * value, *c.args[1:], **c.kwargs),
        rank=3,
        parameter=value,
        refit=lambda v: softmax_temperature(sites, v),
    )
