"""How a loop mixes guidance's two branches, read from what the model is given next: a sum of the state, of what the
model gave and of what was drawn, whatever the solver is."""

from __future__ import annotations

import numpy as np

from ..trace.container import Array
from ..trace.names import NO_STEP
from ..trace.reader import Entry, Trace

LEAST = 32  # numbers of a state: fewer are any sum
FITS = 1e-3  # of the next state: what may be left of it
LEAST_SHARE = 1e-6  # of the next state: what the branches have to make of it


def mix_in_loop(trace: Trace, batch: tuple[str, str]) -> Array | None:
    """The shares of the first and of the second branch in what a step makes of them; None where it is no such sum."""
    calls = _calls(trace, batch[1])
    steps = [step for step, _, _ in calls]
    if batch[0] not in steps:
        return None
    here = steps.index(batch[0])
    target, until = _next_state(trace, calls, here)
    _, state, made = calls[here]
    if target is None or target.shape != _half(trace, made, 0).shape:
        return None
    basis = [_half(trace, made, 0), _half(trace, made, 1), _half(trace, state, 0)]
    for _, older_state, older in calls[max(here - 2, 0) : here]:  # of the steps before, where the solver remembers them
        basis += [_half(trace, older, 0), _half(trace, older, 1), _half(trace, older_state, 0)]
    drawn = [e for e in trace.entries if e.key.slot == "rng" and made.seq < e.seq < until and e.has_data]
    basis += [np.asarray(trace.array(e), np.float64).reshape(-1) for e in drawn]
    return _shares([values for values in basis if values.shape == target.shape], target)


def _shares(basis: list[Array], target: Array) -> Array | None:
    """The first two weights of the sum that is the target, as shares of both together."""
    if target.size < max(LEAST, 2 * len(basis)) or not all(np.isfinite(v).all() for v in [*basis, target]):
        return None
    norms = [max(float(np.linalg.norm(values)), 1e-30) for values in basis]
    columns = np.stack([values / norm for values, norm in zip(basis, norms, strict=True)], axis=1)
    weights = np.linalg.lstsq(columns, target, rcond=1e-7)[0]
    length = float(np.linalg.norm(target))
    if float(np.linalg.norm(columns @ weights - target)) > FITS * length:
        return None
    both = weights[:2] / np.asarray(norms[:2])
    small = float(np.abs(weights[:2]).max()) < LEAST_SHARE * length
    return None if small or abs(both.sum()) < 1e-3 * float(np.abs(both).max()) else np.asarray(both / both.sum())


def _calls(trace: Trace, model: str) -> list[tuple[str, Entry, Entry]]:
    """Each step of a model's loop with the state that goes in, which both branches are given alike, and what comes
    out."""
    states: dict[str, Entry] = {}
    results: dict[str, Entry] = {}
    for entry in trace.entries:
        key = entry.key
        if key.path != model or key.step == NO_STEP or not entry.has_data or not entry.is_float or not entry.shape:
            continue
        if entry.shape[0] == 0 or entry.shape[0] % 2 or np.prod(entry.shape) < 2 * LEAST:
            continue
        if not key.is_input:
            results.setdefault(key.step, entry)
        elif np.array_equal(_half(trace, entry, 0), _half(trace, entry, 1)):
            states.setdefault(key.step, entry)
    return [(step, states[step], made) for step, made in results.items() if step in states]


def _next_state(trace: Trace, calls: list[tuple[str, Entry, Entry]], here: int) -> tuple[Array | None, int]:
    """What the model is given in the next step, or what the run gives, and where in the trace that is."""
    if here + 1 < len(calls):
        state = calls[here + 1][1]
        return _half(trace, state, 0), state.seq
    ends = [e for e in trace.entries if e.key.path in ("@pipeline", "@result") and e.key.slot.startswith("out")]
    ends = [e for e in ends if e.has_data and not e.key.is_operation]
    return (np.asarray(trace.array(ends[-1]), np.float64).reshape(-1), ends[-1].seq) if ends else (None, 0)


def _half(trace: Trace, entry: Entry, which: int) -> Array:
    values = np.asarray(trace.array(entry), dtype=np.float64).reshape(2, -1)
    return np.asarray(values[which])
