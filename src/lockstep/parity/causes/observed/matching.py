"""Which values both sides have, and the smallest places where what they compute begins to differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .graph import Exit, FrameStep, FrameValue, Graph

MOST_STEPS = 60  # of one side between what both have and a place


@dataclass(eq=False)
class Parting:
    """One place: the reference's value and the candidate's, which nothing below them explains."""

    ours: FrameValue
    theirs: FrameValue
    exit: Exit | None = (
        None  # the reference hands on something that the candidate has, too: the place is the handing on
    )


class Matching:
    """Two graphs side by side; values are the same if their numbers are."""

    def __init__(self, ours: Graph, theirs: Graph, tolerance: float, paths: Callable[[str], str]) -> None:
        self.ours, self.theirs, self.tolerance = ours, theirs, tolerance
        self.paths = paths  # the candidate's path of a module of the reference
        self._partners: dict[int, FrameValue | None] = {}
        self._turned: set[int] = set()  # values whose partner has heads and tokens the other way round
        self._users: dict[int, int] = defaultdict(int)
        for step in ours.steps:
            for operand in {id(v): v for v in step.operands()}.values():
                self._users[id(operand)] += 1
        self._by_shape: dict[tuple[bool, tuple[int, ...]], list[FrameValue]] = defaultdict(list)
        for mine, graph in ((True, ours), (False, theirs)):
            for value in graph.values:
                self._by_shape[mine, tuple(value.content.shape)].append(value)
        self._mine = {id(value) for value in ours.values}

    def partner(self, value: FrameValue) -> FrameValue | None:
        """The other side's value with the same numbers: made in the same way if there are several."""
        if id(value) not in self._partners:
            others = self._by_shape[id(value) not in self._mine, tuple(value.content.shape)]
            found = [other for other in others if alike(value.content, other.content, self.tolerance)]
            same = [other for other in found if _kind(other) == _kind(value)]
            if value.content.numel() > 1:  # two numbers may be equal by chance
                same += found
            self._partners[id(value)] = next(iter(same), None) or self._turned_partner(value)
        return self._partners[id(value)]

    def _turned_partner(self, value: FrameValue) -> FrameValue | None:
        """The same numbers with the two axes in the middle exchanged, as heads and tokens are."""
        if value.content.ndim != 4 or value.content.shape[1] == 1 or value.content.shape[2] == 1:
            return None
        with torch._C.DisableTorchFunction():
            turned = value.content.transpose(1, 2)
            others = self._by_shape[id(value) not in self._mine, tuple(turned.shape)]
            found = next((other for other in others if alike(turned, other.content, self.tolerance)), None)
        if found is not None:
            self._turned.add(id(value))
        return found

    def is_turned(self, value: FrameValue) -> bool:
        """True if the partner holds the numbers with heads and tokens the other way round."""
        return self.partner(value) is not None and id(value) in self._turned

    def is_rearranged(self, value: FrameValue) -> bool:
        """True if the other side has the same numbers in another order or form."""
        graph = self.theirs if id(value) in self._mine else self.ours
        with torch._C.DisableTorchFunction():
            return any(_same_sorted(value.content, other.content, self.tolerance) for other in graph.values)

    def same(self, ours: FrameValue, theirs: FrameValue) -> bool:
        return alike(ours.content, theirs.content, self.tolerance)

    def same_numbers(self, ours: FrameValue, theirs: FrameValue) -> bool:
        """The same, also as another view or with heads and tokens the other way round: that is handed on as well."""
        a, b = ours.content, theirs.content
        if self.same(ours, theirs):
            return True
        with torch._C.DisableTorchFunction():
            if a.numel() != b.numel():  # one number, or the same for every row
                small, large = sorted((a, b), key=torch.numel)
                return small.numel() == 1 and alike(
                    small.reshape(1).expand(large.numel()), large.reshape(-1), self.tolerance
                )
            views = [b, *(x.transpose(1, 2) for x in [b] if x.ndim == 4)]
            return any(alike(a.reshape(-1), view.reshape(-1), self.tolerance) for view in views)

    def differences(self) -> list[Parting]:
        """Those behind the first exit at which the two sides differ."""
        for exit, ours in self.ours.exits.items():
            theirs = self._exit_of(exit) if self._as_often(exit.path) else None
            if theirs is not None and not self.same_numbers(ours, theirs):
                if self.partner(ours) is not None:
                    return [Parting(ours, theirs, exit)]
                found: dict[tuple[int, int], Parting] = {}
                self._below(ours, theirs, found, set())
                return list(found.values())
        return []

    def _as_often(self, path: str) -> bool:
        """Calls of one module are told apart by their number: only where both sides call it as often."""
        mine, others = (
            {exit.call for exit in graph.exits if exit.path == at}
            for graph, at in ((self.ours, path), (self.theirs, self.paths(path) if path else ""))
        )
        return mine == others

    def _exit_of(self, exit: Exit) -> FrameValue | None:
        path = self.paths(exit.path) if exit.path else ""
        exact = self.theirs.exits.get(Exit(path, exit.call, exit.slot))
        if exact is not None:
            return exact
        mine = [e for e in self.ours.exits if (e.path, e.call) == (exit.path, exit.call)]
        others = [v for e, v in self.theirs.exits.items() if (e.path, e.call) == (path, exit.call)]
        return others[mine.index(exit)] if len(mine) == len(others) else None

    def _below(self, ours: FrameValue, theirs: FrameValue, found: dict[Any, Parting], seen: set[Any]) -> None:
        """Go down as long as both sides do the same with values that differ."""
        if self.same(ours, theirs) or (id(ours), id(theirs)) in seen:
            return
        seen.add((id(ours), id(theirs)))
        pairs = self._pairs(ours, theirs)
        if pairs is None or not pairs or any(self._ends(a, b) for a, b in pairs):
            found[id(ours), id(theirs)] = Parting(ours, theirs)
            return
        for a, b in pairs:
            self._below(a, b, found, seen)

    def _ends(self, a: FrameValue, b: FrameValue) -> bool:
        """True if the place is the step itself: it is given something else that the other side has, too."""
        if a.step is None or b.step is None or self.partner(a) is not None:
            return True
        return self.partner(b) is not None and self._users[id(a)] > 1

    def _pairs(self, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]] | None:
        """Operands that differ, if both sides do the same with their operands; None if they do not."""
        a, b = ours.step, theirs.step
        if a is None or b is None or ours.piece != theirs.piece:
            return None
        mine, others = a.operands(), b.operands()
        if len(mine) != len(others) or isinstance(a.place, str) != isinstance(b.place, str):
            return None
        if isinstance(a.place, str):
            same = self.paths(a.place) == b.place
            return [(x, y) for x, y in zip(mine, others, strict=True) if not self.same(x, y)] if same else None
        for order in ([*range(len(mine))], [1, 0]) if len(mine) == 2 else ([*range(len(mine))],):
            turned = [others[i] for i in order]
            left = [(x, y) for x, y in zip(mine, turned, strict=True) if not self.same(x, y)]
            if len(left) < len(mine) or len(mine) == 1 or order == [*range(len(mine))]:
                back = [mine[order.index(i)] for i in range(len(others))]
                if self._does_the_same(b, back, ours):
                    return left
        return None

    def _does_the_same(self, step: FrameStep, operands: list[FrameValue], ours: FrameValue) -> bool:
        """The candidate's operation on the reference's operands gives the reference's result."""
        given = iter(operands)
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                result = step.function(*_filled(step.args, given), **_filled(step.kwargs, given))
        except Exception:  # other shapes or kinds of values: not the same
            return False
        pieces = list(result) if isinstance(result, (list, tuple)) else [result]
        if ours.piece >= len(pieces) or not isinstance(pieces[ours.piece], torch.Tensor):
            return False
        return alike(ours.content, pieces[ours.piece], self.tolerance)

    def until_shared(self, value: FrameValue, before: int | None = None) -> Iterator[FrameStep]:
        """Steps of one side that lead to a value from what both have, the last one first."""
        waiting, seen = [value], set[int]()
        while waiting and len(seen) < MOST_STEPS:
            step = waiting.pop().step
            if step is None or id(step) in seen:
                continue
            seen.add(id(step))
            yield step
            waiting += [v for v in step.operands() if not self.is_leaf(v, before)]

    def is_leaf(self, value: FrameValue, before: int | None = None) -> bool:
        """A value that both have; with `before` only if the reference has it when its step of that number is done."""
        if value.step is None:
            return True
        other = self.partner(value)
        return other is not None and (before is None or other.step is None or other.step.number < before)


def _kind(value: FrameValue) -> tuple[str, int]:
    return (value.step.name if value.step is not None else value.given, value.piece)


def _filled(value: Any, given: Iterator[FrameValue]) -> Any:
    if isinstance(value, FrameValue):
        return next(given).content.clone()
    if type(value) in (list, tuple):
        return type(value)(_filled(item, given) for item in value)
    return {k: _filled(v, given) for k, v in value.items()} if type(value) is dict else value


def alike(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.shape != b.shape:
        return False
    with torch._C.DisableTorchFunction():
        if a.is_complex() and b.is_complex():
            return _near(torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj()), tolerance)
        if a.is_floating_point() and b.is_floating_point():
            return _near(a, b, tolerance)
        whole = not (a.is_floating_point() or b.is_floating_point() or a.is_complex() or b.is_complex())
        return whole and torch.equal(a.long(), b.long())


def _same_sorted(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.numel() != b.numel() or a.is_complex() or b.is_complex() or a.dtype is torch.bool or b.dtype is torch.bool:
        return False
    left, right = (x.double().reshape(-1).sort().values for x in (a, b))
    return _near(left, right, tolerance)


def _near(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.dtype == b.dtype and torch.equal(a, b):
        return True
    a, b = a.double(), b.double()
    finite = a.isfinite()
    if not torch.equal(finite, b.isfinite()) or not torch.equal(a[~finite].nan_to_num(), b[~finite].nan_to_num()):
        return False
    return bool((a - b)[finite].norm() <= tolerance * a[finite].norm())
