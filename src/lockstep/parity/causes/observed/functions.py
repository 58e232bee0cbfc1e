"""Functions that both sides have, known by what they make of values, however they are written: done in the other order,
or one activation for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import nn

from .arrangement import LEAST
from .graph import SHAPES, FrameValue, TooLarge
from .matching import Matching, Parting
from .smallest import Again, Budget, inside_of, read_as, views_of

MOST = 160  # results computed
MOST_ELEMENTS = 1 << 22
_TURNING = ("sin", "cos", "polar")
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "SiLU": F.silu,
    "GELU (erf)": F.gelu,
    "GELU (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "quick GELU": lambda x: x * torch.sigmoid(1.702 * x),
    "ReLU": F.relu,
    "squared ReLU": lambda x: F.relu(x).square(),
    "leaky ReLU": F.leaky_relu,
    "ELU": F.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "Mish": F.mish,
}


def activation_words(matching: Matching, ours: FrameValue, theirs: FrameValue) -> tuple[str, str]:
    """The name and the words where both are an activation of one value; empty where they are not.

    Between models nothing is activated, and of a few numbers any function may be right.
    """
    count = ours.content.numel()
    if count != theirs.content.numel() or count < LEAST or not ours.content.is_floating_point():
        return "", ""
    if matching.ours.frame.startswith("@"):
        return "", ""
    for value in _leaves(matching, ours):
        if value.content.numel() != ours.content.numel() or not value.content.is_floating_point():
            continue
        with torch.no_grad(), torch._C.DisableTorchFunction():
            made = {name: FrameValue(function(value.content)) for name, function in _ACTIVATIONS.items()}
            made = {name: one for name, one in made.items() if not matching.same_numbers(value, one)}  # it does nothing
        right, wrong = (
            next((name for name, one in made.items() if matching.same_numbers(one, side)), "")
            for side in (ours, theirs)
        )
        if right and wrong and right != wrong:
            kind = "gelu_variant" if "GELU" in right and "GELU" in wrong else "activation"
            return kind, f"{wrong} instead of {right}"
    return "", ""


def order_words(
    matching: Matching, difference: Parting, modules: Mapping[str, nn.Module], name: Callable[[FrameValue], str]
) -> str:
    """Two functions that the candidate does in the other order; empty where it does something else.

    The candidate's last function alone makes a value of the reference, and its first one makes the reference's result
    of that: so both are the reference's, whatever steps they are written in.
    """
    theirs = difference.theirs
    if difference.exit is not None or matching.is_leaf(theirs) or not 1 < theirs.content.numel() <= MOST_ELEMENTS:
        return ""
    try:
        return _exchanged_functions(matching, difference, modules, name)
    except TooLarge:
        return ""


def _exchanged_functions(
    matching: Matching, difference: Parting, modules: Mapping[str, nn.Module], name: Callable[[FrameValue], str]
) -> str:
    ours, theirs = difference.ours, difference.theirs
    rights = [v for _, v in inside_of(matching, ours) if v.step is not None]
    left, budget = MOST, Budget(matching.done_again)
    for first, middle in _cuts(matching, theirs):
        put = read_as(matching, first, middle)
        if put is None:
            continue
        left -= 1
        if left < 0:
            break
        last = Again(matching, modules, {id(middle): put}, budget).value(theirs)
        known = next((r for r in rights if last is not None and _is(matching, r, last)), None)
        given = read_as(matching, known, first) if known is not None else None
        if known is None or given is None:
            continue
        made = Again(matching, modules, {id(first): given}, budget).value(middle)
        if made is not None and _is(matching, ours, made):
            before, behind = _function(matching, ours, name), _function(matching, known, name)
            return f"{before} before {behind}, not behind it"
    return ""


def _is(matching: Matching, value: FrameValue, made: torch.Tensor) -> bool:
    return made.numel() == value.content.numel() and matching.same_numbers(value, FrameValue(made))


def _cuts(matching: Matching, theirs: FrameValue) -> Iterator[tuple[FrameValue, FrameValue]]:
    """What both have and a value that is made of it on the way to the candidate's."""
    values = [v for _, v in inside_of(matching, theirs) if v.content.numel() == theirs.content.numel()]
    values = [v for v in values if v.content.is_floating_point()]
    shared = [v for v in values if matching.is_leaf(v)]
    own = [v for v in values if not matching.is_leaf(v) and v.step is not None and v.step.name not in SHAPES]
    for middle in own:
        taken = [v for step in matching.until_shared(middle) for v in step.operands()]
        below = {id(view) for v in taken for view in views_of(matching, v)}
        for first in shared:
            if id(first) in below:
                yield first, middle


def _function(matching: Matching, value: FrameValue, name: Callable[[FrameValue], str]) -> str:
    """What makes a value of the reference, as a person calls it."""
    step = value.step
    while (
        step is not None and step.name in SHAPES and len(step.operands()) == 1 and step.operands()[0].step is not None
    ):
        step = step.operands()[0].step
    if step is None:
        return f"`{name(value)}`"
    if _turns(matching, value):
        return "the rotation"
    path = step.place if isinstance(step.place, str) else step.place.path
    if path != matching.ours.frame and "norm" in path.rpartition(".")[2]:
        return f"`{path.rpartition('.')[2]}`"
    if step.name in ("add", "sub", "mul", "div") and len(step.operands()) == 2:
        smaller = min(step.operands(), key=lambda v: (v.content.numel(), v.step is not None))
        kind = "the sum" if step.name in ("add", "sub") else "the product"
        return f"{kind} with `{name(smaller)}`"
    return f"`{step.name.rpartition('.')[2]}`"


def _turns(matching: Matching, value: FrameValue) -> bool:
    """True where what a table of sines or cosines holds is multiplied with parts of a value."""
    for step in matching.until_shared(value):
        if step.name in ("mul", "addcmul") and any(_is_table(v) for v in step.operands()):
            return True
    return False


def _is_table(value: FrameValue) -> bool:
    while value.step is not None and value.step.name in SHAPES | {"getitem"} and value.step.operands():
        value = value.step.operands()[0]
    name = value.step.name if value.step is not None else value.given
    return name in _TURNING or any(part in name for part in ("rope", "rotary", "in.cos", "in.sin", "freqs"))


def _leaves(matching: Matching, value: FrameValue) -> Iterator[FrameValue]:
    for step in matching.until_shared(value):
        yield from (v for v in step.operands() if matching.is_leaf(v))
