"""Two expressions that are the same but for how the axes are read: what then differs is the reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .graph import CASTS, SHAPES, FrameStep, FrameValue
from .matching import Matching

_ORDERLESS = ("add", "mul")
_QUIET = CASTS | {"contiguous", "clone", "detach"}


class NormalForm:
    """What a value is made of, without its shapes: the same for the same expression, however it is written."""

    def __init__(self, matching: Matching, settings: Callable[[FrameStep], dict[str, Any]]) -> None:
        self._matching, self._settings = matching, settings
        self._known: dict[int, int] = {}

    def same(self, ours: FrameValue, theirs: FrameValue) -> bool:
        """True if both do the same steps with the same values, but for shapes."""
        return self._of(ours) == self._of(theirs)

    def _of(self, value: FrameValue) -> int:
        if id(value) not in self._known:
            self._known[id(value)] = id(value)  # a value that is made of itself is none
            self._known[id(value)] = self._made(value)
        return self._known[id(value)]

    def _made(self, value: FrameValue) -> int:
        matching = self._matching
        if id(value) not in matching._mine and (partner := matching.partner(value)) is not None:
            return self._of(partner)
        step = value.step
        if step is None:
            return id(value)
        parts = [self._of(v) for v in step.operands()]
        if step.name in SHAPES and len(parts) == 1:
            return parts[0]
        if step.name in _ORDERLESS:
            parts.sort()
        if isinstance(step.place, str):
            name = matching.paths(step.place) if id(value) in matching._mine else step.place
            return hash((name, value.piece, *parts))
        settings = str(sorted((k, str(v)) for k, v in self._settings(step).items()))
        return hash((step.name, settings, value.piece, *parts))


def reading_words(matching: Matching, ours: FrameValue, theirs: FrameValue, name: Callable[[FrameValue], str]) -> str:
    """The steps that only change shapes, where the values below them agree and they do not: `wrong` instead of
    `right`."""
    for _ in range(16):
        (mine, a), (others, b) = _shapes_of(ours), _shapes_of(theirs)
        if (mine or others) and matching.same_numbers(a, b):
            return f"`{_said(others, name(a))}` instead of `{_said(mine, name(a))}`"
        if a.step is None or b.step is None or a.step.name != b.step.name:
            return ""
        pairs = list(zip(a.step.operands(), b.step.operands(), strict=False))
        left = [(x, y) for x, y in pairs if not matching.same_numbers(x, y)]
        if len(left) != 1:
            return ""
        ours, theirs = left[0]
    return ""


def _shapes_of(value: FrameValue) -> tuple[list[FrameStep], FrameValue]:
    """The steps that only change a value's shape, the innermost first, and what they change."""
    steps: list[FrameStep] = []
    while value.step is not None and value.step.name in SHAPES and len(value.step.operands()) == 1:
        steps.insert(0, value.step)
        value = value.step.operands()[0]
    return [step for step in steps if step.name not in _QUIET], value


def _said(steps: list[FrameStep], what: str) -> str:
    return what + "".join(f".{step.name}({_numbers(step)})" for step in steps)


def _numbers(step: FrameStep) -> str:
    numbers: list[str] = []
    for value in [*step.args, *step.kwargs.values()]:
        if isinstance(value, FrameValue):
            continue
        items = value if type(value) in (list, tuple) or hasattr(value, "numel") else [value]
        numbers += [str(item) for item in items]
    return ", ".join(numbers)
