"""Two sets of weights compared tensor by tensor: the same, or how they differ."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .. import files
from ..errors import LockstepError
from ..models.weights import MappedFiles, StoredTensor, open_folder
from .checkpoint import open_checkpoint
from .convert import MODELS, component_names, model_of
from .single_file import SingleFile

SCALE_TOLERANCE = 1e-5  # what may be left after a factor was divided out, relative
STATES = ("same", "cast", "transposed", "permuted", "scaled", "different", "only in A", "only in B")


@dataclass(frozen=True)
class Difference:
    """How one tensor of A and its counterpart in B stand to each other."""

    name: str
    state: str
    detail: str = ""


def compare(
    one: Mapping[str, StoredTensor],
    other: Mapping[str, StoredTensor],
    report: Callable[[str], None] = lambda name: None,
) -> Iterator[Difference]:
    """Every tensor of both, one pair in memory at a time."""
    opened = MappedFiles()
    for name in dict.fromkeys([*one, *other]):
        report(name)
        if name not in other or name not in one:
            yield Difference(name, "only in A" if name in one else "only in B")
            continue
        yield Difference(name, *relation(opened.read(one[name]), opened.read(other[name])))


def relation(one: Tensor, other: Tensor) -> tuple[str, str]:
    """(state, detail) of two tensors."""
    if one.shape == other.shape and one.dtype == other.dtype and _same_bits(one, other):
        return "same", ""
    wide, narrow = (one, other) if one.dtype.itemsize >= other.dtype.itemsize else (other, one)
    cast = f"{_name(one)} -> {_name(other)}"
    if one.shape == other.shape and one.dtype != other.dtype and _same_bits(wide.to(narrow.dtype), narrow):
        return "cast", cast
    a, b = one.float(), other.float()
    also = f", {cast}" if one.dtype != other.dtype else ""
    if a.ndim == 2 and a.T.shape == b.shape and torch.equal(a.T, b):
        return "transposed", f"{list(one.shape)} -> {list(other.shape)}{also}"
    if a.numel() == b.numel():
        order = _axes(a, b)
        if order:
            return "permuted", f"axes {order}{also}"
        if a.flatten().shape == b.flatten().shape and torch.equal(a.flatten(), b.flatten()):
            return "permuted", f"seen as {list(other.shape)} instead of {list(one.shape)}{also}"
    if a.shape != b.shape:
        return "different", f"shape {list(one.shape)} and {list(other.shape)}"
    if a.ndim and _same_rows(a, b):
        return "permuted", f"the same {len(a)} rows in another order{also}"
    return _scaled_or_different(a, b, also)


def _scaled_or_different(a: Tensor, b: Tensor, also: str) -> tuple[str, str]:
    x, y = a.double().flatten(), b.double().flatten()
    energy, norm = float(x @ x), float(y.norm())
    if not (torch.isfinite(x).all() and torch.isfinite(y).all()):
        return "different", "NaN or Inf in one of them"
    factor = float(x @ y) / energy if energy else 0.0
    if factor and x.numel() > 1 and norm and float((y - factor * x).norm()) / norm < SCALE_TOLERANCE:
        return "scaled", f"by {factor:.6g}{also}"
    away = float((x - y).norm()) / (norm or 1.0)
    return "different", f"relative L2 {away:.3g}, largest {float((x - y).abs().max()):.3g}{also}"


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return (
        torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))
        if one.numel()
        else True
    )


def _axes(a: Tensor, b: Tensor) -> list[int] | None:
    if a.ndim < 3 or a.ndim > 5 or sorted(a.shape) != sorted(b.shape):
        return None
    for order in itertools.permutations(range(a.ndim)):
        if list(order) != sorted(order) and a.permute(order).shape == b.shape and torch.equal(a.permute(order), b):
            return list(order)
    return None


def _same_rows(a: Tensor, b: Tensor) -> bool:
    """Whether the rows of one are the rows of the other, in any order."""
    rows_a, rows_b = a.flatten(1) if a.ndim > 1 else a[:, None], b.flatten(1) if b.ndim > 1 else b[:, None]
    if len(rows_a) < 2 or not torch.equal(rows_a.sum(1).sort().values, rows_b.sum(1).sort().values):
        return False
    order_a, order_b = rows_a.sum(1).argsort(stable=True), rows_b.sum(1).argsort(stable=True)
    return torch.equal(rows_a[order_a], rows_b[order_b])


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# ---- what is compared ----


def pair(
    first: Path, second: Path, allow_pickle: bool = False
) -> tuple[dict[str, StoredTensor], dict[str, StoredTensor]]:
    """The tensors of both under common names: a folder and a single file are compared by component."""
    files.require_there(first, second)
    if first.is_file() and second.is_file():
        one, other = open_checkpoint(first, allow_pickle), open_checkpoint(second, allow_pickle)
        if len(set(one) & set(other)) * 2 >= min(len(one), len(other)):
            return one, other
        try:
            return by_component(first, allow_pickle), by_component(second, allow_pickle)
        except LockstepError:
            return one, other  # layouts that are not known: all names differ
    return by_component(first, allow_pickle), by_component(second, allow_pickle)


def by_component(path: Path, allow_pickle: bool) -> dict[str, StoredTensor]:
    """`unet/conv_in.weight` …: the names that the published layout has."""
    stored: dict[str, StoredTensor] = {}
    if path.is_file():
        file = SingleFile(path, allow_pickle=allow_pickle)
        for name in file.found.components:
            kind = MODELS[file.class_name(name)]
            found = file.stored(name, kind, dict(kind.on_meta(file.config(name)).config))
            stored |= {f"{name}/{key}": tensor for key, tensor in found.items()}
        return stored
    index = path / "model_index.json"
    names = component_names(path, files.read_json(index)) if index.is_file() else [""]
    for name in names:
        kind, _ = model_of(path / name)
        found = kind.stored_tensors(open_folder(path / name, kind.weights_name, None))
        stored |= {f"{name}/{key}" if name else key: tensor for key, tensor in found.items()}
    return stored
