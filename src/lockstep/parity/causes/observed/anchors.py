"""Places that both sides have whatever their code looks like: where they use one and the same weight.

A port written as one function has no modules whose values could be put side by side. What goes into a weight is known
all the same, and the first weight that is given something else says where the difference begins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from .graph import SHAPES, FrameStep, FrameValue, Graph

# What goes in is one value however the code is written; a norm may be one step or six.
PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "conv", "einsum", "embedding", "getitem", "index_select")
LEAST = 16  # numbers of a weight that is known by them alone
_DIGITS = 5  # of a weight's norm and sum, by which it is known on the other side
Fingerprint = tuple[int, str, str]


@dataclass(frozen=True)
class WeightUse:
    """A step that takes a weight and one other value."""

    weight: str  # its path
    step: FrameStep
    data: FrameValue


def weight_uses(graph: Graph) -> dict[Fingerprint, list[WeightUse]]:
    """By what the weight is; one that holds the same number everywhere, or that two paths hold, says nothing."""
    found: dict[Fingerprint, list[WeightUse]] = defaultdict(list)
    for step in graph.steps:
        if isinstance(step.place, str) or not step.name.startswith(PRODUCTS):
            continue
        operands = step.operands()
        weights = [w for v in operands if (w := _weight_of(v)) is not None and w.content.numel() > 1]
        data = [v for v in operands if _weight_of(v) is None]
        if len(data) != 1 or not weights:
            continue
        weight = max(weights, key=lambda w: w.content.numel())
        known = _fingerprint(weight.content)
        if known is not None:
            found[known].append(WeightUse(weight.given.partition(":")[2], step, _without_border(step, data[0])))
    return {key: uses for key, uses in found.items() if len({use.weight for use in uses}) == 1}


def _without_border(step: FrameStep, value: FrameValue) -> FrameValue:
    """What a convolution is given, without the border that is put around it in a step of its own or by itself."""
    while step.name.startswith("conv") and value.step is not None and value.step.name == "pad":
        value = value.step.operands()[0]
    return value


def _weight_of(value: FrameValue) -> FrameValue | None:
    """The weight that a value is a view of."""
    while value.step is not None and value.step.name in SHAPES and len(value.step.operands()) == 1:
        value = value.step.operands()[0]
    content = value.content
    plain = not value.given and value.step is None and content.is_floating_point()  # weights that no module holds
    return value if value.given.startswith("weight:") or (plain and content.numel() >= LEAST) else None


def _fingerprint(content: torch.Tensor) -> Fingerprint | None:
    with torch._C.DisableTorchFunction():
        numbers = content.detach().double()
        norm, total = float(numbers.norm()), float(numbers.sum())
        constant = bool((numbers == numbers.reshape(-1)[0]).all())
    return None if constant else (content.numel(), f"{norm:.{_DIGITS}g}", f"{total:.{_DIGITS}g}")


def first_parted(
    ours: Graph, theirs: Graph, agree: Callable[[FrameValue, FrameValue], bool], inside: Callable[[FrameStep], bool]
) -> tuple[WeightUse, WeightUse] | None:
    """The first use of a weight, in the reference's order, that is given other numbers; only of steps `inside`."""
    mine, others = weight_uses(ours), weight_uses(theirs)
    both = [(uses, others[key]) for key, uses in mine.items() if len(uses) == len(others.get(key, ()))]
    pairs = [pair for uses, theirs_uses in both for pair in zip(uses, theirs_uses, strict=True)]
    for use, other in sorted(pairs, key=lambda pair: pair[0].step.number):
        if inside(use.step) and inside(other.step) and not agree(use.data, other.data):
            return _with_border(use, other)
    return None


def _with_border(use: WeightUse, other: WeightUse) -> tuple[WeightUse, WeightUse]:
    """With what is put around them, where the one has a part of that before: frames that are repeated or zero."""
    whole = [_given(one) for one in (use, other)]
    if use.data.content.shape == other.data.content.shape or whole[0].content.shape != whole[1].content.shape:
        return use, other
    return replace(use, data=whole[0]), replace(other, data=whole[1])


def _given(use: WeightUse) -> FrameValue:
    """What the step is given as it is, border and all."""
    return next(v for v in use.step.operands() if _weight_of(v) is None)
