"""A linear CountSketch of 256 numbers per tensor (Charikar, Chen, Farach-Colton 2002), numpy alone.

Linear: sketch(A) - sketch(B) = sketch(A - B), so two machines that never share a tensor still learn |A - B| to about
5 %. Sensitive to order: equal norms with unequal sketches are a permutation. `docs/trace-format.md` is the definition
in words; `sketch_torch.py` computes the same numbers faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH = 256  # buckets
TILE_ROWS = 16
TILE = TILE_ROWS * WIDTH  # elements that one fold takes to WIDTH coefficients
FOLD_FROM = 65536  # shorter tensors are bucketed element by element
FLOAT32_UP_TO = 2.0**100  # larger elements (masks) would overflow in a float32 sum
BLOCK = 1 << 18  # coefficients whose hashes are kept as one cached table

Array = NDArray[Any]


@dataclass(frozen=True)
class Stats:
    """Norm, moments and non-finite counts of one tensor (taken over its finite elements, in float64)."""

    n: int
    l2: float
    mean: float
    min: float
    max: float
    nan: int = 0
    inf: int = 0

    @property
    def rms(self) -> float:
        return self.l2 / self.n**0.5 if self.n else 0.0


def splitmix64(index: Array) -> Array:
    """The index-th output of SplitMix64 seeded with 0 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        z = (index.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=16)
def hash_block(number: int) -> tuple[Array, Array]:
    """Bucket (top 8 bits) and sign (lowest bit) of the coefficients number*BLOCK and following."""
    h = splitmix64(np.arange(number * BLOCK, (number + 1) * BLOCK, dtype=np.uint64))
    return (h >> np.uint64(56)).astype(np.int64), 1.0 - 2.0 * (h & np.uint64(1)).astype(np.float64)


@lru_cache(maxsize=1)
def tile_signs() -> Array:
    """Signs inside a tile (bit 32), shape (TILE_ROWS, WIDTH); row 0 is not used."""
    h = splitmix64(np.arange(TILE, dtype=np.uint64))
    return (1.0 - 2.0 * ((h >> np.uint64(32)) & np.uint64(1)).astype(np.float64)).reshape(TILE_ROWS, WIDTH)


def sketch(values: Array) -> Array:
    """CountSketch of the flattened tensor, float64[256]; non-finite elements count as 0."""
    return sketch_and_stats(values)[0]


_LARGEST = float(np.finfo(np.float64).max) / 4  # what an overflow is told as


def sketch_and_stats(values: Array) -> tuple[Array, Stats]:
    """Walks over the tensor in blocks, so that a mapped file is never held in memory whole."""
    flat = np.asarray(values).reshape(-1)
    if np.iscomplexobj(flat):
        flat = flat.view(flat.real.dtype)
    n = flat.size
    folded = n >= FOLD_FROM
    span = BLOCK * TILE_ROWS if folded else BLOCK
    starts = range(0, n, span)
    stats = _stats(flat, starts, span)
    work = fold_dtype(flat.dtype, max(abs(stats.min), abs(stats.max)))
    total = np.zeros(WIDTH)
    for number, start in enumerate(starts):
        part = flat[start : start + span].astype(work if folded else np.float64)
        if stats.nan or stats.inf:
            part[~np.isfinite(part)] = 0
        total += _bucket(_fold(part) if folded else part, number)
    return np.nan_to_num(total, posinf=_LARGEST, neginf=-_LARGEST), stats


def fold_dtype(dtype: Any, largest: float) -> Any:
    """Floats of up to 32 bits are folded in float32 (what is lost is 6e-8 of the norm), all else in float64."""
    small = np.dtype(dtype).kind == "f" and np.dtype(dtype).itemsize <= 4 and largest < FLOAT32_UP_TO
    return np.float32 if small else np.float64


def _stats(flat: Array, starts: range, span: int) -> Stats:
    squares = summed = 0.0
    low, high, nan, inf = np.inf, -np.inf, 0, 0
    for start in starts:
        part = flat[start : start + span].astype(np.float64)
        good = part[np.isfinite(part)]
        nan += int(np.isnan(part).sum())
        inf += int(np.isinf(part).sum())
        if good.size:
            low, high = min(low, float(good.min())), max(high, float(good.max()))
        with np.errstate(over="ignore"):
            squares += float(np.dot(good, good))
            summed += float(good.sum())
    if low > high:
        low = high = 0.0
    largest = max(abs(low), abs(high))
    norm = squares**0.5 if np.isfinite(squares) else min(largest * flat.size**0.5, _LARGEST)  # float64's own minimum
    mean = summed / flat.size if flat.size else 0.0
    return Stats(flat.size, norm, mean if np.isfinite(mean) else 0.0, low, high, nan, inf)


def _fold(part: Array) -> Array:
    """Every tile of 16 rows to one row: halves are added under signs, four times."""
    rows = np.pad(part, (0, -part.size % TILE)).reshape(-1, TILE_ROWS, WIDTH)
    signs = tile_signs().astype(part.dtype)
    half = TILE_ROWS // 2
    while half:
        rows = rows[:, :half] + signs[half : 2 * half] * rows[:, half:]
        half //= 2
    return rows.reshape(-1).astype(np.float64)


def _bucket(coefficients: Array, number: int) -> Array:
    bucket, sign = hash_block(number)
    count = coefficients.size
    return np.bincount(bucket[:count], sign[:count] * coefficients, WIDTH)


def relative_l2(reference: Array, candidate: Array) -> float:
    """|B - A| / |A| in float64; 0 for two zeros, infinity for something against zero."""
    a = np.asarray(reference, dtype=np.float64).reshape(-1)
    b = np.asarray(candidate, dtype=np.float64).reshape(-1)
    return ratio(float(np.linalg.norm(b - a)), float(np.linalg.norm(a)))


def sketch_error(a: Array, b: Array, reference_norm: float) -> float:
    """Estimate of |B - A| / |A| from two sketches and the true norm of A."""
    return ratio(float(np.linalg.norm(b - a)), reference_norm)


def ratio(difference: float, norm: float) -> float:
    if norm > 0:
        return difference / norm
    return 0.0 if difference == 0 else float("inf")
