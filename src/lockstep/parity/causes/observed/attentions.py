"""An attention read as what it is, whether it is one call or a product, a softmax and a product."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from .graph import SHAPES, FrameStep, FrameValue
from .settings import plain

Same = Callable[[FrameValue, FrameValue], bool]

PARTS = ("query", "key", "value")
FUSED = "scaled_dot_product_attention"
NEAR = 1e-4  # relative: two factors of the scores that are nearer are one
_PRODUCTS = ("matmul", "bmm", "einsum", "baddbmm")
_NOTHING = SHAPES | {"dropout"}


@dataclass(frozen=True)
class AttentionForm:
    """What goes into an attention, and what is done to its scores and weights."""

    query: FrameValue
    key: FrameValue
    value: FrameValue
    scale: float
    mask: FrameValue | None = None  # on the scores, before the softmax
    causal: bool = False
    behind: FrameValue | None = None  # what the weights are multiplied with, behind the softmax
    axis: int = -1  # of the softmax


def attention_words(same_numbers: Same, ours: FrameValue, theirs: FrameValue) -> tuple[str, str]:
    """The name and the one thing that two attentions do differently; empty where it is none or more than one."""
    a, b = attention_of(ours), attention_of(theirs)
    if a is None or b is None:
        return "", ""
    found = [*_operands(same_numbers, a, b), *_settings(a, b), *_masks(same_numbers, a, b)]
    return found[0] if len(found) == 1 else ("", "")


def attention_parts(same_numbers: Same, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]]:
    """What goes into two attentions that do the same with it, and is not the same; empty where that is not it."""
    a, b = attention_of(ours), attention_of(theirs)
    if a is None or b is None or _settings(a, b) or _masks(same_numbers, a, b):
        return []
    if (words := _operands(same_numbers, a, b)) and words[0][0]:
        return []  # exchanged: that is the attention's own matter
    pairs = [(getattr(a, part), getattr(b, part)) for part in PARTS]
    differing = [pair for pair in pairs if not same_numbers(*pair)]
    return differing if all(x.step is not None and y.step is not None for x, y in differing) else []


def _operands(same_numbers: Same, a: AttentionForm, b: AttentionForm) -> list[tuple[str, str]]:
    parts = PARTS
    same = {(x, y): same_numbers(getattr(a, x), getattr(b, y)) for x in parts for y in parts}
    differing = [part for part in parts if not same[part, part]]
    if len(differing) == 2 and all(same[x, y] for x, y in (differing, differing[::-1])):
        return [("operand_order", f"{differing[0]} and {differing[1]} of the attention are exchanged")]
    taken = [next((y for y in parts if same[y, x]), "") for x in differing]
    if len(differing) == 1 and taken[0]:
        return [("wrong_operand", f"the attention takes the {taken[0]} for its {differing[0]}")]
    return [("", "")] * 2 if differing else []  # made otherwise before it: not the attention's own matter


def _settings(a: AttentionForm, b: AttentionForm) -> list[tuple[str, str]]:
    found = []
    if not math.isclose(a.scale, b.scale, rel_tol=NEAR):
        words = f"scores of the attention times {b.scale:.6g}{_of_width(a, b)} instead of times {a.scale:.6g}"
        found.append(("attention_scale", words))
    if a.axis != b.axis:
        found.append(("reduced_axes", f"softmax over axis {b.axis} instead of {a.axis} of the scores"))
    return found


def _of_width(a: AttentionForm, b: AttentionForm) -> str:
    """Where the factor belongs to another width of the heads, or is none."""
    width = a.query.content.shape[-1]
    known = {width**-1.0: f"1/{width}", 1.0: "none", width**0.5: f"the root of {width}"}
    return next((f" ({words})" for number, words in known.items() if math.isclose(b.scale, number, rel_tol=NEAR)), "")


def _masks(same_numbers: Same, a: AttentionForm, b: AttentionForm) -> list[tuple[str, str]]:
    if a.behind is None and b.behind is not None and a.mask is not None and b.mask is None:
        return [("attention_mask", "a mask multiplied behind the softmax instead of added before it")]
    if (a.behind is None) != (b.behind is None):
        return [("", "")] * 2
    if a.causal != b.causal and (a.mask is None) == (b.mask is None):
        return [("causal_mask", f"the attention is {'' if b.causal else 'not '}causal")]
    if a.mask is not None and b.mask is None and not b.causal:
        return [("attention_mask", "the attention has no mask")]
    if a.mask is None and b.mask is not None and not a.causal:
        return [("attention_mask", "the attention has a mask, and should have none")]
    if a.mask is not None and b.mask is not None and not same_numbers(a.mask, b.mask):
        return [("attention_mask", "the attention has another mask")]
    return []


def attention_of(value: FrameValue) -> AttentionForm | None:
    """The attention that gives a value, up to its shape."""
    step = _made(value)
    if step is None or isinstance(step.place, str):
        return None
    if step.name == FUSED:
        return _of_call(step)
    operands = step.operands()
    if step.name not in _PRODUCTS or len(operands) != 2:
        return None
    weights, behind = _made(operands[0]), None
    if weights is not None and weights.name == "mul" and len(weights.operands()) == 2:
        inner = [(_made(v), v) for v in weights.operands()]
        behind = next((v for s, v in inner if s is None or s.name != "softmax"), None)
        weights = next((s for s, _ in inner if s is not None and s.name == "softmax"), None)
    if weights is None or weights.name != "softmax":
        return None
    scores = weights.operands()[0]
    form = _of_scores(scores, operands[1])
    if form is None:
        return None
    axis = plain(weights).get("dim", -1)
    axis = axis if axis < 0 else axis - scores.content.ndim
    return replace(form, behind=behind, axis=axis)


def _of_call(step: FrameStep) -> AttentionForm | None:
    given = dict(zip(("query", "key", "value", "attn_mask"), step.args, strict=False)) | step.kwargs
    parts = [given.get(name) for name in ("query", "key", "value")]
    if not all(isinstance(part, FrameValue) for part in parts):
        return None
    settings, mask = plain(step), given.get("attn_mask")
    scale = settings.get("scale") or parts[0].content.shape[-1] ** -0.5  # type: ignore[union-attr]
    mask = mask if isinstance(mask, FrameValue) else None
    return AttentionForm(*parts, float(scale), mask, bool(settings.get("is_causal")))  # type: ignore[arg-type, call-arg]


def _of_scores(scores: FrameValue, value: FrameValue) -> AttentionForm | None:
    """Back from what goes into the softmax to the product of query and key."""
    scale, mask, at = 1.0, None, scores
    while (step := _made(at)) is not None and step.name not in _PRODUCTS:
        number, rest = _factor(step)
        if rest is not None:
            scale, at = scale * number, rest
        elif step.name in ("add", "masked_fill", "where", "sub") and mask is None:
            inner = [v for v in step.operands() if _leads_to_product(v)]
            others = [v for v in step.operands() if v not in inner and v.content.numel() > 1]
            if len(inner) != 1 or len(others) != 1:
                return None
            at, mask = inner[0], others[0]
        else:
            return None
    if step is None or len(step.operands()) != 2:
        return None
    parts = []
    for operand in step.operands():
        made = _made(operand)
        number, rest = _factor(made) if made is not None else (1.0, None)
        scale *= number
        parts.append(rest if rest is not None else operand)
    return AttentionForm(parts[0], _unturned(parts[1]), value, scale, mask)


def _leads_to_product(value: FrameValue) -> bool:
    step = _made(value)
    while step is not None and step.name not in _PRODUCTS:
        rest = _factor(step)[1]
        if rest is None:
            return False
        step = _made(rest)
    return step is not None


def _factor(step: FrameStep) -> tuple[float, FrameValue | None]:
    """The number that a value is multiplied with, and the value."""
    if isinstance(step.place, str) or step.name not in ("mul", "div") or len(step.args) != 2:
        return 1.0, None
    numbers = [_number(argument) for argument in step.args]
    values = [v for v, n in zip(step.args, numbers, strict=True) if n is None and isinstance(v, FrameValue)]
    if len(values) != 1 or (step.name == "div" and numbers[1] is None):
        return 1.0, None
    number = next(n for n in numbers if n is not None)
    return (1 / number if step.name == "div" and number else number), values[0]


def _number(argument: Any) -> float | None:
    if isinstance(argument, FrameValue):
        return float(argument.content) if argument.content.numel() == 1 else None
    return float(argument) if isinstance(argument, (int, float)) else None


def _made(value: FrameValue) -> FrameStep | None:
    """The step that gives a value, behind those that only change its shape."""
    step = value.step
    while step is not None and not isinstance(step.place, str) and step.name in _NOTHING and len(step.operands()) == 1:
        step = step.operands()[0].step
    return step


def _unturned(key: FrameValue) -> FrameValue:
    """The key with its tokens before its channels: what is turned for the product is turned back."""
    with torch._C.DisableTorchFunction():
        given = key.step.operands() if key.step is not None and key.step.name in SHAPES else []
        turned = key.content.transpose(-1, -2) if key.content.ndim > 1 else key.content
        if len(given) == 1 and given[0].content.shape == turned.shape and torch.equal(given[0].content, turned):
            return given[0]
        return FrameValue(key.content.transpose(-1, -2)) if key.content.ndim > 1 else key
