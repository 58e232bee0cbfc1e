"""Hypotheses that need nothing but the two recorded tensors (numpy alone)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..comparison.structure import affine_fit, candidate_transforms
from ..trace.container import Array
from ..trace.sketch import relative_l2

MAX_ELEMENTS = 1 << 22
MAX_SLICES = 4096
DRAWN = 16  # numbers that a generator makes at once
LEAST = 4  # fewer numbers than this can be fitted by anything


@dataclass
class ValueFinding:
    """One hypothesis about two tensors: what the candidate's value is, and what is left of the error."""

    name: str
    detail: str
    residual: float
    rank: int = 5
    proof: str = ""  # where the proof is something else than a residual
    repair: str = ""  # what to change, where that is more than the opposite


def value_findings(a: Array, b: Array) -> list[ValueFinding]:
    """Every hypothesis about B as a function of A, with its residual."""
    if a.size != b.size or a.size < LEAST or a.size > MAX_ELEMENTS or a.dtype.kind == "c":
        return []
    b = b.reshape(a.shape)
    x, y = np.nan_to_num(a.astype(np.float64)), np.nan_to_num(b.astype(np.float64))
    found: list[ValueFinding] = []
    with np.errstate(over="ignore", invalid="ignore"):  # values at the end of the range are hypotheses like any other
        for make in _TESTS:
            found += list(make(x, y))
    return found


def _rounded_bf16(x: Array) -> Array:
    bits = x.astype(np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


def _roundings(x: Array, y: Array) -> Iterator[ValueFinding]:
    with np.errstate(over="ignore"):
        half = x.astype(np.float16).astype(np.float64)
    for words, moved in (("bfloat16", _rounded_bf16(x)), ("float16", half)):
        if np.array_equal(moved, y):
            yield ValueFinding("precision", f"the value is the reference's rounded to {words}, bit for bit", 0.0, 0)
        back = _rounded_bf16(y) if words == "bfloat16" else y
        if not np.array_equal(y, back) and np.array_equal(x, back):
            yield ValueFinding(
                "precision", f"the reference's value is the candidate's rounded to {words}, bit for bit", 0.0, 0
            )


def _rearranged(x: Array, y: Array) -> Iterator[ValueFinding]:
    for name, moved in candidate_transforms(x):
        kind, *where = name.split(":")
        words = {
            "roll": "shifted by {1} along axis {0}",
            "flip": "reversed along axis {0}",
            "halfswap": "with its halves swapped along axis {0}",
            "deinterleave": "with even elements first along axis {0}",
            "transpose": "with axes {0} and {1} swapped",
        }[kind].format(*where)
        cause = {
            "roll": "shifted",
            "flip": "reversed",
            "halfswap": "half_swap",
            "deinterleave": "interleave",
            "transpose": "axes_swapped",
        }[kind]
        if kind == "flip" and x.ndim == 4 and where == ["1"] and x.shape[1] == 3:
            words += " (its three channels in the other order: BGR for RGB)"
        yield ValueFinding(cause, f"the value is the reference's {words}", relative_l2(x, x + (y - moved)), 2)


def _scaled(x: Array, y: Array) -> Iterator[ValueFinding]:
    gain = float(np.vdot(x, y) / np.vdot(x, x)) if np.any(x) else 1.0
    yield ValueFinding("scale", f"the value is {gain:.6g} times the reference's", relative_l2(x, x + (y - gain * x)), 3)
    a, b, _ = affine_fit(x, y)
    yield ValueFinding(
        "affine", f"the value is {a:.6g} times the reference's plus {b:.6g}", relative_l2(x, x + (y - a * x - b)), 4
    )
    if x.ndim and x.size > 1:
        shift = float((y - x).mean())
        yield ValueFinding(
            "offset", f"the value is the reference's plus {shift:.6g}", relative_l2(x, x + (y - x - shift)), 3
        )


def _ranges(x: Array, y: Array) -> Iterator[ValueFinding]:
    for words, moved in (
        ("(x + 1) / 2", (x + 1) / 2),
        ("2 x - 1", 2 * x - 1),
        ("255 x", 255 * x),
        ("x / 255", x / 255),
        ("127.5 (x + 1)", 127.5 * (x + 1)),
    ):
        yield ValueFinding(
            "value_range", f"the value is {words} of the reference's", relative_l2(x, x + (y - moved)), 1
        )
        if "+ 1) / 2" in words:
            yield ValueFinding(
                "value_range",
                f"the value is clip({words}) of the reference's",
                relative_l2(x, x + (y - moved.clip(0, 1))),
                1,
            )


def _permuted(x: Array, y: Array) -> Iterator[ValueFinding]:
    """Any permutation along one axis, found by matching slices."""
    for axis, size in enumerate(x.shape):
        if not 2 < size <= MAX_SLICES or x.size // size < 2:
            continue
        left = np.moveaxis(x, axis, 0).reshape(size, -1)
        right = np.moveaxis(y, axis, 0).reshape(size, -1)
        distance = (right**2).sum(1)[:, None] + (left**2).sum(1)[None] - 2 * right @ left.T
        order = distance.argmin(1)
        if len(set(order.tolist())) == size and not np.array_equal(order, np.arange(size)):
            residual = relative_l2(x, x + (y - np.take(x, order, axis)))
            words = _order_words(order)
            name = "channel_order" if size <= 4 else "permutation"
            yield ValueFinding(name, f"the value is the reference's with axis {axis} in the order {words}", residual, 3)


def _order_words(order: Array) -> str:
    shown = ", ".join(str(i) for i in order[:8])
    return shown + (", …" if order.size > 8 else "")


def _offsets(x: Array, y: Array) -> Iterator[ValueFinding]:
    """A difference that depends on one axis alone: a bias that is missing or added."""
    d = y - x
    for axis in range(x.ndim):
        if x.shape[axis] < 2 or x.size // x.shape[axis] < 2:
            continue
        others = tuple(i for i in range(x.ndim) if i != axis)
        vector = d.mean(axis=others, keepdims=True)
        yield ValueFinding(
            "missing_bias",
            f"a vector along axis {axis} (norm {float(np.linalg.norm(vector)):.3g}) is added or missing",
            relative_l2(x, x + (d - vector)),
            4,
        )


def _clipped(x: Array, y: Array) -> Iterator[ValueFinding]:
    low, high = float(y.min()), float(y.max())
    if low > float(x.min()) or high < float(x.max()):
        yield ValueFinding(
            "clamp",
            f"the value is the reference's clipped to [{low:.4g}, {high:.4g}]",
            relative_l2(x, x + (y - x.clip(low, high))),
            3,
        )


def _dropped(x: Array, y: Array) -> Iterator[ValueFinding]:
    """Some elements are zero: scattered and the others larger by a dropout that was left on, or whole slices."""
    gone = (y == 0) & (x != 0)
    share = float(gone.mean())
    if not 0 < share < 0.95 or not np.any(x[~gone]):
        return
    kept = np.where(gone, 0.0, x)
    for axis in range(x.ndim):
        whole = gone.all(axis=tuple(other for other in range(x.ndim) if other != axis))
        if x.ndim > 1 and whole.sum() * (x.size // x.shape[axis]) == gone.sum():
            places = _order_words(np.flatnonzero(whole))
            words = f"the value is the reference's with zeros at {places} of axis {axis}"
            yield ValueFinding("zeros", words, relative_l2(x, x + (y - kept)), 1)
    gain = float(np.vdot(kept, y) / np.vdot(kept, kept))
    larger = 1 / (1 - share)
    if share > 0.005 and abs(gain - larger) < 0.1 * gain and gain > (1 + larger) / 2:
        words = f"{share:.1%} of the elements are zero and the others {gain:.4g} times the reference's: a dropout"
        yield ValueFinding("dropout", words, relative_l2(x, x + (y - gain * kept)), 1)


def _patches(x: Array, y: Array) -> Iterator[ValueFinding]:
    """Each value repeated over a patch."""
    if y.ndim < 2 or y.shape[-2] != y.shape[-1]:
        return
    for p in (2, 4):
        if y.shape[-1] % p == 0 and y.shape[-1] > p:
            coarse = x[..., ::p, ::p].repeat(p, -2).repeat(p, -1)
            words = f"the value is the reference's with one number per patch of {p} x {p}"
            yield ValueFinding("patch_noise", words, relative_l2(x, x + (y - coarse)), 2)


def _patch_by_patch(x: Array, y: Array) -> Iterator[ValueFinding]:
    """The same numbers, those of a patch behind each other; or the other way round."""
    for p in (2, 4):
        if x.ndim < 2 or x.shape[-2] % p or x.shape[-1] % p or p == x.shape[-1]:
            continue
        lead, (rows, columns) = x.shape[:-2], (x.shape[-2] // p, x.shape[-1] // p)
        laid = x.reshape(*lead, rows, columns, p, p).swapaxes(-3, -2).reshape(x.shape)
        taken = x.reshape(*lead, rows, p, columns, p).swapaxes(-3, -2).reshape(x.shape)
        for words, moved in (("laid out patch by patch", laid), ("read patch by patch", taken)):
            detail = f"the value has the reference's numbers {words} ({p} x {p})"
            yield ValueFinding("patch_noise", detail, relative_l2(x, x + (y - moved)), 1)


def _another_order(x: Array, y: Array) -> Iterator[ValueFinding]:
    """The same numbers, whatever their order."""
    if len(np.unique(x)) > LEAST and np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None)):
        words, proof = "the value has the reference's numbers in another order", "sorted, both are equal bit for bit"
        yield ValueFinding("permutation", words, 0.0, 4, proof)


_TESTS = (
    _roundings, _rearranged, _scaled, _permuted, _offsets, _clipped, _ranges, _patches, _dropped, _patch_by_patch,
    _another_order,
)  # fmt: skip


def draw_findings(a: Array, b: Array, later: list[Array]) -> list[ValueFinding]:
    """Random draws: rounded, repeated over patches, moved in the stream, or another stream."""
    found = [
        f
        for f in value_findings(a, b)
        if f.name in ("precision", "scale", "permutation", "half_swap", "axes_swapped", "shifted", "patch_noise")
    ]
    x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    shared = min(x.size, y.size) // DRAWN * DRAWN
    if x.size != y.size and shared and np.array_equal(x[:shared], y[:shared]):
        words = f"{y.size} numbers are drawn instead of {x.size}: {b.shape} and {a.shape}"
        return [ValueFinding("patch_noise", words, 0.0, 0, f"the first {shared} of them are the same")]
    if x.size != y.size or x.size < 8:
        return found
    if a.shape != b.shape and np.array_equal(x, y):
        words = f"drawn in blocks of {b.shape[-1]} instead of blocks of {a.shape[-1]}: {b.shape} and {a.shape}"
        if sorted(a.shape) == sorted(b.shape):
            words = f"the same stream drawn in another layout: as {list(b.shape)} instead of {list(a.shape)}"
        return [ValueFinding("patch_noise", words, 0.0, 0, "the numbers are the same, one by one")]
    found += _drawn_row_by_row(a, b)
    for number, other in enumerate(later, 1):
        if other.size == y.size and np.array_equal(other.astype(np.float64).reshape(-1), y):
            found.append(
                ValueFinding(
                    "random_offset",
                    f"the draw is the reference's draw {number} later: {number} draws too many before it",
                    0.0,
                    0,
                )
            )
    for first, second, words in ((x, y, "ahead of"), (y, x, "behind")):
        offset = _find(first, second[:8])
        if offset:
            rest = float(np.linalg.norm(first[offset:] - second[: x.size - offset]) / np.linalg.norm(x))
            found.append(
                ValueFinding("random_offset", f"the same stream, {offset} values {words} the reference", rest, 0)
            )
    lag = _repeats(b)
    if lag and not _repeats(a):
        found.append(ValueFinding("patch_noise", f"the draw repeats each value over {lag} neighbours", 0.0, 1))
    correlation = float(np.corrcoef(x, y)[0, 1])
    alike = abs(x.std() - y.std()) < 5 * x.std() / math.sqrt(x.size) and abs(
        x.mean() - y.mean()
    ) < 8 * x.std() / math.sqrt(x.size)
    if abs(correlation) < 5 / math.sqrt(x.size) and alike:
        proof = f"equal moments, correlation {correlation:.3f} where chance gives up to {5 / math.sqrt(x.size):.3f}"
        found.append(ValueFinding("random_stream", "another stream of the same distribution was drawn", 0.0, 2, proof))
    return found


def _drawn_row_by_row(a: Array, b: Array) -> Iterator[ValueFinding]:
    """Some rows are the reference's to the last bit, and the others have nothing to do with it."""
    if a.shape != b.shape or a.ndim < 2 or a.shape[0] < 2 or a[0].size < 8:
        return
    x, y = (values.astype(np.float64).reshape(a.shape[0], -1) for values in (a, b))
    equal = (x == y).all(1)
    rest = [abs(float(np.corrcoef(x[i], y[i])[0, 1])) for i in np.flatnonzero(~equal)]
    if equal[0] and rest and max(rest) < 5 / math.sqrt(x.shape[1]):
        shown = [", ".join(map(str, np.flatnonzero(rows).tolist()[:6])) for rows in (equal, ~equal)]
        words = f"rows {shown[0]} of the draw are the reference's and rows {shown[1]} are of another stream"
        proof = (
            "equal to the last bit there, unrelated here: a generator (or a seed) for each row instead of one for all"
        )
        yield ValueFinding("random_stream", words, 0.0, 0, proof)


def _find(stream: Array, first: Array) -> int | None:
    for start in np.flatnonzero(stream[1 : stream.size - first.size] == first[0]) + 1:
        if np.array_equal(stream[start : start + first.size], first):
            return int(start)
    return None


def _repeats(values: Array) -> int:
    """p if neighbours along the last axis are equal in runs of p."""
    for p in (4, 2):
        if values.ndim and values.shape[-1] % p == 0 and values.shape[-1] > p:
            groups = values.reshape(*values.shape[:-1], -1, p)
            if np.array_equal(groups, np.broadcast_to(groups[..., :1], groups.shape)):
                return p
    return 0


def schedule_findings(name: str, a: Array, b: Array) -> list[ValueFinding]:
    """Timesteps and sigmas: moved, rounded, spaced otherwise, other ends."""
    x, y = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    found: list[ValueFinding] = []
    if x.size != y.size:
        return found
    difference = y - x
    for words, moved in (
        ("cut to integers", np.trunc(x)),
        ("rounded to integers", np.round(x)),
        ("rounded to bfloat16", _rounded_bf16(x)),
    ):
        # numbers that were whole before prove nothing: only the last sigma may have become 0
        if np.array_equal(moved, y) and 2 * np.count_nonzero(moved != x) >= x.size and "timestep" in name:
            found.append(ValueFinding("timestep_dtype", f"{name} is the reference's {words}", 0.0, 0))
    if np.ptp(difference) == 0 and not (found and x.size == 1):  # one number that was rounded has moved, too
        found.append(ValueFinding("timestep_offset", f"every value of {name} is {difference[0]:+g}", 0.0, 0))
    if np.array_equal(x[::-1], y):
        found.append(ValueFinding("schedule_reversed", f"{name} runs in the other direction", 0.0, 0))
    for k in (1, -1):
        if x.size > 3 and np.allclose(
            x[max(0, k) : x.size + min(0, k)], y[max(0, -k) : y.size + min(0, -k)], rtol=1e-6
        ):
            found.append(ValueFinding("schedule_shift", f"{name} is the reference's moved by {k} places", 0.0, 1))
    wrong = np.flatnonzero(~np.isclose(x, y, rtol=1e-6))
    if x.size > 3 and wrong.size == 1 and int(wrong[0]) in (0, x.size - 1):
        found.append(
            ValueFinding(
                "schedule_end",
                f"only the {'first' if not wrong[0] else 'last'} of {name} differs: {y[wrong[0]]:.5g} instead of "
                f"{x[wrong[0]]:.5g}",
                0.0,
                1,
            )
        )
    steps_x, steps_y = np.diff(x), np.diff(y)
    if not found and x.size > 2:
        even = [bool(np.ptp(s) <= 1.001) for s in (steps_x, steps_y)]
        words = (
            f"other steps: {name}: {steps_x[0]:.4g} … {steps_x[-1]:.4g} in the reference, "
            f"{steps_y[0]:.4g} … {steps_y[-1]:.4g} in the candidate"
        )
        found.append(ValueFinding("timestep_spacing", words + (", both even" if all(even) else ""), 0.0, 2))
    return found


def combination(value: Array, sources: list[Array]) -> tuple[list[float], float]:
    """Coefficients of the least-squares value = sum c_i source_i, and the relative residual."""
    columns = np.stack([s.astype(np.float64).reshape(-1) for s in sources], 1)
    target = value.astype(np.float64).reshape(-1)
    coefficients, *_ = np.linalg.lstsq(columns, target, rcond=None)
    return [float(c) for c in coefficients], relative_l2(target, columns @ coefficients)


def loop_part(mine: list[float], theirs: list[float]) -> ValueFinding | None:
    """A loop that is a part of the other one: it begins later, ends earlier, or makes steps that the other does not."""
    if not mine or not theirs or len(mine) == len(theirs):
        return None
    short, long = sorted((mine, theirs), key=len)
    begin = next((i for i in range(len(long) - len(short) + 1) if long[i : i + len(short)] == short), None)
    if begin is None:
        return None
    count = f"{len(theirs)} steps instead of {len(mine)}"
    missing = len(long) - len(short)
    where = "at its begin" if begin == missing else "at its end" if begin == 0 else "around it"
    which = f"{', '.join(f'{t:g}' for t in [*long[:begin], *long[begin + len(short) :]][:4])}"
    many = missing > 1
    words = f"the candidate's loop makes {count}: the timestep{'s' * many} {which} {where} {'are' if many else 'is'} "
    words += "left out" if short is theirs else "too many"
    return ValueFinding("step_count", words, 0.0, 0, "all others are the same")
