"""One step of the same values with another number: what the number is by a table of the reference's."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .expressions import Says, short
from .graph import FrameStep, FrameValue, Graph
from .matching import Matching

STEPS = ("mul", "div", "rdiv", "add", "sub", "rsub", "pow")
NEAR = 3e-6  # relative: one entry of a table, in whatever precision it was computed
LEAST_ENTRIES = 8
Form = Callable[[torch.Tensor], torch.Tensor]
FORMS: dict[str, Form] = {
    "": lambda x: x,
    "the root of ": torch.sqrt,
    "1 - ": lambda x: 1 - x,
    "the root of 1 - ": lambda x: (1 - x).sqrt(),
    "1 / the root of ": torch.rsqrt,
}


def number_words(matching: Matching, says: Says, ours: FrameValue, theirs: FrameValue) -> tuple[str, str]:
    """A name and what is told; empty where it is no step of the same values with two numbers."""
    if ours.step is None or theirs.step is None or ours.step.name != theirs.step.name or ours.step.name not in STEPS:
        return "", ""
    mine, others = _parts(ours.step), _parts(theirs.step)
    if mine is None or others is None or not matching.same_numbers(mine[0], others[0]) or mine[1] == others[1]:
        return "", ""
    wrong, right = others[1], mine[1]
    entries = _entries(matching.ours, wrong, right)
    told = f"`{ours.step.name}` of `{says.plain_name(mine[0])}` with {short(wrong)} instead of {short(right)}"
    if not entries:
        return "constant", told
    form, table, (taken, meant) = entries
    return "wrong_index", f"{told}: {form}entry {taken} of a table of {table} instead of {form}entry {meant}"


def _parts(step: FrameStep) -> tuple[FrameValue, float] | None:
    """The one value with several numbers that a step takes, and the one number."""
    if len(step.args) != 2 or step.kwargs:
        return None
    several = [v for v in step.args if isinstance(v, FrameValue) and v.content.numel() > 1]
    single = [_number(v) for v in step.args if v not in several]
    return (several[0], single[0]) if len(several) == 1 and single and single[0] is not None else None


def _number(value: object) -> float | None:
    if isinstance(value, FrameValue):
        return None if value.content.is_complex() else float(value.content.item())
    return float(value) if isinstance(value, (int, float)) else None


def _entries(graph: Graph, wrong: float, right: float) -> tuple[str, int, tuple[int, int]] | None:
    """The form in which both numbers are entries of one table, its length, and which entries."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        for value in graph.values:
            content = value.content
            if content.ndim != 1 or content.numel() < LEAST_ENTRIES or not content.is_floating_point():
                continue
            for form, made in FORMS.items():
                numbers = made(content.double())
                places = [_only(numbers, number) for number in (wrong, right)]
                if places[0] is not None and places[1] is not None and places[0] != places[1]:
                    return form, content.numel(), (places[0], places[1])
    return None


def _only(numbers: torch.Tensor, number: float) -> int | None:
    """The one entry that the number is; None where there is none, or where several are that near."""
    near = ((numbers - number).abs() <= NEAR * abs(number)).nonzero().reshape(-1)
    return int(near[0]) if len(near) == 1 else None
