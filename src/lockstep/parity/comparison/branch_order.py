"""Guidance's two branches in one batch, the one first here and the other first there: both are right, if what the
guidance makes of them is taken in that order, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from ..trace.container import Array
from ..trace.names import NO_STEP
from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch, sketch_error
from .align import Pair
from .loop_mix import mix_in_loop

SAME = 1e-2  # error up to which two values are the same for this question
NEXT = 1e-4  # error up to which the state of the next step is the same
MIXED = 1e-3  # error up to which a prediction is a sum of the two branches

Batch = tuple[str, str]  # a step, and the model that is called in it


def turned(values: Array) -> Array:
    """The second half of the rows first."""
    return np.roll(values, values.shape[0] // 2, axis=0)


def has_halves(pair: Pair) -> bool:
    same = pair.a.shape == pair.b.shape and not pair.rows_a and not pair.rows_b
    return same and bool(pair.a.shape) and pair.a.shape[0] > 0 and pair.a.shape[0] % 2 == 0


def exchanged_batches(a: Trace, b: Trace, pairs: Iterable[Pair], known: bool = False) -> set[Batch]:
    """Calls of models whose batches are those of the reference with their halves exchanged, up to the guidance.

    `known`: that the guidance takes them so was seen elsewhere, and need not be seen in these traces.
    """
    by_batch: dict[Batch, list[Pair]] = defaultdict(list)
    steps: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        key = pair.a.key
        if key.step == NO_STEP or key.is_operation or not pair.a.is_float or not pair.b.is_float:
            continue
        if key.path.startswith("@") and key.is_input and key.path.endswith(".step"):
            steps[key.step].append(pair)
        elif not key.path.startswith("@") and "." not in key.path:
            by_batch[key.step, key.path].append(pair)
    found = {batch for batch, values in by_batch.items() if _is_exchanged(a, b, values)}
    if known or not found:
        return found
    answers = [_agrees(a, b, by_batch, batch, steps[batch[0]]) for batch in found]
    return found if any(answers) and False not in answers else set()


def _is_exchanged(a: Trace, b: Trace, pairs: list[Pair]) -> bool:
    """True if what goes in is the reference's the other way round, and nothing of it is so as it stands."""
    given = [p for p in pairs if p.a.key.is_input and has_halves(p) and p.b.has_data]
    found = False
    for pair in given:
        plain, other = errors_of_both(a, b, pair)
        if plain < other and other > SAME:
            return False
        found = found or (plain > SAME >= other)
    return found


def errors_of_both(a: Trace, b: Trace, pair: Pair) -> tuple[float, float]:
    """How far the candidate's value is from the reference's as it stands, and with its halves exchanged."""
    values, norm = b.array(pair.b), a.stats(pair.a).l2
    plain, other = (sketch_error(a.sketch(pair.a), sketch(one), norm) for one in (values, turned(values)))
    return plain, other


def _agrees(a: Trace, b: Trace, by_batch: dict[Batch, list[Pair]], batch: Batch, steps: list[Pair]) -> bool | None:
    """Whether the guidance takes the branches in the order that they have; None where nothing tells."""
    if steps:
        return _guidance_agrees(a, b, by_batch[batch], steps)
    other = by_batch[batch][0].b.key
    mine, theirs = mix_in_loop(a, batch), mix_in_loop(b, (other.step, other.path))
    if mine is not None and theirs is not None:  # whatever else is wrong with the step
        return float(np.abs(theirs - mine[::-1]).max()) < float(np.abs(theirs - mine).max())
    return _next_state_agrees(a, b, by_batch, batch)


def _guidance_agrees(a: Trace, b: Trace, pairs: list[Pair], steps: list[Pair]) -> bool | None:
    """Whether either side mixes the two branches by the order that it has; None where nothing tells."""
    made = next((p for p in pairs if not p.a.key.is_input and has_halves(p)), None)
    for pair in steps if made is not None else []:
        assert made is not None
        mine, theirs = _mix(a, made.a, pair.a), _mix(b, made.b, pair.b)
        if mine is not None and theirs is not None:
            return float(np.abs(theirs - mine[::-1]).max()) < float(np.abs(theirs - mine).max())
    if not steps:
        return None
    return all(sketch_error(a.sketch(p.a), b.sketch(p.b), a.stats(p.a).l2) <= SAME for p in steps)


def _next_state_agrees(a: Trace, b: Trace, by_batch: dict[Batch, list[Pair]], batch: Batch) -> bool | None:
    """Without a scheduler: whether the model is given the right state in the next step, made of what it gave in this
    one; None where there is none."""
    calls = [other for other in by_batch if other[1] == batch[1]]
    behind = calls[calls.index(batch) + 1 :]
    states = {pair.a.key.slot for pair in by_batch[batch] if _is_state(a, b, pair)}
    errors = [
        errors_of_both(a, b, pair)[0]
        for pair in (by_batch[behind[0]] if behind else [])
        if pair.a.key.slot in states and pair.b.has_data
    ]
    return all(error <= NEXT for error in errors) if errors else None


def _is_state(a: Trace, b: Trace, pair: Pair) -> bool:
    """True for what both branches are given alike."""
    whole = pair.a.key.is_input and has_halves(pair) and pair.b.has_data and np.prod(pair.a.shape[1:]) > 1
    return bool(whole) and max(errors_of_both(a, b, pair)) <= SAME


def _mix(trace: Trace, made: Entry, prediction: Entry) -> Array | None:
    """The weights with which a prediction is the sum of the two halves of what the model gave, if it is one."""
    if not (made.has_data and prediction.has_data):
        return None
    halves = np.asarray(trace.array(made), dtype=np.float64).reshape(2, -1)
    wanted = np.asarray(trace.array(prediction), dtype=np.float64).reshape(-1)
    if halves.shape[1] != wanted.size or not (np.isfinite(halves).all() and np.isfinite(wanted).all()):
        return None
    weights = np.linalg.lstsq(halves.T, wanted, rcond=None)[0]
    rest = float(np.linalg.norm(weights @ halves - wanted))
    return np.asarray(weights) if rest <= MIXED * float(np.linalg.norm(wanted)) else None
