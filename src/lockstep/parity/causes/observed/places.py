"""Where the two sides part: the value that is told, by the reference's name, and the steps around it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ...comparison.results import NodeResult, Status
from ...trace.names import Key
from ...trace.sketch import ratio
from .graph import SHAPES, FrameStep, FrameValue
from .kinds import before_shapes
from .matching import Matching, Parting


def where(difference: Parting) -> Any:
    """The place of the reference at which the sides part, and the how-manieth visit of it."""
    step = difference.ours.step
    return difference.exit, (step.place, step.visit, difference.ours.piece) if step is not None else None


def earliest(matching: Matching, difference: Parting) -> FrameValue | None:
    """Of the steps that only the reference takes the first one."""
    steps = [s for s in matching.until_shared(difference.ours) if _makes_numbers(s)]
    if not steps:
        return None
    first = min(steps, key=lambda s: s.number)
    return first.values[0] if first.values else None


def taken_at(matching: Matching, value: FrameValue, result: FrameValue) -> FrameValue | None:
    """What the first step on the way to a result makes of a value, or of another view of it."""
    ways = [s for s in matching.until_shared(result, most=None) if _makes_numbers(s)]
    users = [s for s in ways if any(before_shapes(v) is before_shapes(value) for v in s.operands())]
    return min(users, key=lambda step: step.number).values[0] if users else None


def _makes_numbers(step: FrameStep) -> bool:
    """Not for what only changes shapes, nor for indices."""
    return step.name not in SHAPES and bool(step.values) and step.values[0].content.is_floating_point()


def place_of(
    difference: Parting, node: NodeResult, tolerance: float, at: FrameValue | None = None
) -> NodeResult | None:
    """The first value that differs, where it has no name that both sides know."""
    ours, theirs = at or difference.ours, difference.theirs
    while not isinstance(ours.step and ours.step.place, str) and ours.step is not None and ours.step.name in SHAPES:
        below = ours.step.operands()
        if len(below) != 1 or below[0].step is None:
            break
        ours = below[0]
    if ours.step is None:
        return None
    site = ours.step.place
    path = site if isinstance(site, str) else f"{site.path}/{site.op}.{site.index}"
    if (path, "out") == (node.key.path, node.key.slot):
        return None  # both sides know it by that name
    shape, other = tuple(ours.content.shape), tuple(theirs.content.shape)
    found = replace(node, key=Key("-", path, "out"), how="steps", op=ours.step.name, shape=shape, inputs=[], floor=None)
    found.status, found.tau, found.structure, found.other, found.other_shape = Status.OVER, tolerance, None, None, other
    a, b = difference.ours.content, theirs.content
    if a.numel() != b.numel() or not (a.is_floating_point() and b.is_floating_point()):
        found.status, found.error = Status.STRUCT, None
        shapes = f"shape {list(a.shape)} in the reference, {list(b.shape)} in the candidate"
        found.problem = "integers differ" if a.shape == b.shape else shapes
        return found
    with torch._C.DisableTorchFunction():
        a, b = a.double().reshape(-1), b.double().reshape(-1)
        found.error = ratio(float((b - a).nan_to_num().norm()), float(a.nan_to_num().norm()))
    found.ratio = ratio(found.error, tolerance)
    return found


def places_of(matching: Matching, differences: list[Parting]) -> set[str]:
    found: set[str] = set()
    for difference in differences:
        found |= {str(step.place) for step in matching.until_shared(difference.ours)}
    return found


def givers_of(matching: Matching, differences: list[Parting]) -> set[str]:
    """Steps of the reference whose results the differing steps of either side take."""
    found: set[str] = set()
    for difference in differences:
        for value, side in ((difference.ours, matching.ours), (difference.theirs, matching.theirs)):
            taken = [value, *(v for step in matching.until_shared(value) for v in step.operands())]
            known = [v if side is matching.ours else matching.partner(v) for v in taken]
            found |= {str(v.step.place) for v in known if v is not None and v.step is not None}
    return found
