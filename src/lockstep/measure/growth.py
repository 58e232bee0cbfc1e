"""How time and memory grow with size, batch, steps and threads."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from ..errors import InputError, UnknownNameError
from ..models import accelerated
from ..models.accelerated import EXACT, HIGH
from .runs import Measured, Run, memory_of, time_once
from .subjects import Subject

# what can grow -> the values that it is measured at
AXES: dict[str, Callable[[], tuple[int, ...]]] = {
    "size": lambda: (16, 32, 48, 64),
    "batch": lambda: (1, 2, 4, 8),
    "steps": lambda: (5, 10, 20, 40),
    "threads": lambda: tuple(range(1, (os.cpu_count() or 1) + 1)),
}


@dataclass
class Growth:
    """Best seconds, and the most memory that a call took on top, of each level at each value of one axis."""

    what: str
    values: tuple[int, ...]
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peak_mib: dict[str, list[float]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@torch.no_grad()
def grown(
    what: str,
    values: Sequence[int],
    levels: Sequence[str],
    run_at: Callable[[str, int], Run],
    rounds: int,
    tell: Callable[[str], object] = lambda text: None,
) -> Growth:
    """Every level at every value, in turn; `run_at(level, value)` makes a run.

    The first call of each tells the memory, with every freed buffer given back, which takes some more time; the best of
    all calls counts, so one round is one call a point.
    """
    growth, threads = Growth(what, tuple(values)), torch.get_num_threads()
    for value in values:
        if what == "threads":
            torch.set_num_threads(value)
        try:
            runs = {level: run_at(level, value) for level in levels}
            found = {level: Measured(level) for level in levels}
            for turn in range(rounds):
                for level, run in runs.items():
                    tell(f"{what} {value}: {level}")
                    if turn == 0:
                        found[level].peak_mib = memory_of(functools.partial(time_once, found[level], run))[1]
                    else:
                        time_once(found[level], run)
        finally:
            torch.set_num_threads(threads)
        for level, one in found.items():
            growth.seconds.setdefault(level, []).append(one.best)
            growth.peak_mib.setdefault(level, []).append(one.peak_mib)
    return growth


def axis_of(text: str) -> tuple[str, tuple[int, ...]]:
    """`size`, or with values of one's own `size=16:32`."""
    name, given, listed = text.strip().partition("=")
    if name not in AXES:
        raise UnknownNameError("axis of growth", name, AXES)
    try:
        values = tuple(int(value) for value in listed.split(":")) if given else AXES[name]()
    except ValueError:
        values = ()
    if not values or min(values) < 1:
        raise InputError(f"Values of an axis are whole numbers above 0, as in {name}=1:2:4, got {listed!r}.")
    return name, values


def by_level(subject: Subject, only: Sequence[str] | None) -> dict[str, Any]:
    """A model for each level that can be here and was asked for."""
    missing = {"lockstep": None, EXACT: accelerated.why_not(), HIGH: accelerated.why_not_high()}
    wanted = chosen_levels([level for level, reason in missing.items() if reason is None], only)
    models = {level: subject.again() for level in wanted}
    for level, model in models.items():
        if level != "lockstep":
            model.accelerate(level)
    return models


def chosen_levels(here: Sequence[str], only: Sequence[str] | None) -> list[str]:
    """Those of the levels that were asked for, by their own names or by those of the sides (`lockstep, exact`)."""
    names = None if only is None else [name.removeprefix("lockstep, ") for name in only]
    for name in names or ():
        if name not in here:
            raise UnknownNameError("level that can be measured here", name, here)
    return [level for level in here if names is None or level in names]


def of_model(
    subject: Subject,
    models: dict[str, Any],
    what: str,
    values: Sequence[int],
    rounds: int,
    tell: Callable[[str], object],
) -> Growth:
    """How a call of a model grows with its size, its batch or the threads."""

    def run_at(level: str, value: int) -> Run:
        size, batch = (value if what == name else getattr(subject, name) for name in ("size", "batch"))
        return replace(subject, size=size, batch=batch).call(models[level])

    return grown(what, values, list(models), run_at, rounds, tell)


def of_run(
    load: Callable[[], Any],
    only: Sequence[str] | None,
    call: dict[str, Any],
    values: Sequence[int],
    rounds: int,
    tell: Callable[[str], object],
) -> Growth:
    """How a whole run grows with its steps."""
    here = ["lockstep", *(level for level in (EXACT, "fast") if accelerated.why_not() is None)]
    levels = chosen_levels(here, only)
    pipes = {level: load() for level in levels}
    for level, pipe in pipes.items():
        pipe.set_progress_bar_config(disable=True)
        if level != "lockstep":
            pipe.accelerate(level)

    def run_at(level: str, value: int) -> Run:
        return lambda: pipes[level](**{**call, "num_inference_steps": value, "output_type": "pt"}).images

    return grown("steps", values, levels, run_at, rounds, tell)
