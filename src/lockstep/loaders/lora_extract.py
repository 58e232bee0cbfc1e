"""A LoRA out of two checkpoints: the low-rank part of their difference, by SVD, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from .. import files
from ..errors import InputError, LoadError, WeightsError
from ..models.weights import MappedFiles, save_tensors
from .difference import by_component

Progress = Callable[[int, int], None]


@dataclass
class Extraction:
    """A LoRA that was read off the difference of two checkpoints, and what it leaves out."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)  # relative, of each layer
    left_out: list[str] = field(default_factory=list)  # tensors that differ and are no matrices
    squared: float = 0.0
    squared_left: float = 0.0

    @property
    def error(self) -> float:
        """The part of the whole difference that is left, relative L2."""
        return (self.squared_left / self.squared) ** 0.5 if self.squared else 0.0


def extract(
    base: str | Path,
    tuned: str | Path,
    target: str | Path,
    *,
    rank: int = 16,
    energy: float | None = None,
    dtype: torch.dtype = torch.float32,
    allow_pickle: bool = False,
    report: Progress = lambda done, total: None,
) -> Extraction:
    """The difference of two checkpoints as a LoRA: the best one of `rank`, or of the least rank that keeps `energy`.

    `energy` is the share of each layer's squared difference; `rank` then is the most that a layer may have.
    """
    base, tuned, target = Path(base), Path(tuned), Path(target)
    files.require_there(base, tuned)
    if rank < 1 or (energy is not None and not 0 < energy <= 1):
        raise InputError(f"Wanted a rank of at least 1 and an energy between 0 and 1, got {rank} and {energy}.")
    if target.suffix != ".safetensors" or target.exists():
        raise InputError(f"A LoRA is written to a new .safetensors file, got {str(target)!r}.")
    one, other = by_component(base, allow_pickle), by_component(tuned, allow_pickle)
    names = [name for name in one if name in other and name.startswith(("unet/", "transformer", "text_encoder"))]
    if not names:
        raise LoadError(f"{base} and {tuned} have no layer in common that a LoRA can change.")
    found, opened = Extraction(), MappedFiles(copies=True)
    for count, name in enumerate(names, 1):
        _extract_layer(found, name, opened.read(one[name]), opened.read(other[name]), rank, energy)
        report(count, len(names))
    if not found.tensors:
        raise LoadError(f"{base} and {tuned} are the same where a LoRA could differ: there is nothing to extract.")
    save_tensors({name: tensor.to(dtype) for name, tensor in found.tensors.items()}, target, {"format": "pt"})
    return found


def _extract_layer(found: Extraction, name: str, one: Tensor, other: Tensor, rank: int, energy: float | None) -> None:
    if one.shape != other.shape:
        raise WeightsError(f"{name} is {list(one.shape)} in one and {list(other.shape)} in the other: two families?")
    difference = other.double() - one.double()
    if not bool(difference.any()):
        return
    component, _, path = name.partition("/")
    layer, _, kind = path.rpartition(".")
    if kind != "weight" or difference.ndim < 2 or "embedding" in layer:
        found.left_out.append(name)
        return
    up, down, left = low_rank(difference.flatten(1), rank, energy)
    shape = (len(down), *difference.shape[1:])
    key = f"{component}.{layer}"
    found.tensors[f"{key}.lora_A.weight"] = down.reshape(shape).contiguous()
    found.tensors[f"{key}.lora_B.weight"] = up.reshape(*up.shape, *[1] * (difference.ndim - 2)).contiguous()
    whole = float(difference.square().sum())
    found.ranks[key], found.errors[key] = len(down), (left / whole) ** 0.5
    found.squared, found.squared_left = found.squared + whole, found.squared_left + left


def low_rank(matrix: Tensor, rank: int, energy: float | None) -> tuple[Tensor, Tensor, float]:
    """(up, down, squared error): the best product of this rank (Eckart and Young 1936), shared out evenly."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    squares = values.square()
    if energy is not None:
        kept = squares.cumsum(0) / squares.sum()
        rank = min(rank, int((kept < energy - 1e-12).sum()) + 1)
    rank = min(rank, int((squares > squares[0] * 1e-24).sum()))
    root = values[:rank].sqrt()
    return left[:, :rank] * root, root[:, None] * right[:rank], float(squares[rank:].sum())
