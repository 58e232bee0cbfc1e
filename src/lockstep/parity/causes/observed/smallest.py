"""The one value in what the candidate computes with which put right its result is the reference's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import torch
from torch import nn

from ...comparison.axes import joins
from .arrangement import LEAST, only_arrangement
from .graph import SHAPES, FrameStep, FrameValue, TooLarge, piece_of
from .matching import HEADS, Matching, Parting
from .sameness import alike

MOST = 240  # results computed, for single values and for several of one line
MOST_ELEMENTS = 1 << 22  # of a result that is computed so often
MOST_STEPS = 20_000  # done again for one difference: every one of these results may take a whole run
STEPS_OF_MODULE = 2  # for each module inside of it, where one is called as a whole
TOLD = 1000  # steps from one word of it to the next

Sides = tuple[Mapping[str, nn.Module], Mapping[str, nn.Module]]  # the candidate's and the reference's


@dataclass
class Budget:
    """Steps that may still be done again; `tell` is given how many were."""

    tell: Callable[[int], None]
    left: int = MOST_STEPS
    untold: int = 0

    def spend(self, steps: int) -> None:
        self.left, self.untold = self.left - steps, self.untold + steps
        if self.untold >= TOLD or self.left < 0:
            self.tell(self.untold)
            self.untold = 0
        if self.left < 0:
            raise TooLarge


Group = list[FrameValue]  # what one line of code made: one value, or one for each time that it ran


def smallest_difference(
    matching: Matching, difference: Parting, modules: Mapping[str, nn.Module], ours_modules: Mapping[str, nn.Module]
) -> list[Parting]:
    """Both sides' values; none if it takes more than one line, or if that is the whole of it.

    With the reference's put into the candidate's expression the result is the reference's; and with the candidate's put
    into the reference's it is the candidate's, else it is not all that is different.
    """
    ours, theirs = difference.ours, difference.theirs
    handed_on = difference.exit is not None
    if handed_on or ours.content.numel() > MOST_ELEMENTS or ours.content.numel() != theirs.content.numel():
        return []
    inside = [sorted(inside_of(matching, v), key=lambda found: found[0]) for v in (ours, theirs)]
    rights, wrongs = ([value for _, value in values] for values in inside)
    half = sum(1 for _ in matching.until_shared(theirs)) / 2
    few = [value for count, value in inside[1] if count <= half]
    own = [value for value in wrongs if not matching.is_leaf(value)]  # what both have is exchanged, not wrong
    size = {id(value): count for values in inside for count, value in values}
    several = list(product(_of_one_line(own), _alike(rights)))  # the smallest first, the same step before others
    several.sort(key=lambda pair: (size[id(pair[0][0])], _step_name(pair[0][0]) != _step_name(pair[1][0])))
    single = sorted(product(_single(few), _single(rights)), key=lambda pair: _is_spread(matching, *pair))
    rest = product(_single([value for count, value in inside[1] if count > half]), _single(rights))
    kinds: list[Iterable[tuple[Group, Group]]] = [single, _exchanged(matching, wrongs), several, rest]
    sides, budget = (modules, ours_modules), Budget(matching.done_again)
    found = (_healing(matching, sides, difference, pairs, budget) for pairs in kinds)
    try:
        return next((places for places in found if places), [])
    except TooLarge:
        return []  # the whole of it has to be told


def _healing(
    matching: Matching, sides: Sides, difference: Parting, pairs: Iterable[tuple[Group, Group]], budget: Budget
) -> list[Parting]:
    left = MOST
    for wrong, right in pairs:
        contents = _in_place(matching, right, wrong)
        if contents is None:
            continue
        left -= 1
        if left < 0:
            break
        result = Again(matching, sides[0], contents, budget).value(difference.theirs)
        if result is None or not _is_right(matching, difference, result):
            continue
        if _does_as_much(matching, sides[1], difference, right, wrong, budget):
            return [Parting(x, y) for x, y in zip(right, wrong, strict=True)]
    return []


def _does_as_much(
    matching: Matching, modules: Mapping[str, nn.Module], difference: Parting, rights: Group, wrongs: Group,
    budget: Budget,
) -> bool:  # fmt: skip
    """False if the candidate's values in the reference's expression are seen not to make the candidate's result."""
    contents: dict[int, torch.Tensor] = {}
    for right, wrong in zip(rights, wrongs, strict=True):
        content = read_as(matching, wrong, right)
        if content is None:
            return True
        contents[id(right)] = content
    made = Again(matching, modules, contents, budget).value(difference.ours)
    return made is None or matching.same_numbers(FrameValue(made), difference.theirs)


def _exchanged(matching: Matching, wrongs: list[FrameValue]) -> list[tuple[Group, Group]]:
    """Every two values that both have, each in the place of the other."""
    known = [(value, partner) for value in wrongs if (partner := matching.partner(value)) is not None]
    return [([x, y], [b, a]) for (x, a), (y, b) in combinations(known, 2) if x.content.shape == y.content.shape]


def _is_right(matching: Matching, difference: Parting, result: torch.Tensor) -> bool:
    right = difference.ours.content
    with torch._C.DisableTorchFunction():
        made = result if result.shape == right.shape else matching.as_there(difference, result)
    return alike(right, made, matching.tolerance)


def _is_spread(matching: Matching, wrong: Group, right: Group) -> bool:
    """True for what both have in the place of something larger: tried last, since it may hide what is wrong."""
    shapes = [sorted(group[0].content.shape) for group in (wrong, right)]
    return shapes[0] != shapes[1] and matching.is_leaf(wrong[0])


def _single(values: list[FrameValue]) -> list[Group]:
    return [[value] for value in values]


def _alike(values: list[FrameValue]) -> list[Group]:
    """Every two values that are made in the same way, or by two modules."""
    made = [value for value in values if value.step is not None]
    pairs = combinations(made, 2)
    return [sorted(pair, key=lambda v: v.number) for pair in pairs if _way(pair[0]) == _way(pair[1])]


def _way(value: FrameValue) -> Any:
    step = value.step
    assert step is not None
    return isinstance(step.place, str) or step.name, value.piece, sorted(value.content.shape)


def _step_name(value: FrameValue) -> str:
    return value.step.name if value.step is not None else ""


def _of_one_line(values: list[FrameValue]) -> list[Group]:
    """A helper that is called for the query and for the key is wrong twice."""
    groups: dict[Any, Group] = defaultdict(list)
    for value in values:
        if value.step is not None and value.step.line:
            shape = sorted(value.content.shape)
            groups[value.step.line, value.step.name, value.piece, tuple(shape)].append(value)
    found: list[Group] = []
    for group in (sorted(members, key=lambda v: v.number) for members in groups.values()):
        half = len(group) // 2 if len(group) % 2 == 0 else 0  # a line may do the same thing several times
        found += [[group[i], group[half + i]] for i in range(half)]
    return found


def _in_place(matching: Matching, rights: Group, wrongs: Group) -> dict[int, torch.Tensor] | None:
    """The reference's numbers in the place of the candidate's, heads and tokens as these have them; None where they do
    not fit, or are the same."""
    if len(rights) != len(wrongs):
        return None
    found: dict[int, torch.Tensor] = {}
    for right, wrong in zip(rights, wrongs, strict=True):
        content = read_as(matching, right, wrong)
        if content is None or matching.same_numbers(right, wrong):
            return None
        found[id(wrong)] = content
    return found


def read_as(matching: Matching, right: FrameValue, wrong: FrameValue) -> torch.Tensor | None:
    """The reference's numbers with the axes of the candidate's value; None where it is not clear which are which."""
    content, shape = right.content, wrong.content.shape
    if content.shape != shape and content.ndim == HEADS and content.transpose(1, 2).shape == shape:
        return content.transpose(1, 2)
    if _fits(content.shape, shape):
        return content
    partner = matching.partner(wrong)  # what is made of a value lies as that does
    if partner is not None and partner.content.shape == content.shape:
        return matching.as_here(wrong, content)
    if content.numel() != wrong.content.numel() or content.numel() < LEAST:
        return None
    sizes = tuple(content.shape), tuple(shape)
    if joins(*sizes) or joins(*reversed(sizes)):
        return content.reshape(shape)
    only = only_arrangement(*sizes)
    return only.there(content) if only is not None else None


def _fits(shape: torch.Size, wanted: torch.Size) -> bool:
    """The same shape, or the same axes with some of them not yet spread, as those of masks."""
    if shape == wanted:
        return True
    return len(shape) == len(wanted) > 2 and all(a == b or 1 in (a, b) for a, b in zip(shape, wanted, strict=True))


def inside_of(matching: Matching, value: FrameValue) -> Iterator[tuple[int, FrameValue]]:
    """Everything that a value is made of down to what both sides have, with the number of steps that each took; and
    what the last of that are other views of."""
    seen: dict[int, FrameValue] = {}
    for step in matching.until_shared(value):
        for operand in step.operands():
            seen |= {
                id(v): v for v in views_of(matching, operand) if v.step is not None or v.given or v.content.numel() > 1
            }
    for inner in seen.values():
        count = 0 if matching.is_leaf(inner) else sum(1 for _ in matching.until_shared(inner))
        yield count, inner


def views_of(matching: Matching, value: FrameValue) -> Iterator[FrameValue]:
    """A value; and what it is another view of, where both sides have it."""
    yield value
    while matching.is_leaf(value) and value.step is not None and value.step.name in SHAPES:
        below = value.step.operands()
        if len(below) != 1:
            return
        value = below[0]
        yield value


class Again:
    """An expression computed again with some values replaced."""

    def __init__(
        self, matching: Matching, modules: Mapping[str, nn.Module], right: dict[int, torch.Tensor], budget: Budget
    ) -> None:
        self._matching, self._modules, self._right = matching, modules, right  # by what it takes the place of
        self._budget = budget
        self._made: dict[int, Any] = {}
        self._depends: dict[int, bool] = {}

    def value(self, root: FrameValue) -> torch.Tensor | None:
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                return self._value(root, top=True)
        except TooLarge:
            raise
        except Exception:  # other kinds or shapes of values: not this one
            return None

    def _value(self, value: FrameValue, top: bool = False) -> torch.Tensor:
        if id(value) in self._right:
            return self._right[id(value)].clone()
        if value.step is None or (not top and not self._needs(value)):
            return value.content.clone()
        step = value.step
        if id(step) not in self._made:
            self._made[id(step)] = self._run(step, self._filled(step.args), self._filled(step.kwargs))
        return piece_of(self._made[id(step)], value.piece)

    def _needs(self, value: FrameValue) -> bool:
        if id(value) in self._right:
            return True
        view = value.step is not None and value.step.name in SHAPES
        if value.step is None or (self._matching.is_leaf(value) and not view):
            return False
        if id(value.step) not in self._depends:
            self._depends[id(value.step)] = any(self._needs(v) for v in value.step.operands())
        return self._depends[id(value.step)]

    def _run(self, step: FrameStep, args: Any, kwargs: Any) -> Any:
        module = self._modules[step.place] if isinstance(step.place, str) else None
        self._budget.spend(1 if module is None else STEPS_OF_MODULE * sum(1 for _ in module.modules()))
        return module(*args, **kwargs) if module is not None else step.function(*args, **kwargs)

    def _filled(self, value: Any) -> Any:
        if isinstance(value, FrameValue):
            return self._value(value)
        if type(value) in (list, tuple):
            return type(value)(self._filled(item) for item in value)
        return {k: self._filled(v) for k, v in value.items()} if type(value) is dict else value
