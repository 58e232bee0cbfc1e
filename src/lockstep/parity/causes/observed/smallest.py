"""The one value in what the candidate computes with which put right its result is the reference's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from .graph import FrameStep, FrameValue
from .matching import Matching, Parting, alike

MOST = 240  # results computed
MOST_ELEMENTS = 1 << 22  # of a result that is computed so often


def smallest_difference(
    matching: Matching, difference: Parting, modules: Mapping[str, nn.Module]
) -> tuple[FrameValue, FrameValue] | None:
    """The reference's value and the candidate's; None if it takes more than one, or if that is the whole of it."""
    ours, theirs = difference.ours, difference.theirs
    if ours.content.numel() > MOST_ELEMENTS or ours.content.shape != theirs.content.shape:
        return None
    rights, wrongs = (sorted(_inside(matching, v), key=lambda found: found[0]) for v in (ours, theirs))
    left = MOST
    for _, wrong in wrongs:
        for _, right in rights:
            if right.content.shape != wrong.content.shape or matching.same(right, wrong):
                continue
            left -= 1
            if left < 0:
                return None
            result = _Again(matching, modules, wrong, right.content).value(theirs)
            if result is not None and alike(ours.content, result, matching.tolerance):
                return right, wrong
    return None


def _inside(matching: Matching, value: FrameValue) -> Iterator[tuple[int, FrameValue]]:
    """Everything that a value is made of down to what both sides have, with the number of steps that each took."""
    seen: dict[int, FrameValue] = {}
    for step in matching.until_shared(value):
        seen |= {id(v): v for v in step.operands() if v.step is not None or v.given}
    for inner in seen.values():
        count = 0 if matching.is_leaf(inner) else sum(1 for _ in matching.until_shared(inner))
        yield count, inner


class _Again:
    """An expression computed again with one value replaced."""

    def __init__(
        self, matching: Matching, modules: Mapping[str, nn.Module], wrong: FrameValue, right: torch.Tensor
    ) -> None:
        self._matching, self._modules, self._wrong, self._right = matching, modules, wrong, right
        self._made: dict[int, Any] = {}
        self._depends: dict[int, bool] = {}

    def value(self, root: FrameValue) -> torch.Tensor | None:
        try:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                return self._value(root, top=True)
        except Exception:  # other kinds or shapes of values: not this one
            return None

    def _value(self, value: FrameValue, top: bool = False) -> torch.Tensor:
        if value is self._wrong:
            return self._right.clone()
        if value.step is None or (not top and not self._needs(value)):
            return value.content.clone()
        step = value.step
        if id(step) not in self._made:
            self._made[id(step)] = self._run(step, self._filled(step.args), self._filled(step.kwargs))
        result = self._made[id(step)]
        found: torch.Tensor = result[value.piece] if type(result) in (list, tuple) else result
        return found

    def _needs(self, value: FrameValue) -> bool:
        if value is self._wrong:
            return True
        if value.step is None or self._matching.is_leaf(value):
            return False
        if id(value.step) not in self._depends:
            self._depends[id(value.step)] = any(self._needs(v) for v in value.step.operands())
        return self._depends[id(value.step)]

    def _run(self, step: FrameStep, args: Any, kwargs: Any) -> Any:
        return (
            self._modules[step.place](*args, **kwargs)
            if isinstance(step.place, str)
            else step.function(*args, **kwargs)
        )

    def _filled(self, value: Any) -> Any:
        if isinstance(value, FrameValue):
            return self._value(value)
        if type(value) in (list, tuple):
            return type(value)(self._filled(item) for item in value)
        return {k: self._filled(v) for k, v in value.items()} if type(value) is dict else value
