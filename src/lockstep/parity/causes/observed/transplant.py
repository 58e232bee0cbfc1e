"""The candidate's steps done in the reference instead of its own: the proof that a place is the cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import torch
from torch import nn

from ...recording.values import inputs, leaves, parameter_names, with_leaves
from ..edits import Call, Change, ModuleChange, NotApplicable, OperationChange, Site
from .graph import METHODS, Exit, FrameStep, FrameValue, is_draw, piece_of
from .matching import MOST_STEPS, Matching, Parting

Place = Site | str
NEVER = 1 << 30  # a pipeline runs once


class Transplant:
    """What the candidate computes at some places, as changes of the reference, in this module or in one like it."""

    def __init__(
        self,
        matching: Matching,
        differences: list[Parting],
        reference: Mapping[str, nn.Module],
        candidate: Mapping[str, nn.Module],
    ) -> None:
        self.matching, self.differences = matching, differences
        self.ours, self.theirs = matching.ours, matching.theirs
        self.reference, self.candidate = reference, candidate

    def changes(self, frame: str) -> tuple[Change, ...]:
        """The changes for the frame itself, or for another module of its kind."""
        move = _PathMove(self.ours.frame, frame)
        made = _Made(self, move)
        return tuple(made.changes())


class _PathMove:
    """Paths below one module as paths below another."""

    def __init__(self, before: str, after: str) -> None:
        self.before, self.after = before, after

    def path(self, path: str) -> str:
        below = path == self.before or path.startswith((f"{self.before}.", f"{self.before}/"))
        return self.after + path[len(self.before) :] if below else path

    def place(self, place: Place) -> Place:
        return Site(self.path(place.path), place.op, place.index) if isinstance(place, Site) else self.path(place)


class _Made:
    """The changes of one frame: values kept as they pass by, and the places where others are computed from them."""

    def __init__(self, plan: Transplant, move: _PathMove) -> None:
        self.plan, self.move, self.matching = plan, move, plan.matching
        self.kept: dict[int, torch.Tensor] = {}
        self.keeping: dict[Place, list[FrameValue]] = defaultdict(list)
        self.given: list[FrameValue] = []
        self.visits: dict[Place, int] = defaultdict(int)
        self.writes = any(step.writes for step in plan.ours.steps)  # what is kept may be overwritten
        self.rounds: dict[int, int] = {}  # by a kept value: visits of its place to one of where it is taken

    def changes(self) -> list[Change]:
        roots: dict[Place, list[Parting]] = defaultdict(list)
        handed: list[Parting] = []
        for difference in self.plan.differences:
            step = difference.ours.step
            number = step.number if step is not None and difference.exit is None else None
            self._keep_leaves(difference.theirs, number, step.place if number is not None and step else None)
            if difference.exit is not None:
                handed.append(difference)
            elif step is not None:
                roots[step.place].append(difference)
        found: list[Change] = [self._at(place, roots[place]) for place in {**self.keeping, **roots}]
        frame = self.move.after
        if self.given:
            found.append(ModuleChange(frame, self._keep_given, before=True))
        found += [self._handed(difference) for difference in handed]
        return found

    def _keep_leaves(self, theirs: FrameValue, before: int | None, taken_at: Place | None) -> None:
        for value in [theirs] if self._is_kept(theirs, before) else self._operands(theirs, before):
            ours = self.matching.partner(value)
            if ours is not None and ours.step is not None:
                self.keeping[ours.step.place].append(ours)
                self.rounds.setdefault(id(ours), self._round(ours.step.place, taken_at))
            elif ours is not None and ours.given.startswith("in."):
                self.given.append(ours)

    def _operands(self, theirs: FrameValue, before: int | None) -> list[FrameValue]:
        # a tile that is written into row by row is made in many steps of few lines
        steps = list(self.matching.until_shared(theirs, before, most=None if self.writes else MOST_STEPS))
        return [v for step in steps for v in step.operands() if self._is_kept(v, before)]

    def _is_kept(self, value: FrameValue, before: int | None) -> bool:
        return self.matching.is_leaf(value, before)

    def _at(self, place: Place, roots: list[Parting]) -> Change:
        kept = self.keeping.get(place, [])

        def after(result: Any) -> Any:
            visit = self.visits[place]
            self.visits[place] += 1
            pieces = [tensor for _, tensor in leaves(result, "out")]
            for value in kept:  # as the reference has it, also where it is about to be another
                if self._is_turn(value, visit, pieces, self.rounds.get(id(value), 1)):
                    made = pieces[value.piece]
                    self.kept[id(value)] = made.clone() if self.writes else made
            if not roots:
                return result
            for difference in roots:
                if self._is_turn(difference.ours, visit, pieces):
                    pieces[difference.ours.piece] = self._computed(difference, visit)
            return with_leaves(result, iter(pieces))

        moved = self.move.place(place)
        if isinstance(moved, Site):
            return OperationChange(frozenset([moved]), lambda call: _changed(call, after))

        count, made_here, period = iter(range(1 << 30)), *self._calls_of_frame(str(place))

        def on_result(values: dict[str, Any], args: Any, kwargs: Any, result: Any) -> Any:
            if next(count) % period not in made_here:
                return result
            with torch._C.DisableTorchFunction():
                return after(result)

        return ModuleChange(moved, on_result)

    def _round(self, place: Place, taken_at: Place | None) -> int:
        """How often a place is visited while the one that takes its value is once: prompts are encoded one behind the
        other, and then taken together."""
        made = self.plan.ours.visits(place)
        taken = self.plan.ours.visits(taken_at) if taken_at is not None else 0
        return made // taken if taken and made % taken == 0 else 1

    def _is_turn(self, value: FrameValue, visit: int, made: list[torch.Tensor], round_: int = 1) -> bool:
        """True if this visit of a place is the one that makes the value: each time that a module runs the same one of
        its visits; between models that one and those of later steps, where it is as large."""
        step = value.step
        if value.piece >= len(made):
            return False
        if step is None or self.plan.ours.frame.startswith("@"):
            later = visit - _visit(value)
            return later >= 0 and later % round_ == 0 and made[value.piece].shape == value.content.shape
        return visit % self.plan.ours.visits(step.place) == step.visit

    def _calls_of_frame(self, path: str) -> tuple[set[int], int]:
        """Which calls of a module are made by the frame's own code, of all while it runs: what it calls may call the
        same one, too."""
        graph = self.plan.ours
        made = {step.calls_before for step in graph.steps if step.place == path}
        return made, NEVER if graph.frame.startswith("@") else max(1, graph.calls[path])

    def _keep_given(self, values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        names = dict(inputs(self.plan.reference[self.move.after], args, kwargs))
        for value in self.given:
            if value.given in names:
                self.kept[id(value)] = names[value.given]
        return args, kwargs

    def _handed(self, difference: Parting) -> Change:
        """Something else handed to a module, or out."""
        exit = difference.exit
        assert exit is not None
        if not exit.path:

            def out(values: dict[str, Any], args: Any, kwargs: Any, result: Any) -> Any:
                if not isinstance(result, torch.Tensor):
                    raise NotApplicable("not one tensor")
                with torch._C.DisableTorchFunction():
                    return self._computed(difference, 0)

            return ModuleChange(self.move.after, out)
        count, path = iter(range(1 << 30)), self.move.path(exit.path)

        def before(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
            visit = next(count)
            if not self._is_handed(difference, Exit(exit.path, visit, exit.slot)):
                return args, kwargs
            with torch._C.DisableTorchFunction():
                new = self._computed(difference, visit)
            return replaced(self.plan.reference.get(path), exit.slot, args, kwargs, new)

        return ModuleChange(path, before, before=True)

    def _is_handed(self, difference: Parting, exit: Exit) -> bool:
        """False for another call of the same module between models: the candidate hands over something else there."""
        there = self.matching.exit_of(exit) if self.plan.ours.frame.startswith("@") else None
        if there is None or there.step is None or difference.theirs.step is None:
            return True
        return (there.step.place, there.piece) == (difference.theirs.step.place, difference.theirs.piece)

    def _computed(self, difference: Parting, visit: int) -> torch.Tensor:
        step = difference.ours.step
        number = step.number if step is not None and difference.exit is None else None
        root = difference.theirs
        first = _visit(difference.ours if difference.exit is None else root)
        known: dict[int, Any] = {}
        turned = difference.ours.content.shape != root.content.shape
        with torch._C.DisableTorchFunction():
            value = self._value(root, number, visit - first, known)
            return spread(self.matching.as_there(difference, value), difference.ours.content.shape) if turned else value

    def _value(self, value: FrameValue, before: int | None, later: int, known: dict[int, Any]) -> torch.Tensor:
        if self._is_kept(value, before):
            return self._leaf(value)
        step = value.step
        assert step is not None
        if id(step) not in known:
            there = self.plan.theirs.at(step.place, step.visit + later) or step
            if is_draw(step):  # what was drawn: another draw would be another number
                return there.values[value.piece].content.clone()
            args, kwargs = (
                self._filled(mine, other, before, later, known)
                for mine, other in ((step.args, there.args), (step.kwargs, there.kwargs))
            )
            known[id(step)] = self._run(step, args, kwargs)
        return piece_of(known[id(step)], value.piece)

    def _run(self, step: FrameStep, args: Any, kwargs: Any) -> Any:
        if not isinstance(step.place, str):
            return step.function(*args, **kwargs)
        path = self._there.path(step.place)
        function = _callable(self.plan.candidate, path)
        if function is None:
            raise NotApplicable(f"the candidate has no module `{path}`")
        return function(*args, **kwargs)

    def _filled(self, value: Any, there: Any, before: int | None, later: int, known: dict[int, Any]) -> Any:
        """Arguments with their tensors computed, and the numbers of the same visit."""
        if isinstance(value, FrameValue):
            if value.step is None and not value.given:  # a constant: the one of this visit
                return (there if isinstance(there, FrameValue) else value).content.clone()
            return self._value(value, before, later, known).clone()
        alike = type(there) is type(value) and hasattr(value, "__len__") and len(there) == len(value)
        if type(value) in (list, tuple):
            parts = there if alike else value
            return type(value)(self._filled(v, p, before, later, known) for v, p in zip(value, parts, strict=True))
        if type(value) is dict:
            parts = there if alike and there.keys() == value.keys() else value
            return {k: self._filled(v, parts[k], before, later, known) for k, v in value.items()}
        return there

    def _leaf(self, value: FrameValue) -> torch.Tensor:
        ours = self.matching.partner(value)
        if ours is None and value.given.startswith("weight:"):
            return self._own_weight(value)  # of a module that the reference calls as a whole
        if ours is None or (ours.step is None and not ours.given):
            return value.content
        dtype = value.content.dtype  # a value that was rounded to a coarser type may be none the less the same
        if ours.given.startswith("weight:"):
            return self.matching.as_here(value, self._weight(ours)).to(dtype)
        if id(ours) not in self.kept:
            raise NotApplicable("a value that the reference has not computed yet")
        return self.matching.as_here(value, self.kept[id(ours)]).to(dtype)

    def _weight(self, ours: FrameValue) -> torch.Tensor:
        return _parameter(self.plan.reference, self.move.path(ours.given.partition(":")[2]), ours.content.shape)

    def _own_weight(self, theirs: FrameValue) -> torch.Tensor:
        """The candidate's, in the module that stands for this one."""
        return _parameter(self.plan.candidate, self._there.path(theirs.given.partition(":")[2]), theirs.content.shape)

    @property
    def _there(self) -> _PathMove:
        return _PathMove(self.plan.theirs.frame, self.matching.paths(self.move.after))


def _parameter(modules: Mapping[str, nn.Module], full: str, shape: torch.Size) -> torch.Tensor:
    path, _, name = full.rpartition(".")
    tensor = getattr(modules[path], name, None) if path in modules else None
    if not isinstance(tensor, torch.Tensor) or tensor.shape != shape:
        raise NotApplicable(f"no weight `{full}`")
    return tensor.detach()


def spread(value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """As large as the reference's, where that holds the same for every row: a mask for all pictures."""
    fits = value.ndim == len(shape) and all(a in (1, b) for a, b in zip(value.shape, shape, strict=True))
    return value.expand(shape) if fits else value


def _visit(value: FrameValue) -> int:
    """The how-manieth time at its place a value was made."""
    return value.step.visit if value.step is not None else 0


def _changed(call: Call, after: Any) -> Any:
    """Another result of an operation; where it writes into a tensor, other numbers in there."""
    if call.op != "setitem":
        return after(call.run())
    call.run()
    with torch._C.DisableTorchFunction():
        here = call.args[0].clone()
        made = after(here)
        return None if made is here else call.args[0].copy_(made)


def _callable(modules: Mapping[str, nn.Module], path: str) -> Any:
    """A module, or the method of one that is called as a module is."""
    root, _, method = path.rpartition(".")
    return modules.get(path) or (getattr(modules[root], method) if root in modules and method in METHODS else None)


def replaced(
    module: nn.Module | None, slot: str, args: tuple[Any, ...], kwargs: dict[str, Any], new: torch.Tensor
) -> Any:
    """The arguments with another tensor in one slot, of a module or of a method that is called as one."""
    given = inputs(module, args, kwargs) if module is not None else leaves((args, kwargs), "in")
    old = dict(given).get(slot)
    if old is not None and any(tensor is old for _, tensor in leaves((args, kwargs), "in")):
        return _exchanged(args, old, new), _exchanged(kwargs, old, new)
    name, *path = slot.split(".")[1:]
    names = parameter_names(module) if module is not None else ()
    if old is None or new.numel() != 1 or (name not in kwargs and name not in names[: len(args)]):
        raise NotApplicable(f"no tensor goes into {slot}")
    args = tuple(_with_number(v, path, new) if n == name else v for n, v in zip_longest(names[: len(args)], args))
    return args, {k: _with_number(v, path, new) if k == name else v for k, v in kwargs.items()}


def _with_number(value: Any, path: list[str], new: torch.Tensor) -> Any:
    """A number of Python's own, or one in a list, that is another one."""
    if not path and isinstance(value, (int, float)):
        return new.item()
    if type(value) in (list, tuple) and path[0].isdigit() and int(path[0]) < len(value):
        return type(value)(_with_number(v, path[1:], new) if i == int(path[0]) else v for i, v in enumerate(value))
    raise NotApplicable("not a number")


def _exchanged(value: Any, old: torch.Tensor, new: torch.Tensor) -> Any:
    """The same with another tensor in the place of one, however deep it lies."""
    if type(value) in (list, tuple):
        return type(value)(_exchanged(item, old, new) for item in value)
    if type(value) is dict:
        return {key: _exchanged(item, old, new) for key, item in value.items()}
    return new if value is old else value


def joined(first: tuple[Change, ...], second: tuple[Change, ...]) -> tuple[Change, ...]:
    """Both; an operation that both change is changed by the one and then by the other."""
    at = {next(iter(c.sites)): c for c in second if isinstance(c, OperationChange)}
    found: list[Change] = []
    for change in first:
        site = next(iter(change.sites)) if isinstance(change, OperationChange) else None
        other = at.pop(site, None) if site is not None else None
        found.append(change if other is None else _one_after_the_other(change, other))  # type: ignore[arg-type]
    return (*found, *[c for c in second if not isinstance(c, OperationChange) or next(iter(c.sites)) in at])


def _one_after_the_other(first: OperationChange, second: OperationChange) -> OperationChange:
    def both(call: Call) -> Any:
        def once(*args: Any, **kwargs: Any) -> Any:
            return first.apply(Call(call.function, args, kwargs, call.op, call.values))

        return second.apply(Call(once, call.args, call.kwargs, call.op, call.values))

    return OperationChange(first.sites, both)
