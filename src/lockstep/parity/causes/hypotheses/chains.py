"""Steps that follow each other in a frame: one of them done further on, several done twice, once or not at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import nn

from ..edits import Call, Change, Edit, ModuleChange, NotApplicable, OperationChange, Site
from ..flow import DataFlow, FlowStep
from ..probe import Probe, Survey
from .layers import NORMS
from .tensors import ARITHMETIC

_MOVABLE = (
    ARITHMETIC
    | NORMS
    | {"gelu", "silu", "relu", "sigmoid", "tanh", "interpolate", "clamp", "exp", "log", "sqrt", "neg", "softmax"}
    | {"normalize", "abs", "round", "sin", "cos"}
)
_LAYOUT = {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute", "contiguous",
           "clone", "movedim", "expand", "detach", "getitem"}  # fmt: skip
FURTHER = 4  # places behind a step that it may be done at instead
LONGEST = 6  # steps that are repeated or left out together
MOST = 60  # hypotheses of each kind


def chain_edits(probe: Probe, survey: Survey) -> Iterator[Edit]:
    flow = survey.flow
    if flow is None:
        return
    yield from islice(_moved_edits(probe, survey, flow), MOST)
    yield from islice(_repeated_edits(survey, flow), MOST)


@dataclass(frozen=True)
class _Move:
    """A step, the operand that it is done to, and the step behind which it is done instead."""

    first: FlowStep
    operand: int
    second: FlowStep


def _moved_edits(probe: Probe, survey: Survey, flow: DataFlow) -> Iterator[Edit]:
    """A step done behind a later one; then all steps alike (query and key) at once."""
    moves = [move for step in reversed(flow.in_order()) for move in _moves_of(step, probe, survey, flow)]
    groups: dict[Any, list[_Move]] = defaultdict(list)
    for move in moves:
        groups[_alike(move, probe)].append(move)
    for members in groups.values():
        alone = list({m.first.name: m for m in members}.values())
        if len(alone) > 1 and len({m.second.name for m in alone}) == len(alone):
            yield _moved(sorted(alone, key=lambda m: m.first.order), probe)
    for move in moves:
        yield _moved([move], probe)


def _moves_of(step: FlowStep, probe: Probe, survey: Survey, flow: DataFlow) -> Iterator[_Move]:
    for operand in _carried(step, probe, survey):
        later = [flow.steps[name] for name in flow.behind(step.name)]
        later = [s for s in later if s.shape == step.shape and (s.site is None or s.site.op != "getitem")]
        found = 0
        for other in sorted(later, key=lambda s: s.order):
            if found == FURTHER:
                break
            between = flow.chain(step.name, other.name)
            if not all(_is_layout(s) for s in between) and flow.all_pass(step.name, other.name):
                found += 1
                yield _Move(step, operand, other)


def _carried(step: FlowStep, probe: Probe, survey: Survey) -> list[int]:
    """Operands that may go on as they are in the place of the result."""
    if step.site is None:
        module = probe.modules.get(step.name)
        return [0] if module is not None and "." in step.name and step.shape else []
    example = survey.sites.get(step.site)
    if example is None or step.site.op not in _MOVABLE or not example.floating or not example.shape:
        return []
    return [
        i for i, operand in enumerate(example.operands[:2]) if isinstance(operand, tuple) and operand == example.shape
    ]


def _is_layout(step: FlowStep) -> bool:
    return step.site is not None and step.site.op in _LAYOUT


def _alike(move: _Move, probe: Probe) -> Any:
    """Moves of the same kind from and to the same kind of place."""
    first, second = move.first, move.second
    module = probe.modules.get(first.name) if first.site is None else None
    kind: Any = first.signature if module is None else type(module).__name__
    shapes = [tuple(p.shape) for p in module.parameters()] if module is not None else []
    goal = second.site.op if second.site is not None else type(probe.modules.get(second.name)).__name__
    return kind, str(shapes), first.shape, goal, move.operand


def _moved(moves: list[_Move], probe: Probe) -> Edit:
    changes: list[Change] = []
    for move in moves:
        waiting: list[Callable[[torch.Tensor], torch.Tensor]] = []
        changes.append(_postponed(move, probe, waiting))
        changes.append(_done_behind(move.second, waiting))
    firsts = " and ".join(f"`{_words(m.first, probe)}`" for m in moves)
    seconds = " and ".join(dict.fromkeys(f"`{_words(m.second, probe)}`" for m in moves))
    norms = all(_is_norm(m.first, probe) for m in moves)
    name = "norm_placement" if norms else "order_exchanged"
    return Edit(name, f"{firsts} behind {seconds} instead of before", tuple(changes), rank=3)


def _is_norm(step: FlowStep, probe: Probe) -> bool:
    if step.site is not None:
        return step.site.op in NORMS
    return "norm" in f"{type(probe.modules[step.name]).__name__}{step.name.rpartition('.')[2]}".lower()


def _postponed(move: _Move, probe: Probe, waiting: list[Any]) -> Change:
    """The step hands on what it was given, and waits."""
    step, index = move.first, move.operand
    if step.site is not None:

        def skip(call: Call) -> Any:
            waiting[:] = [lambda x: call.operand(index, x)]
            return call.args[index]

        return OperationChange(frozenset([step.site]), skip)
    module: nn.Module = probe.modules[step.name]

    def handed_on(values: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        if not args or not isinstance(args[0], torch.Tensor) or not isinstance(result, torch.Tensor):
            raise NotApplicable("a module that takes no tensor first")
        if args[0].shape != result.shape:
            raise NotApplicable("a module that changes the shape")
        waiting[:] = [lambda x: unseen(module.forward, x, *args[1:], **kwargs)]
        return args[0]

    return ModuleChange(step.name, handed_on)


def unseen(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run without being watched: operations are told apart by how many came before."""
    with torch._C.DisableTorchFunction():
        return function(*args, **kwargs)


def _done_behind(step: FlowStep, waiting: list[Any]) -> Change:
    def finished(result: Any) -> Any:
        if waiting and not isinstance(result, torch.Tensor):
            raise NotApplicable("not one tensor")
        return waiting.pop()(result) if waiting else result

    if step.site is not None:
        return OperationChange(frozenset([step.site]), lambda call: finished(call.run()))
    return ModuleChange(step.name, lambda values, args, kwargs, result: finished(result))


def _words(step: FlowStep, probe: Probe) -> str:
    if step.site is None:
        return step.name[len(probe.owner) + 1 :] if step.name.startswith(f"{probe.owner}.") else step.name
    return f"{step.site.op}.{step.site.index}"


def _repeated_edits(survey: Survey, flow: DataFlow) -> Iterator[Edit]:
    """Steps in a row done twice, or not at all; two equal rows done once."""
    for last in reversed(flow.in_order()):
        if last.site is None or not last.shape or last.site.op in _LAYOUT:
            continue
        for start in flow.before(last.name):
            if flow.shapes.get(start) != last.shape:
                continue
            row = flow.chain(start, last.name)
            if not row or any(step.site is None for step in row):
                continue
            if len(row) <= LONGEST and not all(_is_layout(step) for step in row):
                if not _is_by_a_number(row, survey):
                    yield _twice(start, row, flow)
                if len(row) > 1:
                    yield _left_out(start, row, flow)
            if len(row) <= 2 * LONGEST and len(row) % 2 == 0:
                yield from _once(row)


def _is_by_a_number(row: list[FlowStep], survey: Survey) -> bool:
    """One operation with a number, twice, is the same with another number: that is said more plainly."""
    example = survey.sites.get(row[0].site) if len(row) == 1 and row[0].site is not None else None
    return example is not None and any(isinstance(operand, (int, float)) for operand in example.operands)


def _row_words(row: list[FlowStep]) -> str:
    ops = [step.site.op for step in row if step.site is not None]
    shown = " … ".join(dict.fromkeys((ops[0], ops[-1]))) if len(ops) > 1 else ops[0]
    index = row[-1].site.index if row[-1].site is not None else 0
    return f"`{shown}.{index}`" + (f" ({len(row)} operations)" if len(row) > 1 else "")


class _Row:
    """A row of operations as it ran, so that it can be run again on something else."""

    def __init__(self, start: str, row: list[FlowStep], flow: DataFlow) -> None:
        self.sites = [step.site for step in row if step.site is not None]
        self._begin = next(i for i, step in enumerate(row) if start in step.sources)
        self._place = _place_of(start, row[self._begin])
        self._ran: list[tuple[Call, Any]] = []

    def ran(self, site: Site, call: Call) -> Any:
        if site == self.sites[0]:
            self._ran.clear()
        result = call.run()
        self._ran.append((call, result))
        return result

    def given(self) -> torch.Tensor:
        """What the row was run on."""
        if len(self._ran) <= self._begin:
            raise NotApplicable("the operations did not run in a row")
        call = self._ran[self._begin][0]
        tensors = [t for v in [*call.args, *call.kwargs.values()] for t in (v if isinstance(v, (list, tuple)) else [v])]
        tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
        if self._place >= len(tensors):
            raise NotApplicable("other operands")
        return tensors[self._place]

    def again(self) -> Any:
        """The row once more, on its own result."""
        if len(self._ran) != len(self.sites):
            raise NotApplicable("the operations did not run in a row")
        instead = {id(self.given()): self._ran[-1][1]}

        def new(value: Any) -> Any:
            if type(value) in (list, tuple):
                return type(value)(new(v) for v in value)
            return instead.get(id(value), value) if isinstance(value, torch.Tensor) else value

        result = None
        for call, before in self._ran:
            result = call.function(*[new(v) for v in call.args], **{k: new(v) for k, v in call.kwargs.items()})
            instead.setdefault(id(before), result)
        return result


def _place_of(start: str, step: FlowStep) -> int:
    return step.sources.index(start)


def _twice(start: str, row: list[FlowStep], flow: DataFlow) -> Edit:
    kept = _Row(start, row, flow)

    def last(call: Call) -> Any:
        kept.ran(kept.sites[-1], call)
        return kept.again()

    rank = 3 if len(row) > 1 else 4
    return Edit("call_twice", f"{_row_words(row)} done twice in a row", _changes(kept, last), rank)


def _left_out(start: str, row: list[FlowStep], flow: DataFlow) -> Edit:
    kept = _Row(start, row, flow)

    def last(call: Call) -> Any:
        kept.ran(kept.sites[-1], call)
        return kept.given()

    return Edit("left_out", f"{_row_words(row)} left out", _changes(kept, last), rank=4)


def _changes(kept: _Row, last: Callable[[Call], Any]) -> tuple[Change, ...]:
    watched = [OperationChange(frozenset([site]), lambda call, s=site: kept.ran(s, call)) for site in kept.sites[:-1]]
    return (*watched, OperationChange(frozenset([kept.sites[-1]]), last))


def _once(row: list[FlowStep]) -> Iterator[Edit]:
    """Two equal halves: only the first of them."""
    half = len(row) // 2
    first, second = row[:half], row[half:]
    if [s.signature for s in first] != [s.signature for s in second] or first[-1].shape != second[-1].shape:
        return
    label = first[-1].name

    def apply(call: Call) -> Any:
        return call.values[label]

    site = second[-1].site
    assert site is not None
    words = f"{_row_words(second)} done once, not twice in a row"
    yield Edit("call_left_out", words, (OperationChange(frozenset([site]), apply),), rank=2, needs=(label,))
