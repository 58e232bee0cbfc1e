"""Checkpoint files opened for reading: the tensors of any container as stored tensors, none of them read yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import FileFormatError
from ..files import TensorInfo
from ..models.weights import DTYPE_NAMES, MappedFiles, StoredTensor, in_memory, open_weights
from .gguf import open_gguf
from .header import Header, container_of, read_header
from .quantised import dequantised

SECTIONS = ("image_proj", "ip_adapter")  # keys under which IP-Adapters put theirs
WRAPPERS = ("state_dict", "model", "module", "params_ema", "params")  # keys under which trainers put the weights


def open_header(path: str | Path, allow_pickle: bool = False) -> Header:
    """The header of a checkpoint; of a pickle, if that is allowed, what unpickling it gave."""
    path = Path(path)
    if not allow_pickle or container_of(path) != "pickle":
        return read_header(path)
    tensors = read_pickle(path)
    infos = {
        name: TensorInfo(DTYPE_NAMES[t.dtype], tuple(t.shape), 0, t.numel() * t.itemsize) for name, t in tensors.items()
    }
    return Header(path, "pickle", infos)


def open_checkpoint(
    path: str | Path, allow_pickle: bool = False, opened: MappedFiles | None = None
) -> dict[str, StoredTensor]:
    """Every tensor of a checkpoint; quantised ones are made plain when they are read."""
    path = Path(path)
    container = container_of(path)
    if container == "gguf":
        return open_gguf(read_header(path))
    if container == "pickle":
        if not allow_pickle:
            read_header(path)  # says why not
        return dequantised(in_memory(read_pickle(path), path), opened)
    return dequantised(open_weights([path]), opened)


def unpickled(path: Path) -> Any:
    """What a pickle of tensors and plain containers holds; anything else in it is refused, not run."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=_can_be_mapped(path))
    except Exception as problem:  # unpickling raises whatever a damaged file leads to
        first = str(problem).strip().splitlines()
        raise FileFormatError(
            f"{path} is a pickle that holds more than tensors and plain containers, or is damaged; it was not run. "
            f"({type(problem).__name__}: {first[0][:200] if first else ''})"
        ) from None


def read_pickle(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a pickle, at its top or in what trainers wrap them in."""
    tensors = _tensors(unpickled(path))
    unusable = {str(t.dtype) for t in tensors.values() if t.dtype not in DTYPE_NAMES}
    if not tensors or unusable:
        what = f"dtypes that are not read ({', '.join(sorted(unusable))})" if unusable else "no tensors"
        raise FileFormatError(f"{path} is a pickle with {what}.")
    return tensors


def _can_be_mapped(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _tensors(content: Any, depth: int = 0) -> dict[str, torch.Tensor]:
    """The tensors of a dict, or of one that it wraps."""
    if not isinstance(content, Mapping) or depth > 4:
        return {}
    for key in WRAPPERS:
        if isinstance(content.get(key), Mapping):
            return _tensors(content[key], depth + 1)
    inside = {
        f"{key}.{name}": value
        for key in SECTIONS
        if isinstance(content.get(key), Mapping)
        for name, value in content[key].items()
    }
    content = {**content, **inside}
    return {str(name): value.detach() for name, value in content.items() if isinstance(value, torch.Tensor)}
