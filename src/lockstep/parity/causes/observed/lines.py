"""Which line of the candidate's code is told: the one that is to be changed, not that of a helper which it calls."""

from __future__ import annotations

from itertools import product

from .graph import SHAPES, FrameStep, FrameValue, Graph
from .kinds import before_shapes
from .matching import Matching, Parting

WHOLE = frozenset(["int", "long", "bool"])  # casts that make whole numbers
OFTEN = 2  # times as often as it is wrong: then a line is not what is wrong


def done_at(matching: Matching, place: Parting) -> FrameStep | None:
    """The candidate's step at a place; where something is left out, the one that goes on without it."""
    if (writer := overwritten_by(matching, place)) is not None:
        return writer
    if place.exit is None and matching.is_leaf(place.theirs):
        user = _user(matching, place.ours, place.theirs)
        if user is not None and not isinstance(user.place, str):
            return user
    value = place.theirs  # another view of a value is no step that could be wrong, unless that is all there is
    while value.step is not None and value.step.name in SHAPES and len(value.step.operands()) == 1:
        below = value.step.operands()[0]
        if matching.is_leaf(below):
            return place.theirs.step
        value = below
    return value.step or place.theirs.step


def overwritten_by(matching: Matching, place: Parting) -> FrameStep | None:
    """The candidate's step that wrote into a value which was the reference's until then, and is still taken for it."""
    value, writer = place.theirs, None
    if matching.partner(value) is None:
        return None  # a step too many, whether it is done in place or not
    while value.step is not None and value.step.writes:
        writer, value = value.step, value.step.operands()[0]
        if matching.same_numbers(place.ours, value):
            return writer
    return None


def _user(matching: Matching, ours: FrameValue, theirs: FrameValue) -> FrameStep | None:
    """The step that takes the candidate's value as the reference's takes its own."""
    mine, others = ([s for s in g.steps if any(before_shapes(v) is value for v in s.operands())]
                    for g, value in ((matching.ours, ours), (matching.theirs, theirs)))  # fmt: skip
    beside = {id(step): [before_shapes(v) for v in step.operands()] for step in [*mine, *others]}
    for step, like in product(others, mine):
        weights = product(beside[id(step)], beside[id(like)])
        if any(v is not theirs and w is not ours and matching.same(v, w) for v, w in weights):
            return step
    names = {step.name for step in _alone(matching.ours, ours)} - SHAPES
    return next((step for step in _alone(matching.theirs, theirs) if step.name in names), None)


def _alone(graph: Graph, value: FrameValue) -> list[FrameStep]:
    """Steps that take a value, or what it is in another form, and nothing else."""
    base = _base(value)
    return [s for s in graph.steps if len(s.operands()) == 1 and _base(s.operands()[0]) is base]


def _base(value: FrameValue) -> FrameValue:
    while value.step is not None and value.step.name in SHAPES | WHOLE and len(value.step.operands()) == 1:
        value = value.step.operands()[0]
    return value


def told_line(graph: Graph, step: FrameStep | None, places: int, reference: Graph) -> str:
    """The innermost line that is not run much more often than it is wrong, and that the reference does not run as well:
    what a library does for both is right, whoever calls it for something else is not."""
    if step is None:
        return ""
    shared = {line for one in reference.steps for line in one.lines if line}
    alone = any(line not in shared for line in step.lines)
    for depth, line in enumerate(step.lines):
        if not line:
            break
        if alone and line in shared:
            continue
        runs = sum(1 for s in graph.steps if s.name == step.name and s.lines[depth : depth + 1] == (line,))
        if runs <= OFTEN * max(1, places):
            return line
    return step.line
