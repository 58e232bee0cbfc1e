"""What a scheduler remembers, read and put right wherever one of its methods begins and behind each of its steps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch

from ...recording.patching import watch_methods

STEP = "step"
MOST_PLACES = 2000  # in one run

AtPlace = Callable[[Any, str, Any], None]  # of the instance, the method, and the result of a step or None


@dataclass(frozen=True, eq=False)
class StateHanded:
    """An attribute of a scheduler at each of these places of a run, as the other side has it."""

    part: str
    name: str
    values: tuple[Any, ...]
    methods: frozenset[str]  # whose begins count, beside the ends of steps


def hand_states(stack: ExitStack, schedulers: dict[str, Any], states: Iterable[StateHanded]) -> None:
    """Whatever the schedulers keep under these names is replaced in this run."""
    by_part: dict[str, list[StateHanded]] = {}
    for state in states:
        by_part.setdefault(state.part, []).append(state)
    for part, handed in by_part.items():
        watch_places(stack, schedulers[part], _putting(handed), handed[0].methods)


def _putting(handed: list[StateHanded]) -> AtPlace:
    count = iter(range(1 << 30))

    def put(instance: Any, method: str, result: Any) -> None:
        place = next(count)
        for state in handed:
            if place < len(state.values):
                with torch._C.DisableTorchFunction():
                    setattr(instance, state.name, copy.deepcopy(state.values[place]))

    return put


def watch_places(stack: ExitStack, scheduler: Any, at_place: AtPlace, methods: frozenset[str] | None = None) -> None:
    """Call it where a method (or one of these) begins while a step is done, and where a step ends."""
    stepping: list[bool] = []

    def around(name: str) -> Any:
        def watched(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if name != STEP:
                if stepping:
                    at_place(instance, name, None)
                return original(*args, **kwargs)
            stepping.append(True)
            try:
                result = original(*args, **kwargs)
            finally:
                stepping.pop()
            at_place(instance, name, result)
            return result

        return watched

    names = [name for name in _methods(type(scheduler)) if methods is None or name in (*methods, STEP)]
    watch_methods(stack, scheduler, {name: around(name) for name in names})


def _methods(cls: type) -> list[str]:
    """Plain methods, by their names: neither properties nor those that Python itself calls."""
    found = [name for owner in cls.__mro__ for name, value in vars(owner).items() if isinstance(value, FunctionType)]
    return [name for name in dict.fromkeys(found) if not name.startswith("__")]
