"""The sketch of `sketch.py` on torch tensors: one pass in cache-sized pieces, no copy of the tensor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from . import sketch as reference
from .sketch import BLOCK, FOLD_FROM, TILE, TILE_ROWS, WIDTH, Stats

_PIECE = 32  # tiles per piece: 1 MB of float64 stays in the second-level cache


@lru_cache(maxsize=16)
def _hash_block(number: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    bucket, sign = reference.hash_block(number)
    return torch.from_numpy(bucket).to(device), torch.from_numpy(sign).to(device)


@lru_cache(maxsize=4)
def _tile_signs(device: str) -> torch.Tensor:
    return torch.from_numpy(reference.tile_signs()).to(device)


@dataclass
class _Walk:
    """Running sums of one tensor."""

    sketch: torch.Tensor
    squares: float = 0.0
    summed: float = 0.0


class Sketcher:
    """Holds the scratch memory (a few MB), so that sketching allocates nothing."""

    def __init__(self) -> None:
        self._piece = torch.empty(_PIECE, TILE_ROWS, WIDTH, dtype=torch.float64)
        self._block = torch.empty(BLOCK, dtype=torch.float64)

    def __call__(self, tensor: torch.Tensor) -> tuple[np.ndarray, Stats]:
        """Sketch and statistics; equal to the numpy version to 1e-12 of the norm."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            flat = self._flatten(tensor)
            if flat.numel() == 0:
                return np.zeros(WIDTH), Stats(0, 0.0, 0.0, 0.0, 0.0)
            walk = self._walk(flat)
            if not np.isfinite(walk.squares):
                # rare, so the slow and obvious way: it counts what is not finite and leaves it out
                return reference.sketch_and_stats(flat.double().numpy())
            low, high = _extremes(flat)
            n = flat.numel()
        return walk.sketch.numpy(), Stats(n, walk.squares**0.5, walk.summed / n, low, high)

    def _flatten(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        if tensor.layout is not torch.strided:
            tensor = tensor.to_dense()
        if tensor.is_quantized:
            tensor = tensor.dequantize()
        return tensor.to("cpu").contiguous().view(-1)

    def _walk(self, flat: torch.Tensor) -> _Walk:
        walk = _Walk(torch.zeros(WIDTH, dtype=torch.float64))
        if flat.numel() < FOLD_FROM:
            values = self._block[: flat.numel()].copy_(flat)
            _accumulate(walk, values)
            _bucket(walk.sketch, values, 0)
            return walk
        span = BLOCK * TILE_ROWS
        for number, start in enumerate(range(0, flat.numel(), span)):
            coefficients = self._fold(flat[start : start + span], walk)
            _bucket(walk.sketch, coefficients, number)
        return walk

    def _fold(self, part: torch.Tensor, walk: _Walk) -> torch.Tensor:
        signs = _tile_signs("cpu")
        whole = part.numel() // TILE
        tiles = part[: whole * TILE].view(whole, TILE_ROWS, WIDTH)
        out = self._block.view(-1, WIDTH)
        for start in range(0, whole, _PIECE):
            piece = tiles[start : start + _PIECE]
            work = self._piece[: piece.shape[0]].copy_(piece)
            _accumulate(walk, work.view(-1))
            torch.sum(work.mul_(signs), 1, out=out[start : start + piece.shape[0]])
        rest = part.numel() - whole * TILE
        if rest:
            work = self._piece[:1].zero_()
            work.view(-1)[:rest].copy_(part[whole * TILE :])
            _accumulate(walk, work.view(-1)[:rest])
            torch.sum(work.mul_(signs), 1, out=out[whole : whole + 1])
        return self._block[: (whole + bool(rest)) * WIDTH]


def _accumulate(walk: _Walk, values: torch.Tensor) -> None:
    walk.squares += torch.dot(values, values).item()
    walk.summed += values.sum().item()


def _bucket(total: torch.Tensor, coefficients: torch.Tensor, number: int) -> None:
    bucket, sign = _hash_block(number, "cpu")
    count = coefficients.numel()
    total += torch.bincount(bucket[:count], coefficients * sign[:count], WIDTH)


def _extremes(flat: torch.Tensor) -> tuple[float, float]:
    if flat.dtype is torch.bool or flat.element_size() == 1:  # aminmax knows neither bool nor float8
        flat = flat.to(torch.float32)
    low, high = torch.aminmax(flat)
    return float(low), float(high)
