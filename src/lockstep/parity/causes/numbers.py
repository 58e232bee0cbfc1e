"""The numbers that one side works with: a number that a cause says it has must be among them."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from .edits import Call, Edit, Site
from .failures import noted
from .hypotheses.code_numbers import NumberChange, numbers_in_code
from .pipeline_probe import PipelineProbe

NEAR = 1e-4  # relative: a number that was fitted is known no better
NEUTRAL = (0.0, 0.5, 1.0, 2.0)  # what is left out, halved or done twice needs no number; and any code has these


class SideNumbers:
    """Numbers by their size."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self._sorted = sorted({abs(number) for number in numbers if math.isfinite(number)})

    def lack(self, edit: Edit, fitted: bool = False) -> bool:
        """True if a hypothesis was found by trying one number after the other, and its number is nowhere here."""
        coded = [c for c in edit.changes if isinstance(c, NumberChange)]
        if coded:
            done_twice = coded[0].value == coded[0].before ** 2
            return not done_twice and (abs(coded[0].value) in NEUTRAL or not self.has(coded[0].value))
        guessed = edit.parameter is not None and (fitted or edit.name == "constant")
        return guessed and abs(edit.parameter or 0.0) not in NEUTRAL and not self.has(edit.parameter or 0.0)

    def has(self, number: float) -> bool:
        """True if it is there, whatever its sign, or as what is divided by."""
        return any(self._is_there(abs(value)) for value in (number, 1 / number if number else 0.0))

    def _is_there(self, value: float) -> bool:
        at = bisect_left(self._sorted, value * (1 - NEAR))
        return at < len(self._sorted) and self._sorted[at] <= value * (1 + NEAR)


def numbers_of(search: Any) -> SideNumbers:
    """Those that go into an operation of its run, that its modules and schedulers hold, and that stand in these
    schedulers' code."""
    found: set[float] = set()

    def observe(site: Site, call: Call, result: Any) -> None:
        found.update(_numbers([call.args, call.kwargs]))

    with warnings.catch_warnings(), torch.no_grad(), noted(search.log, (), "the whole run"):
        warnings.simplefilter("ignore")
        with PipelineProbe.edited(search.live, (), observe):
            search.live.run(search.own)
    search.log.spent += search.whole.cost
    for module in search.modules.values():
        found.update(_numbers(list(vars(module).values())))
    for scheduler in search.live.parts.schedulers.values():
        found.update(map(float, numbers_in_code(scheduler)))
    return SideNumbers(found)


def _numbers(value: Any, depth: int = 0) -> Iterator[float]:
    if isinstance(value, torch.Tensor):
        if value.numel() == 1 and not value.is_complex():
            with torch._C.DisableTorchFunction():
                yield float(value.detach())
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)
    elif type(value) in (list, tuple, dict) and depth < 4:
        for item in value.values() if type(value) is dict else value:
            yield from _numbers(item, depth + 1)
