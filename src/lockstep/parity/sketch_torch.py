"""The sketch of `sketch.py` on torch tensors, to the bit: a few passes in cache-sized pieces, no copy of the tensor."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from . import sketch as reference
from .sketch import BLOCK, FLOAT32_UP_TO, FOLD_FROM, TILE, TILE_ROWS, WIDTH, Stats

_PIECE = 128  # tiles per piece: large enough that calls cost nothing, small enough for the caches
_SMALL_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


@lru_cache(maxsize=16)
def _hash_block(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    bucket, sign = reference.hash_block(number)
    return torch.from_numpy(bucket), torch.from_numpy(sign)


@lru_cache(maxsize=2)
def _tile_signs(dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(reference.tile_signs()).to(dtype)


class Sketcher:
    """Holds the scratch memory (a few MB), so that sketching allocates next to nothing."""

    def __init__(self) -> None:
        self._scratch: dict[tuple[str, torch.dtype], torch.Tensor] = {}

    def _memory(self, use: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
        """Kept between calls: fresh pages cost more than the arithmetic."""
        if (use, dtype) not in self._scratch:
            self._scratch[use, dtype] = torch.empty(*shape, dtype=dtype)
        return self._scratch[use, dtype]

    def __call__(self, tensor: torch.Tensor) -> tuple[np.ndarray, Stats]:
        """Sketch (equal to numpy's to the last bit) and statistics (to about 1e-7)."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            flat = _flatten(tensor)
            if flat.numel() == 0:
                return np.zeros(WIDTH), Stats(0, 0.0, 0.0, 0.0, 0.0)
            low, high = _extremes(flat)
            if not max(abs(low), abs(high)) < FLOAT32_UP_TO:
                # masks and what is not finite: rare, so the slow and obvious way
                return reference.sketch_and_stats(_to_numpy(flat))
            return self._sketch(flat, low, high)

    def _sketch(self, flat: torch.Tensor, low: float, high: float) -> tuple[np.ndarray, Stats]:
        n = flat.numel()
        work = torch.float32 if flat.dtype in _SMALL_FLOATS else torch.float64
        total = torch.zeros(WIDTH, dtype=torch.float64)
        if n < FOLD_FROM:
            values = self._memory("block", torch.float64, BLOCK)[:n].copy_(flat)
            squares, summed = torch.dot(values, values).item(), values.sum().item()
            _bucket(total, values, 0)
        else:
            squares = summed = 0.0
            for number, start in enumerate(range(0, n, BLOCK * TILE_ROWS)):
                part = flat[start : start + BLOCK * TILE_ROWS]
                tiles = -(-part.numel() // TILE)
                coefficients = self._memory("coefficients", work, BLOCK // WIDTH, 1, WIDTH)[:tiles]
                for begin in range(0, part.numel(), _PIECE * TILE):
                    piece = self._convert(part[begin : begin + _PIECE * TILE], work)
                    squares += _squares(piece)
                    summed += piece.sum().item()
                    self._fold(piece, coefficients[begin // TILE :])
                block = self._memory("block", torch.float64, BLOCK)[: tiles * WIDTH]
                _bucket(total, block.copy_(coefficients.view(-1)), number)
        return total.numpy(), Stats(n, squares**0.5, summed / n, low, high)

    def _convert(self, piece: torch.Tensor, work: torch.dtype) -> torch.Tensor:
        if piece.dtype is work:
            return piece
        return self._memory("converted", work, _PIECE * TILE)[: piece.numel()].copy_(piece)

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
        halves = self._memory("halves", rows.dtype, _PIECE, half, WIDTH)[: rows.shape[0]]
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


def _squares(values: torch.Tensor) -> float:
    """Sum of squares: row by row in the tensor's own dtype (rounding stays at 1e-7), over the rows in float64."""
    whole = values.numel() // TILE
    norms = torch.linalg.vector_norm(values[: whole * TILE].view(whole, TILE), dim=1).double()
    rest = values[whole * TILE :].double()
    return torch.dot(norms, norms).item() + torch.dot(rest, rest).item()


def _bucket(total: torch.Tensor, coefficients: torch.Tensor, number: int) -> None:
    """Adds to `total`; the coefficients are scratch and are left with their signs applied."""
    bucket, sign = _hash_block(number)
    count = coefficients.numel()
    total += torch.bincount(bucket[:count], coefficients.mul_(sign[:count]), WIDTH)


def _extremes(flat: torch.Tensor) -> tuple[float, float]:
    if flat.dtype is torch.bool or flat.element_size() == 1:  # aminmax knows neither bool nor float8
        flat = flat.to(torch.float32)
    low, high = torch.aminmax(flat)
    return float(low), float(high)
