"""What every step of the loop does to the error."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..comparison.answer import errors
from ..floors.file import Floor
from ..trace.names import NO_STEP, Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error

STATE = ("@scheduler.step", "@latents")  # what carries a loop from step to step
CHAOTIC = 10.0  # product of the gains above which only teacher-forced steps can be compared


@dataclass(frozen=True)
class StepGain:
    """What one step of the loop does to the error."""

    step: str
    error: float
    gain: float | None  # error after the step over error before it
    floor: float | None
    floor_gain: float | None  # the same for the reference against itself


def gain_curve(
    reference: str | Path | Trace, candidate: str | Path | Trace, floor: Floor | str | Path | None = None
) -> list[StepGain]:
    """Error of the loop's state after every step, and how each step changes it."""
    a, b = Trace.open(reference), Trace.open(candidate)
    measured = Floor.load(floor) if isinstance(floor, (str, Path)) else floor
    curve: list[StepGain] = []
    for entry, other in _states(a, b):
        error = _pair_error(a, entry, b, other)
        value = measured.value(entry.key, other.key) if measured is not None else None
        before = curve[-1] if curve else None
        curve.append(
            StepGain(
                entry.key.step,
                error,
                error / before.error if before is not None and before.error else None,
                value.f if value is not None else None,
                value.f / before.floor if value is not None and before is not None and before.floor else None,
            )
        )
    return curve


def is_chaotic(curve: list[StepGain]) -> bool:
    """True if the loop multiplies its own rounding noise so much that whole runs cannot be compared."""
    product = 1.0
    for step in curve:
        product *= step.floor_gain or step.gain or 1.0
    return product > CHAOTIC


def _states(a: Trace, b: Trace) -> list[tuple[Entry, Entry]]:
    found = []
    for step in a.steps:
        if step == NO_STEP:
            continue
        left = _state(a, step)
        right = _state(b, step)
        if left is not None and right is not None:
            found.append((left, right))
    return found


def _state(trace: Trace, step: str) -> Entry | None:
    for path in STATE:
        entry = trace.get(Key(step, path, "out", 0))
        if entry is not None:
            return entry
    return None


def _pair_error(a: Trace, left: Entry, b: Trace, right: Entry) -> float:
    if left.has_data and right.has_data:
        return errors(a.array(left), b.array(right))[0]
    return sketch_error(a.sketch(left), b.sketch(right), a.stats(left).l2)
