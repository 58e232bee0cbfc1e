"""Which values both sides have, and the smallest places where what they compute begins to differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from ...comparison.axes import joins
from ..edits import Site
from .anchors import WeightUse, first_parted
from .arrangement import (
    LEAST,
    LEAST_ROWS,
    Arrangement,
    ExchangedHalves,
    arrangement_of,
    exchanged_halves,
    moved_channels,
    only_arrangement,
)
from .attentions import attention_parts, have_other_heads
from .graph import SHAPES, Exit, FrameStep, FrameValue, Graph
from .sameness import alike, filled, masked, same_sorted

MOST_STEPS = 60  # of one side between what both have and a place
MANY_STEPS = 24  # from here on it is asked where the two begin to differ inside of it
FEW_STEPS = 16  # values looked at inside of a step that is written out
WRITTEN_OUT = frozenset(
    ["silu", "gelu", "relu", "mish", "softplus", "sigmoid", "tanh", "softmax", "layer_norm", "group_norm", "rms_norm",
     "normalize", "logsumexp"]
)  # fmt: skip
HEADS = 4  # axes of a value with heads and tokens, which may stand in either order


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

    def __init__(
        self, ours: Graph, theirs: Graph, tolerance: float, paths: Callable[[str], str], exchanged: bool = False,
        done_again: Callable[[int], None] = lambda steps: None, results: Mapping[str, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.ours, self.theirs, self.tolerance = ours, theirs, tolerance
        self.done_again = done_again  # is told how many steps were done once more to look into a difference
        self._exchanged = exchanged  # the branches of the guidance stand in the other order, and are taken so
        self.paths = paths  # the candidate's path of a module of the reference
        self._results = results  # the candidate's name of each result of the frame that was compared
        self._partners: dict[int, FrameValue | None] = {}
        self._turned: set[int] = set()  # values whose partner has heads and tokens the other way round
        self._arranged: dict[
            int, Arrangement | ExchangedHalves
        ] = {}  # how the partner is read as the value, where it has other axes
        self._norms: dict[int, float] = {}
        self.anchor: WeightUse | None = None  # the first weight that is given something else, where that was asked
        self._users: dict[int, int] = defaultdict(int)
        for step in ours.steps:
            for operand in {id(v): v for v in step.operands()}.values():
                self._users[id(operand)] += 1
        self._by_shape: dict[tuple[bool, tuple[int, ...]], list[FrameValue]] = defaultdict(list)
        self._by_size: dict[tuple[bool, int], list[FrameValue]] = defaultdict(list)
        for mine, graph in ((True, ours), (False, theirs)):
            for value in graph.values:
                self._by_shape[mine, tuple(value.content.shape)].append(value)
                self._by_size[mine, value.content.numel()].append(value)
        self._mine = {id(value) for value in ours.values}

    def partner(self, value: FrameValue) -> FrameValue | None:
        """The other side's value with the same numbers: made in the same way if there are several."""
        if id(value) not in self._partners:
            others = self._by_shape[id(value) not in self._mine, tuple(value.content.shape)]
            near = [other for other in others if self._as_long(other, value)]
            found = [other for other in near if alike(value.content, other.content, self.tolerance)]
            same = [other for other in found if _kind(other) == _kind(value)]
            if value.content.numel() > 1:  # two numbers may be equal by chance
                same += found
            self._partners[id(value)] = (
                next(iter(same), None) or self._turned_partner(value) or self._arranged_partner(value)
            )
        return self._partners[id(value)]

    def _arranged_partner(self, value: FrameValue) -> FrameValue | None:
        """The same numbers with other axes: tokens for a feature map, channels last, two axes as one."""
        content = value.content
        if content.numel() < (LEAST_ROWS if self._exchanged else LEAST) or not content.is_floating_point():
            return None
        others = self._by_size[id(value) not in self._mine, content.numel()]
        near = [v for v in others if self._exchanged or v.content.shape != content.shape]
        for other in sorted((v for v in near if self._as_long(v, value)), key=lambda v: _kind(v) != _kind(value)):
            found = self._arrangement(other.content, content)
            if found is not None:
                self._arranged[id(value)] = found
                return other
        return None

    def _as_long(self, a: FrameValue, b: FrameValue) -> bool:
        x, y = self._norm(a), self._norm(b)
        return abs(x - y) <= 2 * self.tolerance * max(x, y)

    def _norm(self, value: FrameValue) -> float:
        if id(value) not in self._norms:
            with torch._C.DisableTorchFunction():
                content = value.content
                numbers = masked((content.abs() if content.is_complex() else content).double())
                self._norms[id(value)] = float(numbers.masked_fill(~numbers.isfinite(), 0).norm())
        return self._norms[id(value)]

    def as_here(self, value: FrameValue, partner: torch.Tensor) -> torch.Tensor:
        """The partner's numbers with the axes of the value."""
        if self.is_turned(value):
            return partner.transpose(1, 2)
        return self._arranged[id(value)].there(partner) if id(value) in self._arranged else partner

    def as_there(self, difference: Parting, made: torch.Tensor) -> torch.Tensor:
        """What the candidate computes with the axes that the reference has there, as the values that go in have
        them."""
        wanted, here = tuple(difference.ours.content.shape), tuple(difference.theirs.content.shape)
        if _is_part_of(made.shape, wanted) or _is_part_of(wanted, made.shape):
            return made  # the same for every row, or reduced over other axes
        own = self._arranged.get(id(difference.theirs)) if self.is_leaf(difference.theirs) else None
        if own is not None and own.shape == wanted:
            return own.back(made)
        given = [v for step in self.until_shared(difference.theirs) for v in step.operands()]
        found = [self._arranged[id(v)] for v in given if self.is_leaf(v) and id(v) in self._arranged]
        fitting = next((one for one in found if (one.shape, one.other) == (wanted, here)), None)
        if fitting is not None:
            return fitting.back(made)
        turned = made.transpose(1, 2) if made.ndim == HEADS else made
        if tuple(turned.shape) == wanted or made.numel() != difference.ours.content.numel():
            return turned
        if joins(here, wanted) or joins(wanted, here):
            return made.reshape(wanted)
        only = only_arrangement(here, wanted)
        return only.there(made) if only is not None else turned

    def _turned_partner(self, value: FrameValue) -> FrameValue | None:
        """The same numbers with the two axes in the middle exchanged, as heads and tokens are."""
        if value.content.ndim != 4 or value.content.shape[1] == 1 or value.content.shape[2] == 1:
            return None
        with torch._C.DisableTorchFunction():
            turned = value.content.transpose(1, 2)
            others = self._by_shape[id(value) not in self._mine, tuple(turned.shape)]
            near = (other for other in others if self._as_long(other, value))
            found = next((other for other in near if alike(turned, other.content, self.tolerance)), None)
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
            return any(same_sorted(value.content, other.content, self.tolerance) for other in graph.values)

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
            views = [b, *(x.transpose(1, 2) for x in [b] if x.ndim == HEADS)]
            if any(alike(a.reshape(-1), view.reshape(-1), self.tolerance) for view in views):
                return True
        return self._arrangement(a, b) is not None

    def _arrangement(self, a: torch.Tensor, b: torch.Tensor) -> Arrangement | ExchangedHalves | None:
        """How `a` is read as `b`: with other axes, or with the other branch first where that is known to be so."""
        found = exchanged_halves(a, b, self.tolerance) if self._exchanged else None
        return found or arrangement_of(a, b, self.tolerance)

    def differences(self, kept: tuple[Site, Site] | None = None) -> list[Parting]:
        """Those behind the first exit at which the two sides differ; else behind a step of either side whose result is
        `kept` for later and handed on by nobody."""
        found: dict[tuple[int, int], Parting] = {}
        for exit, ours in self.ours.exits.items():
            theirs = self.exit_of(exit) if self._as_often(exit.path) else None
            if theirs is not None and not self.same_numbers(ours, theirs) and not self._comes_out_alike(exit):
                if ours.step is None or self._is_there(ours):  # nothing makes it here: the place is the handing on
                    return [Parting(ours, theirs, exit)]
                self._below(*self._nearer(ours, theirs), found, set())
                return list(found.values())
        steps = [graph.at(place, 0) for graph, place in zip((self.ours, self.theirs), kept or (), strict=False)]
        values = [step.values[0] for step in steps if step is not None and step.values]
        if len(values) == len(steps) > 0 and not self.same_numbers(*values):
            self._below(values[0], values[1], found, set())
        return list(found.values())

    def _nearer(self, ours: FrameValue, theirs: FrameValue) -> tuple[FrameValue, FrameValue]:
        """Where many steps lie between what both have and two values: what goes into the first weight that is given
        something else on the way."""
        ways = [{id(step): step for step in self.until_shared(value, most=None)} for value in (ours, theirs)]
        if max(map(len, ways)) < MANY_STEPS:
            return ours, theirs
        found = first_parted(
            self.ours, self.theirs, self.same_numbers, lambda step: id(step) in ways[0] or id(step) in ways[1]
        )
        if found is None or found[0].data.step is None:
            return ours, theirs
        self.anchor = found[0]
        return found[0].data, found[1].data

    def is_large(self, value: FrameValue) -> bool:
        """True for what is made in so many steps from what both have that it may hold any fault: it proves nothing."""
        return not self.is_leaf(value) and sum(1 for _ in self.until_shared(value)) >= MOST_STEPS

    def called(self, value: FrameValue) -> list[FrameStep]:
        """Calls of modules on the way to a value from what both have."""
        steps = [] if self.is_leaf(value) else self.until_shared(value)
        return [step for step in steps if isinstance(step.place, str)]

    def _comes_out_alike(self, exit: Exit) -> bool:
        """True if the module that is given something else makes the same of it: patches for a picture, say."""
        if not exit.path:
            return False
        mine, other = self.ours.at(exit.path, exit.call), self.theirs.at(self.paths(exit.path), exit.call)
        if mine is None or other is None or not mine.values or len(mine.values) != len(other.values):
            return False
        return all(self.same_numbers(x, y) for x, y in zip(mine.values, other.values, strict=True))

    def _as_often(self, path: str) -> bool:
        """Calls of one module are told apart by their number: only where both sides call it as often."""
        mine, others = (
            {exit.call for exit in graph.exits if exit.path == at}
            for graph, at in ((self.ours, path), (self.theirs, self.paths(path) if path else ""))
        )
        return mine == others

    def exit_of(self, exit: Exit) -> FrameValue | None:
        """The candidate's value there: of the same name, else by elimination, since results and what is handed in may
        stand in another order."""
        path = self.paths(exit.path) if exit.path else ""
        slot = exit.slot if exit.path else self._results.get(exit.slot, exit.slot)
        exact = self.theirs.exits.get(Exit(path, exit.call, slot))
        if exact is not None and exit.path:
            return exact
        mine = [v for e, v in self.ours.exits.items() if (e.path, e.call) == (exit.path, exit.call)]
        others = [v for e, v in self.theirs.exits.items() if (e.path, e.call) == (path, exit.call)]
        if exact is None and len(mine) != len(others):
            return None
        value = self.ours.exits.get(exit)
        if value is None:
            return exact
        known = next((v for v in others if self.same(value, v)), None)
        if known is not None:
            return known
        left = [v for v in others if not any(self.same(m, v) for m in mine)]
        fitting = [v for v in left if v.content.shape == value.content.shape]
        if exact is not None and (exact in fitting or not fitting):
            return exact
        place = [m for m in mine if not any(self.same(m, v) for v in others)].index(value)
        return fitting[0] if len(fitting) == 1 else left[place] if place < len(left) else None

    def _below(
        self,
        ours: FrameValue,
        theirs: FrameValue,
        found: dict[Any, Parting],
        seen: set[Any],
        outer: tuple[FrameValue, FrameValue] | None = None,
    ) -> None:
        """Go down as long as both sides do the same with values that differ; `outer` are views of these, with axes that
        both have."""
        if (id(ours), id(theirs)) in seen or self.same(ours, theirs) or self._is_arranged(ours, theirs):
            return
        seen.add((id(ours), id(theirs)))
        pairs = self._pairs(ours, theirs)
        if pairs is None or not pairs or any(self._ends(a, b) for a, b in pairs):
            if outer is not None and have_other_heads(ours, theirs):
                ours, theirs = outer
            found[id(ours), id(theirs)] = Parting(ours, theirs)
            return
        views = ours.step is not None and ours.step.name in SHAPES
        if views and ours.content.shape == theirs.content.shape:
            outer = (ours, theirs)
        before, known = len(found), any((id(a), id(b)) in seen for a, b in pairs)
        for a, b in pairs:
            self._below(a, b, found, seen, outer if views else None)
        if len(found) == before and not known:  # only the order of their numbers is another one, and it matters
            read = [(a, b) for a, b in pairs if a.content.shape == b.content.shape] or [outer or (ours, theirs)]
            found |= {(id(a), id(b)): Parting(a, b) for a, b in read}

    def _is_arranged(self, ours: FrameValue, theirs: FrameValue) -> bool:
        return self._arrangement(ours.content, theirs.content) is not None

    def _ends(self, a: FrameValue, b: FrameValue) -> bool:
        """True if the place is the step itself: it is given something else that the other side has, too."""
        if a.step is None or b.step is None or self._is_there(a):
            return True
        return self._is_there(b) and self._users[id(a)] > 1

    def _is_there(self, value: FrameValue) -> bool:
        """True if the other side has a value as it is, not only a part of it or one with other axes."""
        return self.partner(value) is not None and id(value) not in self._arranged

    def _pairs(self, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]] | None:
        """Operands that differ, if both sides do the same with their operands; None if they do not."""
        for a, b in dict.fromkeys([(ours, theirs), (self._unviewed(ours), self._unviewed(theirs))]):
            found = self._of_one_step(a, b)
            if found is not None:
                return found
            if parts := attention_parts(self.same_numbers, a, b) or self._written_out(a, b):
                return parts
        return None

    def _unviewed(self, value: FrameValue) -> FrameValue:
        """What a value that only one side has is another view of, where that, too, is its own."""
        while value.step is not None and value.step.name in SHAPES and len(value.step.operands()) == 1:
            below = value.step.operands()[0]
            if self.is_leaf(below):
                break
            value = below
        return value

    def _written_out(self, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]] | None:
        """What goes into a step of the one side and into the steps that the other one takes for it: an activation or a
        norm that is written out."""
        for mine, (step, other) in enumerate(((theirs.step, ours), (ours.step, theirs))):
            if step is None or isinstance(step.place, str) or step.name not in WRITTEN_OUT or not step.operands():
                continue
            below = self._inside(other)
            if any(self.same_numbers(*pair) for pair in ((v, step.operands()[0]) for v in below)):
                continue  # it is given the same: what it makes of that is its own matter
            for inner in sorted(
                below, key=lambda v: v.number
            ):  # the earliest: a norm of what is centred already is the same
                if inner.content.shape == other.content.shape and self._gives(step, inner, other):
                    pair = (inner, step.operands()[0])
                    return [pair[::-1] if mine else pair]
        return None

    def _inside(self, value: FrameValue) -> list[FrameValue]:
        """What a value is made of in a few steps, the nearest first."""
        found: dict[int, FrameValue] = {}
        waiting = [value]
        while waiting and len(found) < FEW_STEPS:
            step = waiting.pop(0).step
            if step is not None and not isinstance(step.place, str):
                below = [v for v in step.operands() if v.content.numel() > 1 and id(v) not in found]
                found |= {id(v): v for v in below}
                waiting += below
        return list(found.values())

    def _gives(self, step: FrameStep, first: FrameValue, wanted: FrameValue) -> bool:
        """True if the step makes that of another first operand; a group norm also with the channels last."""
        last = step.name == "group_norm" and first.content.ndim > 2
        for turned in (False, True) if last else (False,):
            content = first.content.movedim(-1, 1) if turned else first.content
            given = iter([FrameValue(content), *step.operands()[1:]])
            try:
                with torch.no_grad(), torch._C.DisableTorchFunction():
                    result = step.function(*filled(step.args, given), **filled(step.kwargs, given))
            except Exception:  # other shapes or kinds of values: not the same
                continue
            if not isinstance(result, torch.Tensor):
                return False
            if alike(wanted.content, result.movedim(1, -1) if turned else result, self.tolerance):
                return True
        return False

    def _of_one_step(self, ours: FrameValue, theirs: FrameValue) -> list[tuple[FrameValue, FrameValue]] | None:
        """Operands that differ of one step that both sides take."""
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
        if any(self._does_the_same(b, mine, ours, axes) for axes in moved_channels(ours.content, theirs.content)):
            return [(x, y) for x, y in zip(mine, others, strict=True) if not self.same_numbers(x, y)]
        return None

    def _does_the_same(
        self, step: FrameStep, operands: list[FrameValue], ours: FrameValue, axes: tuple[int, ...] = ()
    ) -> bool:
        """The candidate's operation on the reference's operands gives the reference's result; with `axes` if they are
        put into the candidate's order for that."""
        given = iter(operands)
        if axes:
            given = iter([FrameValue(v.content.permute(axes)) if v.content.ndim == len(axes) else v for v in operands])
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                result = step.function(*filled(step.args, given), **filled(step.kwargs, given))
        except Exception:  # other shapes or kinds of values: not the same
            return False
        pieces = list(result) if isinstance(result, (list, tuple)) else [result]
        if ours.piece >= len(pieces) or not isinstance(pieces[ours.piece], torch.Tensor):
            return False
        wanted = ours.content.permute(axes) if axes else ours.content
        return alike(wanted, pieces[ours.piece], self.tolerance)

    def until_shared(
        self, value: FrameValue, before: int | None = None, most: int | None = MOST_STEPS
    ) -> Iterator[FrameStep]:
        """Steps of one side that lead to a value from what both have, the last one first."""
        waiting, seen = [value], set[int]()
        while waiting and (most is None or len(seen) < most):
            step = waiting.pop().step
            if step is None or id(step) in seen:
                continue
            seen.add(id(step))
            yield step
            waiting += [v for v in step.operands() if not self.is_leaf(v, before)]

    def is_leaf(self, value: FrameValue, before: int | None = None) -> bool:
        """A value that both have; with `before` only if the reference has it when its step of that number is done, as
        it has the other results of the call of a module."""
        if value.step is None:
            return True
        other = self.partner(value)
        if other is None or before is None or other.step is None or other.step.number < before:
            return other is not None
        return other.number == before and isinstance(other.step.place, str) and len(other.step.values) > 1


def _is_part_of(shape: Sequence[int], whole: Sequence[int]) -> bool:
    """True for a shape that is spread to the whole one by itself."""
    return len(shape) == len(whole) and all(a in (1, b) for a, b in zip(shape, whole, strict=True))


def _kind(value: FrameValue) -> tuple[str, int]:
    return (value.step.name if value.step is not None else value.given, value.piece)
