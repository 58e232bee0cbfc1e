"""Noise has no structure, bugs do: tests on the difference of two tensors, and what sketches alone can tell."""

from __future__ import annotations

import math

import numpy as np

from ..trace.container import Array
from .results import AxisEnergy, Structure

MAX_ELEMENTS = 1 << 22  # the tests look at a slice of larger tensors
MAX_BINS = 64


def from_sketches(a: Array, b: Array, norm_a: float, norm_b: float) -> Structure:
    """Cosine between d and A, and whether the norms agree; each is good to about 6 %."""
    d = b - a
    length = float(np.linalg.norm(d) * np.linalg.norm(a))
    aligned = float(d @ a) / length if length > 0 else None
    error = float(np.linalg.norm(d)) / norm_a if norm_a > 0 else math.inf
    equal = norm_a > 0 and abs(norm_b - norm_a) <= 0.01 * error * norm_a
    return Structure(aligned=aligned, norms_equal=bool(equal))


def from_arrays(a: Array, b: Array) -> Structure:
    """Every test; both tensors of the same shape."""
    low_bits = (low_bits_zero(a), low_bits_zero(b))
    a, b = _bounded(a), _bounded(b)
    d = b - a
    n = d.size
    spread, mean = float(d.std()), float(d.mean())
    result = Structure(low_bits_zero=low_bits)
    result.bias = abs(mean) * math.sqrt(n) / spread if spread > 0 else (math.inf if mean else 0.0)
    result.gain, result.offset, result.affine_r2 = affine_fit(a, b)
    result.aligned = _cosine(a, d)
    norm_a, norm_b = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    error = float(np.linalg.norm(d))
    result.norms_equal = bool(error > 0 and abs(norm_a - norm_b) <= 0.01 * error)
    result.transform, result.transform_r2 = best_transform(a, b)
    result.axes = [axis_energy(d, axis) for axis in range(d.ndim) if d.shape[axis] > 1]
    result.first_position_exact = _first_position_exact(a, d)
    return result


def _bounded(values: Array) -> Array:
    """float64, finite, and not too large: rows of the first axis are left out if need be."""
    values = np.asarray(values)
    if values.size > MAX_ELEMENTS and values.ndim and values.shape[0] > 1:
        values = values[: max(1, values.shape[0] * MAX_ELEMENTS // values.size)]
    return np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def affine_fit(a: Array, b: Array) -> tuple[float, float, float]:
    """a, b of the least-squares B = a A + b, and the share of |B - A|^2 that it explains."""
    x, y = a.reshape(-1), b.reshape(-1)
    variance = float(x.var())
    gain = float(((x - x.mean()) * (y - y.mean())).mean()) / variance if variance > 0 else 1.0
    offset = float(y.mean() - gain * x.mean())
    before = float(((y - x) ** 2).sum())
    after = float(((y - gain * x - offset) ** 2).sum())
    return gain, offset, (1 - after / before if before > 0 else 0.0)


def _cosine(a: Array, d: Array) -> float | None:
    length = float(np.linalg.norm(a) * np.linalg.norm(d))
    return float(np.vdot(a, d)) / length if length > 0 else None


def candidate_transforms(a: Array) -> list[tuple[str, Array]]:
    """Rearrangements that ports get wrong: rolled by one, reversed, halves swapped, interleaved, per axis."""
    found: list[tuple[str, Array]] = []
    for axis, size in enumerate(a.shape):
        if size < 2:
            continue
        found += [(f"roll:{axis}:{k}", np.roll(a, k, axis)) for k in (1, -1)]
        found.append((f"flip:{axis}", np.flip(a, axis)))
        if size % 2 == 0:
            found.append((f"halfswap:{axis}", np.roll(a, size // 2, axis)))
            even, odd = np.take(a, range(0, size, 2), axis), np.take(a, range(1, size, 2), axis)
            found.append((f"deinterleave:{axis}", np.concatenate([even, odd], axis)))
    for first in range(a.ndim):
        for second in range(first + 1, a.ndim):
            if a.shape[first] == a.shape[second] > 1:
                found.append((f"transpose:{first}:{second}", np.swapaxes(a, first, second)))
    return found


def best_transform(a: Array, b: Array) -> tuple[str | None, float | None]:
    """The rearrangement of A that is closest to B, and the share of |B - A|^2 that it explains."""
    before = float(((b - a) ** 2).sum())
    if before == 0 or a.ndim == 0:
        return None, None
    best, share = None, 0.0
    for name, moved in candidate_transforms(a):
        explained = 1 - float(((b - moved) ** 2).sum()) / before
        if explained > share:
            best, share = name, explained
    return best, (share if best else None)


def axis_energy(d: Array, axis: int) -> AxisEnergy:
    """Where along one axis the squared error lies."""
    energy = (d**2).sum(axis=tuple(i for i in range(d.ndim) if i != axis))
    total = float(energy.sum())
    share = energy / total if total > 0 else np.full(energy.size, 1 / energy.size)
    bins = [float(part.sum()) for part in np.array_split(share, min(MAX_BINS, share.size))]
    return AxisEnergy(axis, d.shape[axis], float((share**2).sum() * share.size), int(share.argmax()), bins)


def _first_position_exact(a: Array, d: Array) -> int | None:
    """The axis along which index 0 is exact and the rest is not: positions, rotary embeddings, causal masks."""
    scale = float(np.abs(a).mean())
    for axis in range(1, d.ndim):
        if d.shape[axis] < 4:
            continue
        first = float(np.abs(np.take(d, 0, axis)).mean())
        rest = float(np.abs(d).mean())
        if rest > 1e-6 * scale and first < 1e-3 * rest:
            return axis
    return None


def low_bits_zero(values: Array) -> float:
    """Share of non-zero elements whose 16 low mantissa bits are zero: 0 for float32, 1 for what passed bfloat16."""
    flat = np.asarray(values).reshape(-1)[: 1 << 20]
    if flat.dtype != np.float32:
        flat = flat.astype(np.float32)
    flat = flat[flat != 0]
    if flat.size == 0:
        return 0.0
    return float(((np.ascontiguousarray(flat).view(np.uint32) & 0xFFFF) == 0).mean())
