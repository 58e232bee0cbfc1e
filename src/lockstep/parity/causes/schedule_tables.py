"""Timesteps and sigmas as formulas: which choice of a schedule, made otherwise, gives the candidate's numbers.

Every table is what a few choices make it: the spacing, the rounding, an offset, the betas, a shift. Of the choices that
give the reference's numbers and those that give the candidate's, the two that differ least say what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..trace.container import Array

NEAR = 2e-6  # relative to the largest number: float32 arithmetic in another order
ROUND_TOKENS = 2e-3  # tokens: how near a length has to be to a whole number
TRAINED = 1000
LEAST_SHIFTED = 2  # numbers that a shift has to explain, unless it is one that somebody would write

Choices = dict[str, Any]  # setting -> what was chosen
_EXACT = {"rounding", "steps_offset", "timestep_spacing"}


@dataclass(frozen=True)
class TableCause:
    """One choice that was made otherwise."""

    name: str
    detail: str
    certain: bool  # no other choice gives these numbers, and they are more than the choice has freedom for


def table_causes(
    kind: str, mine: Array, theirs: Array, config: Mapping[str, Any], times: Array | None = None
) -> list[TableCause]:
    """What makes the reference's timesteps or sigmas the candidate's; `times` are the timesteps of both."""
    x, y = (np.asarray(table, np.float64).reshape(-1) for table in (mine, theirs))
    if x.size != y.size or x.size < 2 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return []
    tables = dict(_tables(kind, len(x), config, times))
    right = [(choices, shift) for choices, table in tables.items() for shift in _fits(table, x, kind)]
    wrong = [(choices, shift) for choices, table in tables.items() for shift in _fits(table, y, kind)]
    apart = [(_apart(dict(a), s, dict(b), t), (dict(a), s), (dict(b), t)) for a, s in right for b, t in wrong]
    fewest = min((len(keys) for keys, *_ in apart), default=0)
    if fewest != 1:
        return []
    found: dict[str, TableCause] = {}
    for (key,), (a, s), (b, t) in (entry for entry in apart if len(entry[0]) == 1):
        cause = _shift_cause(s, t, b, y, config, kind) if key == "shift" else _choice_cause(key, a[key], b[key], kind)
        if cause is not None and (cause.name not in found or cause.certain > found[cause.name].certain):
            found[cause.name] = cause
    return sorted(found.values(), key=lambda cause: not cause.certain)


def _apart(a: Choices, shift_a: float, b: Choices, shift_b: float) -> tuple[str, ...]:
    keys = [key for key in a if a[key] != b.get(key)]
    if "timestep_spacing" in keys and "steps_offset" in keys and not b["steps_offset"]:
        keys.remove("steps_offset")  # which goes with one of the spacings alone
    return (*keys, *(["shift"] if not math.isclose(shift_a, shift_b, rel_tol=1e-5) else []))


def _choice_cause(key: str, right: Any, wrong: Any, kind: str) -> TableCause:
    words = {
        "rounding": f"the {kind} are {wrong} instead of {right}",
        "timestep_spacing": f"the {kind} are spaced {wrong!r} instead of {right!r}",
        "steps_offset": f"every one of the {kind} is moved by {wrong:+d} instead of {right:+d}"
        if isinstance(wrong, int) and isinstance(right, int)
        else "",
        "beta_schedule": f"the betas are {wrong!r} instead of {right!r}",
        "spacing_of_sigmas": f"the sigmas are {wrong} instead of {right}",
        "final_sigmas_type": f"the last sigma is {wrong} instead of {right}",
    }[key]
    name = {"rounding": "timestep_dtype", "spacing_of_sigmas": "use_karras_sigmas"}.get(key, key)
    return TableCause(name, words, True)


# Tables


def _tables(kind: str, count: int, config: Mapping[str, Any], times: Array | None) -> Iterator[tuple[Any, Array]]:
    trained = int(config.get("num_train_timesteps") or TRAINED)
    if kind == "timesteps":
        for choices, table in _timesteps(count, trained):
            yield tuple(choices.items()), table
        return
    for choices, table in [*_flow_sigmas(count, trained, config), *_noise_sigmas(count, trained, config, times)]:
        yield tuple(choices.items()), table


def _spacings(count: int, trained: int) -> Iterator[tuple[str, Array]]:
    """Where the steps lie, before anything is rounded; descending."""
    yield "linspace", np.linspace(0, trained - 1, count)[::-1]
    yield "linspace without its last", np.linspace(0, trained - 1, count + 1)[::-1][:-1]
    yield "leading", (np.arange(count) * (trained // count))[::-1].astype(np.float64)
    yield "leading without its last", (np.arange(count + 1) * (trained // (count + 1)))[::-1][:-1].astype(np.float64)
    yield "trailing", np.arange(trained, 0, -trained / count)[:count] - 1
    yield "sigmas from 1 to 1/n", np.linspace(1, 1 / count, count) * trained
    yield "sigmas from 1 to 0", np.linspace(1, 0, count + 1)[:-1] * trained
    yield "sigmas from 1 to 1/1000", np.linspace(1, 1 / trained, count) * trained
    yield "sigmas from 1 to 0, with the end", np.linspace(1, 0, count) * trained


def _timesteps(count: int, trained: int) -> Iterator[tuple[Choices, Array]]:
    for spacing, table in _spacings(count, trained):
        for rounding, rounded in (("kept as they are", table), ("rounded", np.round(table)), ("cut", np.floor(table))):
            if rounding != "kept as they are" and np.array_equal(rounded, table):
                continue  # whole already: nothing was done to them
            for offset in (0, 1, -1):
                chosen = {"timestep_spacing": spacing, "rounding": rounding, "steps_offset": offset}
                yield chosen, rounded + offset


def _flow_sigmas(count: int, trained: int, config: Mapping[str, Any]) -> Iterator[tuple[Choices, Array]]:
    """With or without a last one that is zero."""
    for spacing, table in _flow_spacings(count, trained, config):
        yield {"timestep_spacing": spacing, "final_sigmas_type": "that of the last step"}, table
    for spacing, table in _flow_spacings(count - 1, trained, config) if count > 2 else ():
        yield {"timestep_spacing": spacing, "final_sigmas_type": "zero"}, np.append(table, 0.0)


def _flow_spacings(count: int, trained: int, config: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    for spacing, table in _spacings(count, trained):
        if spacing.startswith("sigmas"):
            yield spacing, table / trained
    if shift := config.get("shift"):  # as a scheduler has it whose smallest sigma is shifted twice
        last = float(shifted(np.array([1 / trained]), float(shift))[0])
        yield f"sigmas from 1 to {last:.4g}, which is 1/{trained} shifted", np.linspace(1, last, count)


def _betas(trained: int, config: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    start, end = float(config.get("beta_start") or 0.00085), float(config.get("beta_end") or 0.012)
    yield "scaled_linear", np.linspace(start**0.5, end**0.5, trained) ** 2
    yield "linear", np.linspace(start, end, trained)
    at = np.arange(trained + 1) / trained
    level = np.cos((at + 0.008) / 1.008 * np.pi / 2) ** 2
    yield "squaredcos_cap_v2", np.minimum(1 - level[1:] / level[:-1], 0.999)


def _noise_sigmas(
    count: int, trained: int, config: Mapping[str, Any], times: Array | None
) -> Iterator[tuple[Choices, Array]]:
    """sigma of the betas at the timesteps, or spaced anew between the first and the last."""
    if times is None or not 0 <= count - len(times) <= 1:
        return
    for betas, table in _betas(trained, config):
        kept = np.cumprod(1 - table)
        every = ((1 - kept) / kept) ** 0.5
        at = np.interp(np.asarray(times, np.float64), np.arange(trained), every)
        ends = {"zero": 0.0, "the smallest": every[0]} if count > len(times) else {"that of the last step": None}
        for spacing, sigmas in _spaced_anew(at):
            for end, last in ends.items():
                chosen = {"beta_schedule": betas, "spacing_of_sigmas": spacing, "final_sigmas_type": end}
                yield chosen, sigmas if last is None else np.append(sigmas, last)


def _spaced_anew(sigmas: Array) -> Iterator[tuple[str, Array]]:
    yield "those of the timesteps", sigmas
    first, last, count = sigmas[0], sigmas[-1], len(sigmas)
    if last > 0 and count > 2:
        ramp = np.linspace(0, 1, count)
        yield "spaced as Karras does (rho 7)", (first ** (1 / 7) + ramp * (last ** (1 / 7) - first ** (1 / 7))) ** 7
        yield "spaced evenly in their logarithm", np.exp(np.linspace(math.log(first), math.log(last), count))


# Shifts


def _fits(table: Array, numbers: Array, kind: str) -> Iterator[float]:
    """The shift with which a table gives the numbers; 1 for none."""
    scale = float(np.abs(table).max()) or 1.0
    if np.abs(table - numbers).max() <= NEAR * scale:
        yield 1.0
        return
    unit = TRAINED if kind == "timesteps" else 1.0
    s, t = table / unit, numbers / unit
    inside = (s > 0) & (s < 1) & (t > 0) & (t < 1)
    if not inside.any() or (s > 1).any() or (t > 1).any():
        return
    each = t[inside] * (1 - s[inside]) / (s[inside] * (1 - t[inside]))
    shift = float(np.median(each))
    if np.abs(shifted(s, shift) - t).max() <= 10 * NEAR:
        yield shift


def shifted(sigmas: Array, shift: float) -> Array:
    return shift * sigmas / (1 + (shift - 1) * sigmas)


def _shift_cause(
    right: float, wrong: float, choices: Choices, numbers: Array, config: Mapping[str, Any], kind: str
) -> TableCause | None:
    """A shift that is left out, that somebody wrote, or that belongs to an image of another size."""
    if choices.get("rounding", "kept as they are") != "kept as they are" or choices.get("steps_offset"):
        return None  # with so much freedom anything can be had
    if math.isclose(wrong, 1.0, rel_tol=1e-5):
        return TableCause("shift", f"the {kind} are not shifted, where the reference's are by {right:.4g}", True)
    if math.isclose(right, 1.0, rel_tol=1e-5):
        return TableCause("shift", f"the {kind} are shifted by {wrong:.4g}, where the reference's are not", True)
    twice = " (its square: done twice)" if math.isclose(wrong, right**2, rel_tol=1e-4) else ""
    words = f"the {kind} are shifted by {wrong:.5g}{twice} instead of {right:.5g}"
    tokens = [_tokens(shift, config) for shift in (right, wrong)]
    if tokens[0] is not None and tokens[1] is not None:
        told = f"{words} (mu {math.log(wrong):.4g} instead of {math.log(right):.4g}): as for {tokens[1]} tokens "
        return TableCause("shift", f"{told}instead of {tokens[0]}", True)
    written = math.isclose(wrong, float(f"{wrong:.3g}"), rel_tol=1e-5)
    many = int(((numbers > 0) & (numbers < numbers.max())).sum()) >= LEAST_SHIFTED
    return TableCause("shift", words, written or many)


def _tokens(shift: float, config: Mapping[str, Any]) -> int | None:
    """The number of image tokens that a dynamic shift is computed from, if it is a whole one."""
    low, high = config.get("base_image_seq_len"), config.get("max_image_seq_len")
    if not low or not high or shift <= 0:
        return None
    base, most = float(config.get("base_shift") or 0.5), float(config.get("max_shift") or 1.15)
    if most == base:
        return None
    tokens = low + (math.log(shift) - base) * (high - low) / (most - base)
    return round(tokens) if abs(tokens - round(tokens)) < max(ROUND_TOKENS, 1e-5 * abs(tokens)) else None
