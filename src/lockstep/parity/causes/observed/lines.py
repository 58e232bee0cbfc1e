"""Which line of the candidate's code is told: the one that is to be changed, not that of a helper which it calls."""

from __future__ import annotations

from itertools import product

from .graph import FrameStep, FrameValue, Graph
from .kinds import before_shapes
from .matching import Matching, Parting

OFTEN = 2  # times as often as it is wrong: then a line is not what is wrong


def done_at(matching: Matching, place: Parting) -> FrameStep | None:
    """The candidate's step at a place; where something is left out, the one that goes on without it."""
    if place.exit is None and matching.is_leaf(place.theirs):
        user = _user(matching, place.ours, place.theirs)
        if user is not None and not isinstance(user.place, str):
            return user
    return place.theirs.step


def _user(matching: Matching, ours: FrameValue, theirs: FrameValue) -> FrameStep | None:
    """The step that takes the candidate's value as the reference's takes its own."""
    mine = [step for step in matching.ours.steps if any(before_shapes(v) is ours for v in step.operands())]
    others = [step for step in matching.theirs.steps if any(before_shapes(v) is theirs for v in step.operands())]
    beside = {id(step): [before_shapes(v) for v in step.operands()] for step in [*mine, *others]}
    for step, like in product(others, mine):
        weights = product(beside[id(step)], beside[id(like)])
        if any(v is not theirs and w is not ours and matching.same(v, w) for v, w in weights):
            return step
    return None


def told_line(graph: Graph, step: FrameStep | None, places: int) -> str:
    """The innermost line that is not run much more often than it is wrong."""
    if step is None:
        return ""
    for depth, line in enumerate(step.lines):
        if not line:
            break
        runs = sum(1 for s in graph.steps if s.name == step.name and s.lines[depth : depth + 1] == (line,))
        if runs <= OFTEN * max(1, places):
            return line
    return step.line
