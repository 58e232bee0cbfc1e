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
HIDDEN = -1e4  # added to a score, this and everything below it hides the key
SAME = 1e-5  # of the scores: what is added to them otherwise is another mask
MOST_SCORES = 1 << 24
MOST_MASKS = 4  # upon each other
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
    mask: torch.Tensor | None = None  # what is added to the scores before the softmax, however that is written
    size: float = 1.0  # of the scores: what a mask is measured by
    behind: FrameValue | None = None  # what the weights are multiplied with, behind the softmax
    axis: int = -1  # of the softmax
    heads: int = 1  # of all rows together


def attention_words(same_numbers: Same, ours: FrameValue, theirs: FrameValue) -> tuple[str, str]:
    """The name and the one thing that two attentions do differently; empty where it is none or more than one."""
    a, b = attention_of(ours), attention_of(theirs)
    if a is None or b is None:
        return "", ""
    if heads := _heads(same_numbers, a, b):
        return "attention_heads", heads
    found = [*_operands(same_numbers, a, b), *_settings(a, b), *_masks(a, b)]
    return found[0] if len(found) == 1 else ("", "")


def have_other_heads(ours: FrameValue, theirs: FrameValue) -> bool:
    """True for two attentions whose results lie otherwise, since they are split otherwise."""
    a, b = attention_of(ours), attention_of(theirs)
    return a is not None and b is not None and a.heads != b.heads


def attention_parts(same_numbers: Same, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]]:
    """What goes into two attentions that do the same with it, and is not the same; empty where that is not it."""
    a, b = attention_of(ours), attention_of(theirs)
    if a is None or b is None or a.heads != b.heads or _settings(a, b) or _masks(a, b):
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


def _heads(same_numbers: Same, a: AttentionForm, b: AttentionForm) -> str:
    """Another number of heads, where what is split into them is the same; with it the width, and so the usual scale."""
    if a.heads == b.heads:
        return ""
    parts = [[_whole(getattr(form, part)) for part in PARTS] for form in (a, b)]
    rows = parts[0][0].content.shape[0]
    if a.heads % rows or b.heads % rows or not all(same_numbers(x, y) for x, y in zip(*parts, strict=True)):
        return ""
    return f"the attention has {b.heads // rows} heads instead of {a.heads // rows}"


def _whole(value: FrameValue) -> FrameValue:
    """Before it is split into heads."""
    while value.step is not None and value.step.name in SHAPES and len(value.step.operands()) == 1:
        value = value.step.operands()[0]
    return value


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


def _masks(a: AttentionForm, b: AttentionForm) -> list[tuple[str, str]]:
    if (a.behind is None) != (b.behind is None):
        if a.behind is None and a.mask is not None:
            return [("attention_mask", "a mask multiplied behind the softmax instead of added before it")]
        return [("", "")] * 2
    if a.mask is None and b.mask is None:
        return []
    if a.mask is None or b.mask is None:
        has = "has no mask" if b.mask is None else "has a mask, and should have none"
        return [("attention_mask", f"the attention {has}")]
    with torch._C.DisableTorchFunction():
        mine, theirs = _same_shape(a.mask, b.mask)
        if mine is None or theirs is None:
            return [("", "")] * 2
        hidden = [mask <= HIDDEN for mask in (mine, theirs)]
        if not torch.equal(*hidden):
            return [("attention_mask", _hidden_words(*hidden))]
        left = [mask.masked_fill(hidden[0], 0) for mask in (mine, theirs)]
        size = max(a.size, b.size, float(left[0].norm()))
        if float((left[0] - left[1]).norm()) <= SAME * size:
            return []
        if float(left[1].norm()) <= SAME * size:
            return [
                ("attention_mask", "nothing is added to the scores of the attention, where the reference adds a bias")
            ]
        if float(left[0].norm()) <= SAME * size:
            return [("attention_mask", "a bias is added to the scores of the attention, where the reference adds none")]
    return [("attention_mask", "another bias is added to the scores of the attention")]


def _same_shape(mine: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    if mine.shape == theirs.shape:
        return mine, theirs
    try:
        shape = torch.broadcast_shapes(mine.shape, theirs.shape)
    except RuntimeError:
        return None, None
    return mine.expand(shape), theirs.expand(shape)


def _hidden_words(mine: torch.Tensor, theirs: torch.Tensor) -> str:
    """Which keys are hidden, where that is a simple thing to say."""
    diagonals = [_diagonal(hidden) for hidden in (theirs, mine)]
    if None not in diagonals:
        words = [f"from diagonal {d}" if d is not None and d >= 0 else "below it" for d in diagonals]
        return f"the mask hides keys {words[0]} on instead of {words[1]} on"
    counts = [float(hidden.double().mean()) for hidden in (theirs, mine)]
    nothing = " (none)" if not counts[0] else ""
    return f"the attention hides other keys: {counts[0]:.0%}{nothing} of them instead of {counts[1]:.0%}"


def _diagonal(hidden: torch.Tensor) -> int | None:
    """The first diagonal that is hidden, where everything from it on is and nothing else."""
    table = hidden.reshape(-1, *hidden.shape[-2:])[0]
    if not hidden.any() or not bool((hidden == table).all()):
        return None
    ones = torch.ones_like(table)
    return next((d for d in range(-2, table.shape[-1]) if torch.equal(ones.triu(d), table)), None)


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
    scale = float(settings.get("scale") or parts[0].content.shape[-1] ** -0.5)  # type: ignore[union-attr]
    query, key = (part.content for part in parts[:2])  # type: ignore[union-attr]
    added: torch.Tensor | None = None
    with torch._C.DisableTorchFunction():
        if isinstance(mask, FrameValue):
            added = mask.content
            added = added.double() if added.is_floating_point() else _hiding(~added.bool())
        if settings.get("is_causal"):
            added = _hiding(torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu(1))
        if added is not None and not added.any():
            added = None
        many = query.shape[:-1].numel() * key.shape[-2] <= MOST_SCORES and query.shape[:-2] == key.shape[:-2]
        size = float((query.double() @ key.double().mT).norm()) * abs(scale) if many else 1.0
    form = AttentionForm(*parts, scale, added, size)  # type: ignore[arg-type, call-arg]
    return replace(form, heads=query.shape[:-2].numel())


def _hiding(hidden: torch.Tensor) -> torch.Tensor:
    return torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)


def _of_scores(scores: FrameValue, value: FrameValue) -> AttentionForm | None:
    """Back from what goes into the softmax to the product of query and key; what else was done on the way is what is
    added to the scores."""
    scale, masked, at = 1.0, False, scores
    while (step := _made(at)) is not None and step.name not in _PRODUCTS:
        number, rest = _factor(step)
        if rest is not None:
            scale, at = scale * number, rest
        elif step.name in ("add", "masked_fill", "where", "sub"):
            inner = [v for v in step.operands() if _leads_to_product(v)]
            if len(inner) != 1:
                return None
            at, masked = inner[0], True
        else:
            return None
    if step is None or len(step.operands()) != 2:
        return None
    mask: torch.Tensor | None = None
    with torch._C.DisableTorchFunction():
        product = at.content.double() * scale
        if masked and product.shape == scores.content.shape:
            mask = scores.content.double() - product
            mask = mask.masked_fill(scores.content <= HIDDEN, -torch.inf)
        size = float(product.norm())
        if mask is not None and float(mask.norm()) <= SAME * size:
            mask = None
    parts = []
    for operand in step.operands():
        made = _made(operand)
        number, rest = _factor(made) if made is not None else (1.0, None)
        scale *= number
        parts.append(rest if rest is not None else operand)
    key = parts[1] if step.name == "einsum" else _unturned(parts[1])
    return AttentionForm(parts[0], key, value, scale, mask, size, heads=at.content.shape[:-2].numel())


def _leads_to_product(value: FrameValue) -> bool:
    """True for scores: a product of two values, times numbers and with masks upon it."""
    step = _made(value)
    for _ in range(MOST_MASKS):
        if step is None or step.name in _PRODUCTS:
            return step is not None
        rest = _factor(step)[1]
        if rest is None and step.name in ("add", "masked_fill", "where", "sub"):
            return any(_leads_to_product(v) for v in step.operands() if v.content.shape == value.content.shape)
        step = _made(rest) if rest is not None else None
    return False


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
