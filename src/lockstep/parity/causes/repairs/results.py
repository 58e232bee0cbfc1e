"""What a run gives in the end, beside what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...recording.values import leaves
from ...trace.container import Array


def numbers_of(result: Any) -> list[Array]:
    """Every floating-point array of a result."""
    found: list[Array] = []
    for _, value in leaves(result, "out"):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            with torch._C.DisableTorchFunction():
                found.append(value.detach().to("cpu", torch.float64).numpy().copy())
        elif isinstance(value, torch.Tensor | np.ndarray) and not np.iscomplexobj(value):
            found.append(np.asarray(value, dtype=np.float64).copy())
    return [array for array in found if array.size]


class Wanted:
    """The reference's result: how far another one is from it, however its axes lie."""

    def __init__(self, result: Any) -> None:
        self._right = numbers_of(result)
        self._flat = _sorted(self._right)
        self._norm = max(float(np.linalg.norm(self._flat)), 1e-30)

    @property
    def is_known(self) -> bool:
        return self._flat.size > 0

    def distance(self, result: Any) -> float:
        """Relative; infinite for another number of numbers."""
        other = numbers_of(result)
        if [a.shape for a in other] == [a.shape for a in self._right]:
            apart = sum(float(((a - b) ** 2).sum()) for a, b in zip(other, self._right, strict=True)) ** 0.5
        else:
            flat = _sorted(other)
            if flat.size != self._flat.size:
                return float("inf")
            apart = float(np.linalg.norm(flat - self._flat))
        return apart / self._norm if np.isfinite(apart) else float("inf")


def _sorted(arrays: list[Array]) -> Array:
    parts = [np.sort(array.reshape(-1)) for array in sorted(arrays, key=lambda a: a.size)]
    return np.concatenate(parts) if parts else np.zeros(0)
