"""The name of the kind of a difference: the one that a hypothesis about the same thing would have."""

from __future__ import annotations

from collections import Counter

import torch

from .graph import SHAPES, FrameStep, FrameValue, is_draw

ACTIVATIONS = frozenset(
    ["gelu", "silu", "relu", "sigmoid", "tanh", "mish", "elu", "leaky_relu", "softplus", "hardswish"]
)
SPLITS = frozenset(["chunk", "split", "unbind", "tensor_split", "split_with_sizes"])
MOVABLE = ("extra_step", "left_out", "rope_missing", "activation", "scale")  # of a step that may have moved
_FACTORS = ("mul", "div", "rmul")
_NORMS = ("layer_norm", "group_norm", "rms_norm", "instance_norm", "batch_norm")


def before_shapes(value: FrameValue) -> FrameValue:
    """What a value is another view of."""
    while value.step is not None and value.step.name in SHAPES | {"getitem"} and len(value.step.operands()) == 1:
        value = value.step.operands()[0]
    return value


def takes_parts(steps: list[FrameStep]) -> bool:
    """True if the steps take several parts of one split."""
    inside = {id(step) for step in steps}
    made = [before_shapes(v) for s in steps for v in s.operands() if v.step is not None and id(v.step) not in inside]
    splits = Counter(id(v.step) for v in made if v.step is not None and v.step.name in SPLITS)
    return any(count > 1 for count in splits.values())


def exchange_kind(one: FrameValue, other: FrameValue) -> str:
    """Two parts of one split taken for each other, or any two values."""
    steps = [before_shapes(value).step for value in (one, other)]
    known = steps[0] is not None and steps[0] is steps[1] and steps[0].name in SPLITS
    return "split_order" if known else "operand_order"


def step_kind(steps: list[FrameStep], otherwise: str) -> str:
    """A step too many or too few by what it does: an activation, a factor, else the general name."""
    telling = [step for step in steps if step.name not in SHAPES]
    taken = [*telling, *(v.step for step in telling for v in step.operands() if v.step is not None)]
    if any(is_draw(step) for step in taken) and any(step.name == "exp" for step in taken):
        return "posterior_sample"  # a draw times the root of a variance
    if len(telling) != 1 or isinstance(telling[0].place, str):
        return otherwise
    step = telling[0]
    if step.name in ACTIVATIONS:
        return "activation"
    if step.name in ("add", "sub") and step.values and is_index(step.values[0]):
        return "index_offset"
    tensors = [v for v in step.operands() if v.content.numel() > 1]
    return "scale" if step.name in _FACTORS and len(tensors) == 1 else otherwise


def is_index(value: FrameValue) -> bool:
    """True for whole numbers."""
    dtype = value.content.dtype
    return not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool)


def norm_kind(mine: list[FrameStep], others: list[FrameStep]) -> str:
    """Where one norm stands for another one, whether it is of another kind or over other axes; else empty."""
    kinds = [[_norm_of(step) for step in steps if step.name not in SHAPES] for steps in (mine, others)]
    if len(kinds[0]) != 1 or len(kinds[1]) != 1 or "" in (kinds[0][0], kinds[1][0]):
        return ""  # something else is done beside it
    return "reduced_axes" if kinds[0] == kinds[1] else "norm_kind"


def _norm_of(step: FrameStep) -> str:
    """By the operation's name, or by that of the module's class."""
    if not isinstance(step.place, str):
        return step.name if step.name in _NORMS else ""
    name = type(step.function).__name__.lower()
    return next((kind for kind in _NORMS if kind.replace("_", "") in name), "")
