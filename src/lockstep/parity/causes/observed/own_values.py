"""A value of the candidate's own that belongs in the place of another: what is remembered from step to step is the
wrong one, whatever the code around it looks like.

Nothing of the reference's code is needed: with the right value in that place the candidate's own steps give what the
reference has, here and, step by step, in the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ...comparison.results import Comparison, NodeResult
from ...recording.values import leaves
from ...trace.names import NO_STEP, step_index
from ..edits import Call, Change, Edit, ModuleChange, OperationChange, Site
from ..failures import noted
from ..goals import Goal, goal_of
from ..pipeline_probe import PIPELINE
from .graph import FrameStep, FrameValue, Graph, TooLarge, _flat, graph_of, is_draw
from .variables import names_of

LEAST = 16  # numbers that no other value has by chance
MOST_STEPS = 40_000  # done again in one search
STEPS_OF_EVALUATION = 400
MOST_TIMES = 1 << 30  # numbers of all results done again
YOUNGEST, OLDEST = 0, 2  # steps of the loop between the making of a value and its use
MOST_FOUND = 4
NEAR = 1e-4  # relative: one value, whatever rounding came before
ABOUT = 0.1  # of the error of the first value that is known to be wrong
MANY_ROUNDINGS = 32.0  # times the prior
FAR_BELOW = 1e-3  # of the error: what may be left of it
REMEMBERED, TAKEN = "remembered_value", "wrong_operand"


@dataclass(frozen=True)
class Slot:
    """One operand of one operation."""

    step: FrameStep
    place: int

    @property
    def value(self) -> FrameValue:
        return self.step.operands()[self.place]


@dataclass(frozen=True)
class Instead:
    """Slots that all take one value, and the value that belongs there."""

    slots: tuple[Slot, ...]
    right: FrameValue
    visits: tuple[int, int] = (1, 1)  # in one step of the loop, of the place that uses it and of that which makes it

    @property
    def wrong(self) -> FrameValue:
        return self.slots[0].value


class OwnValues:
    """The candidate's steps between its models, and by which other operand the first wrong value would be right."""

    def __init__(self, search: Any, graph: Graph, goal: Goal, value: FrameValue) -> None:
        self.search, self.graph, self.goal, self.value = search, graph, goal, value
        self.rounds = rounds_of(search, graph)
        self._left, self._numbers = MOST_STEPS, MOST_TIMES
        self._operands = {id(step): step.operands() for step in graph.steps}

    def found(self, remembered: bool) -> Iterator[Instead]:
        """Where the one or the other was made in an earlier step of the loop, a wrong one of an earlier step first;
        else those of the same step."""
        cone = list(self._cone())
        slots = [slot for step in cone for slot in self._slots(step) if self._old(slot.value, step) <= OLDEST]
        groups = [(group, min(group, key=lambda slot: slot.step.number).step) for group in _grouped(slots)]
        for group, first in sorted(groups, key=lambda pair: not self._old(pair[0][0].value, pair[1])):
            for right in self._others(group[0].value, first):
                ages = self._old(group[0].value, first), self._old(right, first)
                if (max(ages) > 0) is remembered and self._gives(group, right):
                    yield Instead(group, right, (self._visits(group[0].step), self._visits(right.step)))

    def _visits(self, step: FrameStep | None) -> int:
        """Of the step's place in its own step of the loop."""
        if step is None:
            return 1
        alike = (s for s in self.graph.steps if s.place == step.place)
        return sum(1 for s in alike if self.rounds[s.number] == self.rounds[step.number])

    def _cone(self) -> Iterator[FrameStep]:
        """Steps that lead to the value in its own step of the loop, the last one first."""
        assert self.value.step is not None
        now, waiting, seen = self.rounds[self.value.step.number], [self.value], set[int]()
        while waiting:
            step = waiting.pop().step
            inside = step is not None and self.rounds[step.number] == now and not isinstance(step.place, str)
            if step is not None and inside and id(step) not in seen:
                seen.add(id(step))
                yield step
                waiting += self._operands[id(step)]

    def _slots(self, step: FrameStep) -> list[Slot]:
        return [Slot(step, i) for i, v in enumerate(self._operands[id(step)]) if _is_plain(v)]

    def _old(self, value: FrameValue, step: FrameStep) -> int:
        """Steps of the loop since it was made; far too many for what was made before the loop."""
        made = self.rounds[value.step.number] if value.step is not None else -1
        return self.rounds[step.number] - made if made >= 0 else OLDEST + 1

    def _others(self, wrong: FrameValue, step: FrameStep) -> Iterator[FrameValue]:
        """Values made before the step, none of them twice."""
        seen = [wrong]
        for made in reversed(self.graph.steps[: step.number]):
            for value in made.values if self._old_step(made, step) <= OLDEST else ():
                like = value.content.shape == wrong.content.shape and _is_plain(value)
                if like and not any(torch.equal(value.content, other.content) for other in seen):
                    seen.append(value)
                    yield value

    def _old_step(self, made: FrameStep, step: FrameStep) -> int:
        return self.rounds[step.number] - self.rounds[made.number]

    def _gives(self, slots: tuple[Slot, ...], right: FrameValue) -> bool:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            try:
                made = self._again(slots, right)
            except TooLarge:
                raise
            except Exception:  # other kinds of values: not this one
                return False
        return made is not None and residual(self.goal, made) <= self.goal.tau

    def _again(self, slots: tuple[Slot, ...], right: FrameValue) -> torch.Tensor | None:
        instead = {(id(slot.step), slot.place): right.content for slot in slots}
        first, last = min(slot.step.number for slot in slots), self.value.number
        made: dict[int, torch.Tensor] = {}
        for step in self.graph.steps[first : last + 1]:
            operands = self._operands[id(step)]
            new = [instead.get((id(step), i), made.get(id(v))) for i, v in enumerate(operands)]
            if all(content is None for content in new):
                continue
            if isinstance(step.place, str) or is_draw(step):
                if step.number == last:
                    return None
                continue
            self._spend(step)
            given = iter([v.content if n is None else n for v, n in zip(operands, new, strict=True)])
            result = step.function(*_filled(step.args, given), **_filled(step.kwargs, given))
            pieces = list(result) if isinstance(result, (list, tuple)) else [result]
            if any(slot.step is step for slot in slots) and not any(piece.any() for piece in pieces):
                return None  # a term that is taken away: any two equal values would do that
            made |= {id(value): pieces[value.piece] for value in step.values}
        return made.get(id(self.value))

    def _spend(self, step: FrameStep) -> None:
        self._left -= 1
        self._numbers -= sum(value.content.numel() for value in step.values)
        self.search.log.spent += 1 / STEPS_OF_EVALUATION
        if self._left < 0 or self._numbers < 0:
            raise TooLarge


def own_value_edits(search: Any, comparison: Comparison, remembered: bool) -> Iterator[Edit]:
    """On the candidate's side: another value of its own taken, in every step of the loop."""
    if not search.turned or search.live.call is None or search.live.parts.pipeline is None:
        return
    graph = _steps(search)
    goal, value = _first_wrong(search, comparison, graph) if graph is not None else (None, None)
    if graph is None or goal is None or value is None or value.step is None:
        return
    values, count = OwnValues(search, graph, goal, value), 0
    try:
        for instead in values.found(remembered):
            yield edit_of(search, instead, remembered)
            count += 1
            if count >= MOST_FOUND:
                return
    except TooLarge:
        search.log.say("too many numbers to try every value in the place of every other")


def _steps(search: Any) -> Graph | None:
    """The candidate's steps between its models; None where there are too many numbers to keep."""
    graph = None
    with noted(search.log, search.held, "the steps between the models"):
        try:
            graph = graph_of(search, PIPELINE, 0, search.held)
        except TooLarge:
            search.log.say("too many numbers to keep the steps between the models")
    return graph


def made_values(search: Any, contents: Iterable[Any]) -> list[FrameValue | None]:
    """The values of the candidate's steps with these numbers, as they are made first."""
    graph = _steps(search)
    made = [v for v in graph.values if v.step is not None and _is_plain(v)] if graph is not None else []

    def found(content: Any) -> FrameValue | None:
        alike = (v for v in made if isinstance(content, torch.Tensor) and v.content.shape == content.shape)
        return next((v for v in alike if (v.content - content).norm() <= NEAR * content.norm()), None)

    with torch._C.DisableTorchFunction():
        return [found(content) for content in contents]


def edit_of(search: Any, instead: Instead, remembered: bool) -> Edit:
    """The candidate with the right value in these places, wherever it takes the wrong one."""
    use = instead.slots[0].step
    names = names_of(search, instead.wrong, instead.right, use=use, remembered=remembered)
    changes = tuple(_Taken(instead).changes())
    name = REMEMBERED if remembered else TAKEN
    return Edit(
        name, "with the right one there that", changes, rank=1, fault=names.fault, line=names.line, fix=names.repair
    )


def rounds_of(search: Any, graph: Graph) -> list[int]:
    """For every step of the code between the models: which step of the loop it belongs to; -1 before the first."""
    found, now = [], -1
    for step in graph.steps:
        label = label_of(search, graph, step.place, step.visit) if isinstance(step.place, str) else NO_STEP
        now = index if (index := step_index(label)) is not None else now
        found.append(now)
    return found


def label_of(search: Any, graph: Graph, root: str, call: int) -> str:
    """The step of the loop of a call of a model; calls for one branch of the guidance each may be recorded as one."""
    calls = {(e.key.step, e.key.call): e.key.step for e in search.own.entries if e.key.path == root and e.key.is_input}
    labels, made = list(calls.values()), graph.visits(root)
    joined = made // len(labels) if labels and made % len(labels) == 0 else 1
    return labels[call // max(1, joined)] if call // max(1, joined) < len(labels) else NO_STEP


def _first_wrong(search: Any, comparison: Comparison, graph: Graph) -> tuple[Goal | None, FrameValue | None]:
    """What the code between the models hands on first that is not what the reference has."""
    for node in sorted(_wrong(comparison), key=lambda n: n.order):
        entry = search.foreign.get(node.key)
        if entry is None:
            continue
        goal = goal_of(node, search.foreign, search.foreign, entry)
        goal.tau = min(goal.tau, FAR_BELOW * goal.before)
        known = _handed_on(search, graph, node, goal)
        if known is not None:
            return goal, known
        if node.key.is_input and "." not in node.key.path:
            return None, None  # it is not known what the candidate has there
    return None, None


def _wrong(comparison: Comparison) -> list[NodeResult]:
    """Values that are about as wrong as the first that is known to be: a floor that is too wide hides none of them."""
    first = comparison.first
    least = ABOUT * first.error if first is not None and first.error is not None else 0.0
    both = [n for n in comparison.nodes if n.other is not None and not n.key.is_operation and n.error is not None]
    return [n for n in both if n.bad or (n.error or 0.0) >= max(least, MANY_ROUNDINGS * n.prior)]


def _handed_on(search: Any, graph: Graph, node: NodeResult, goal: Goal) -> FrameValue | None:
    assert node.other is not None
    root, _, method = node.other.path.partition("/")[0].partition(".")
    for exit, value in graph.exits.items():
        step = label_of(search, graph, root, exit.call) if exit.path == root else NO_STEP
        here = exit.path in (root, f"{root}.{method.partition('.')[0]}") and step == node.other.step
        if (here or (not exit.path and node.other.path.startswith("@"))) and _is_plain(value):
            parts = _parts(goal, value.content)
            if parts and residual(goal, value.content) > goal.tau:
                return value
    own = search.own.get(node.other)
    if own is None or not own.has_data:
        return None
    content = torch.from_numpy(np.array(search.own.array(own), dtype=np.float32))
    now, rounds = step_index(node.other.step), rounds_of(search, graph)
    made = (v for v in graph.values if v.step is not None and v.content.shape == content.shape and _is_plain(v))
    alike = (v for v in made if now is None or (v.step is not None and rounds[v.step.number] == now))
    # the last of several: a correction by zero leaves what it corrects as it was
    return next((v for v in [*alike][::-1] if torch.equal(v.content.float(), content)), None)


def _parts(goal: Goal, value: torch.Tensor) -> int:
    """How many values like this one the goal holds: branches of the guidance that the candidate calls one by one."""
    parts, rest = divmod(goal.size, max(1, value.numel()))
    return parts if not rest and (parts == 1 or goal.array is not None) else 0


def residual(goal: Goal, value: torch.Tensor) -> float:
    """Of the nearest of these."""
    parts = _parts(goal, value)
    if parts <= 1:
        return goal.residual(value) if parts else float("inf")
    mine = value.detach().to("cpu", torch.float64).reshape(-1).numpy()
    rows = np.asarray(goal.array).reshape(parts, -1)
    return min(float(np.linalg.norm(mine - row) / max(float(np.linalg.norm(row)), 1e-30)) for row in rows)


def _is_plain(value: FrameValue) -> bool:
    return value.content.is_floating_point() and value.content.numel() >= LEAST


def _grouped(slots: Iterable[Slot]) -> Iterator[tuple[Slot, ...]]:
    """All slots of one value, then each by itself."""
    groups: dict[int, list[Slot]] = {}
    for slot in slots:
        groups.setdefault(id(slot.value), []).append(slot)
    yield from (tuple(group) for group in groups.values())
    yield from ((slot,) for group in groups.values() if len(group) > 1 for slot in group)


def _filled(value: Any, given: Iterator[torch.Tensor]) -> Any:
    if isinstance(value, FrameValue):
        return next(given).clone()
    if type(value) in (list, tuple):
        return type(value)(_filled(item, given) for item in value)
    return {k: _filled(v, given) for k, v in value.items()} if type(value) is dict else value


class _Taken:
    """The right value in the place of the operand, in every step of the loop from the first wrong one on."""

    def __init__(self, instead: Instead) -> None:
        self._slots, self._right, self._per_step = instead.slots, instead.right, instead.visits
        self._run: Any = None  # each run has values of its own
        self._visits: dict[Any, int] = {}
        self._made: list[torch.Tensor | None] = []

    def changes(self) -> Iterator[Change]:
        assert self._right.step is not None
        for place in dict.fromkeys([self._right.step.place, *(slot.step.place for slot in self._slots)]):
            if isinstance(place, Site):
                yield OperationChange(frozenset([place]), partial(self._done, place))
            else:
                yield ModuleChange(place, partial(self._given, place))

    def _visit(self, place: Site | str, run: Any) -> int:
        if self._run is not run:
            self._run, self._visits, self._made = run, {}, []
        visit = self._visits[place] = self._visits.get(place, -1) + 1
        return visit

    def _done(self, place: Site, call: Call) -> Any:
        visit, right = self._visit(place, call.values), self._right.step
        assert right is not None
        for slot in self._slots:
            later, used = visit - slot.step.visit, self._per_step[0]
            made = right.visit + later * self._per_step[1] // used if later % used == 0 else -1
            if slot.step.place == place and visit >= slot.step.visit and 0 <= made < len(self._made):
                _put(call, slot.place, self._made[made])
        result = call.run()
        self._keep(place, result)
        return result

    def _given(self, place: str, values: dict[str, Any], args: Any, kwargs: Any, result: Any) -> Any:
        self._visit(place, values)
        self._keep(place, result)
        return result

    def _keep(self, place: Site | str, result: Any) -> None:
        if self._right.step is not None and place == self._right.step.place:
            with torch._C.DisableTorchFunction():
                pieces = [piece for _, piece in leaves(result, "out") if isinstance(piece, torch.Tensor)]
                self._made.append(pieces[self._right.piece].clone() if self._right.piece < len(pieces) else None)


def _put(call: Call, place: int, new: torch.Tensor | None) -> None:
    """As the operand of this number."""
    tensors = [value for value in _flat((call.args, call.kwargs)) if isinstance(value, torch.Tensor)]
    if new is None or place >= len(tensors) or tensors[place].shape != new.shape:
        return
    count = iter(range(1 << 30))

    def other(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return new if next(count) == place else value
        if type(value) in (list, tuple):
            return type(value)(other(item) for item in value)
        return {k: other(v) for k, v in value.items()} if type(value) is dict else value

    call.args, call.kwargs = other(call.args), other(call.kwargs)
