"""The sketch of `sketch.py` on torch tensors, to the bit: one walk in cache-sized pieces, no copy of the tensor."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from ..trace import sketch as reference
from ..trace.sketch import BLOCK, FLOAT32_UP_TO, FOLD_FROM, TILE, TILE_ROWS, WIDTH, Stats

_PIECE = 512 * TILE  # elements: large enough that calls cost nothing and threads share one, small enough for the caches
_SMALL_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


@lru_cache(maxsize=16)
def _hash_block(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    bucket, sign = reference.hash_block(number)
    return torch.from_numpy(bucket), torch.from_numpy(sign)


@lru_cache(maxsize=2)
def _tile_signs(dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(reference.tile_signs()).to(dtype)


class _Scratch(threading.local):
    """Memory of one thread, kept between calls: fresh pages cost more than the arithmetic."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, torch.dtype], torch.Tensor] = {}

    def __call__(self, use: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        if (use, dtype) not in self._kept:
            self._kept[use, dtype] = torch.empty(*shape, dtype=dtype)
        return self._kept[use, dtype]


@dataclass
class _Moments:
    """Running statistics of a part of a tensor."""

    squares: float = 0.0
    summed: float = 0.0
    low: float = float("inf")
    high: float = -float("inf")
    tame: bool = True  # everything finite and small enough for float32 sums

    @classmethod
    def of(cls, extremes: list[Any], sums: list[torch.Tensor], squares: list[torch.Tensor]) -> _Moments:
        """From what was found piece by piece; numbers are taken out of tensors once, as each costs microseconds."""
        low = float(torch.stack([e.min for e in extremes]).min())
        high = float(torch.stack([e.max for e in extremes]).max())
        if not max(abs(low), abs(high)) < FLOAT32_UP_TO:  # also where one of them is NaN
            return cls(tame=False)
        return cls(float(torch.stack(squares).sum()), float(torch.stack(sums).double().sum()), low, high)

    def join(self, other: _Moments) -> None:
        self.squares, self.summed = self.squares + other.squares, self.summed + other.summed
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.tame &= other.tame


class Sketcher:
    """Holds its scratch memory (a few MB per thread), so that sketching allocates next to nothing."""

    def __init__(self) -> None:
        self._scratch = _Scratch()

    def __call__(self, tensor: torch.Tensor) -> tuple[np.ndarray, Stats]:
        """Sketch (equal to numpy's to the last bit) and statistics (to about 1e-7)."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            flat = _flatten(tensor)
            if flat.numel() == 0:
                return np.zeros(WIDTH), Stats(0, 0.0, 0.0, 0.0, 0.0)
            total = torch.zeros(WIDTH, dtype=torch.float64)
            moments = _Moments()
            if flat.numel() < FOLD_FROM:
                self._short(flat, total, moments)
            else:
                self._long(flat, total, moments)
            if not moments.tame:  # masks and what is not finite: rare, so the slow and obvious way
                return reference.sketch_and_stats(_to_numpy(flat))
        n = flat.numel()
        return total.numpy(), Stats(n, moments.squares**0.5, moments.summed / n, moments.low, moments.high)

    def _short(self, flat: torch.Tensor, total: torch.Tensor, moments: _Moments) -> None:
        values = self._scratch("block", torch.float64, BLOCK)[: flat.numel()].copy_(flat)
        moments.join(_Moments.of([torch.aminmax(values)], [values.sum()], [_squares(values)]))
        if moments.tame:
            _bucket(total, values, 0)

    def _long(self, flat: torch.Tensor, total: torch.Tensor, moments: _Moments) -> None:
        work = torch.float32 if flat.dtype in _SMALL_FLOATS else torch.float64
        for number, start in enumerate(range(0, flat.numel(), BLOCK * TILE_ROWS)):
            part = flat[start : start + BLOCK * TILE_ROWS]
            tiles = -(-part.numel() // TILE)
            folded = self._scratch("folded", work, BLOCK // WIDTH, 1, WIDTH)[:tiles]
            moments.join(self._pieces(part, folded))
            if not moments.tame:
                return
            block = self._scratch("block", torch.float64, BLOCK)[: tiles * WIDTH]
            _bucket(total, block.copy_(folded.view(-1)), number)

    def _pieces(self, part: torch.Tensor, folded: torch.Tensor) -> _Moments:
        """Statistics and folding, piece by piece."""
        extremes, sums, squares = [], [], []
        for start in range(0, part.numel(), _PIECE):
            piece = part[start : start + _PIECE]
            if piece.dtype is not folded.dtype:
                piece = self._scratch("converted", folded.dtype, _PIECE)[: piece.numel()].copy_(piece)
            extremes.append(torch.aminmax(piece))
            sums.append(piece.sum())
            squares.append(_squares(piece))
            self._fold(piece, folded[start // TILE :])
        return _Moments.of(extremes, sums, squares)

    def _fold(self, piece: torch.Tensor, out: torch.Tensor) -> None:
        """Whole tiles as they lie, and the rest of the tensor padded by zeros to one more."""
        whole = piece.numel() // TILE
        if whole:
            self._fold_tiles(piece[: whole * TILE].view(whole, TILE_ROWS, WIDTH), out[:whole])
        if whole * TILE < piece.numel():
            last = torch.zeros(TILE, dtype=piece.dtype)
            last[: piece.numel() - whole * TILE] = piece[whole * TILE :]
            self._fold_tiles(last.view(1, TILE_ROWS, WIDTH), out[whole : whole + 1])

    def _fold_tiles(self, rows: torch.Tensor, out: torch.Tensor) -> None:
        signs = _tile_signs(rows.dtype)
        half = TILE_ROWS // 2
        halves = self._scratch("halves", rows.dtype, _PIECE // TILE, half, WIDTH)[: rows.shape[0]]
        rows = torch.addcmul(rows[:, :half], rows[:, half:], signs[half:], out=halves)
        while half > 2:
            half //= 2
            rows = rows[:, :half].addcmul_(rows[:, half : 2 * half], signs[half : 2 * half])
        torch.addcmul(rows[:, :1], rows[:, 1:2], signs[1:2], out=out)


def _flatten(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    return tensor.to("cpu").contiguous().view(-1)


def _to_numpy(flat: torch.Tensor) -> np.ndarray:
    """numpy knows no bfloat16; float32 holds it exactly."""
    return (flat.to(torch.float32) if flat.dtype in _SMALL_FLOATS else flat).numpy()


def _squares(values: torch.Tensor) -> torch.Tensor:
    """Sum of squares: row by row in the tensor's own dtype (rounding stays at 1e-7), over the rows in float64."""
    whole = values.numel() // TILE * TILE
    rows, rest = values[:whole].view(-1, TILE), values[whole:].double()
    if not whole:
        return torch.dot(rest, rest)
    norms = torch.linalg.vector_norm(rows, dim=1).double()
    found = torch.dot(norms, norms)
    return found if whole == values.numel() else found + torch.dot(rest, rest)


def _bucket(total: torch.Tensor, coefficients: torch.Tensor, number: int) -> None:
    """Adds to `total`; the coefficients are scratch and are left with their signs applied."""
    bucket, sign = _hash_block(number)
    count = coefficients.numel()
    total += torch.bincount(bucket[:count], coefficients.mul_(sign[:count]), WIDTH)
