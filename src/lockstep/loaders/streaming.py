"""Weights written one tensor at a time: as much memory as the largest tensor, however large the file is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from .. import files
from ..errors import WeightsError
from ..files import ITEM_BITS
from ..models.weights import DTYPE_NAMES, DTYPES, MadeTensor, MappedFiles, StoredTensor, split, with_variant

BUFFER = 16 * 2**20
Report = Callable[[int], None]  # told how many bytes of the target were written


def target_dtype(tensor: StoredTensor, dtype: torch.dtype | None) -> str:
    """The dtype that a tensor has in the target: floating point is cast, the rest stays."""
    own = DTYPES[tensor.info.dtype]
    return tensor.info.dtype if dtype is None or not own.is_floating_point else DTYPE_NAMES[dtype]


def num_bytes(tensor: StoredTensor, dtype: torch.dtype | None) -> int:
    """What a tensor takes in the target."""
    count = 1
    for n in tensor.info.shape:
        count *= n
    return count * ITEM_BITS[target_dtype(tensor, dtype)] // 8


def write_safetensors(
    path: Path,
    stored: Mapping[str, StoredTensor],
    *,
    dtype: torch.dtype | None = None,
    metadata: Mapping[str, str] | None = None,
    report: Report = lambda count: None,
) -> None:
    """A safetensors file, which appears when it is whole."""
    ordered = sorted(stored, key=lambda name: (-ITEM_BITS[target_dtype(stored[name], dtype)], name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    position = 0
    for name in ordered:
        end = position + num_bytes(stored[name], dtype)
        kind, shape = target_dtype(stored[name], dtype), list(stored[name].info.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [position, end]}
        position = end
    raw = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    raw += b" " * (-len(raw) % 8)  # so that the tensors lie where a processor reads them at once
    opened = MappedFiles(copies=True)
    with files.atomic(path) as temporary, temporary.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for name in ordered:
            tensor = stored[name]
            if type(tensor) is StoredTensor and target_dtype(tensor, dtype) == tensor.info.dtype:
                _copy(tensor, file)
            else:
                _write(name, tensor, opened, dtype, file)
            report(num_bytes(tensor, dtype))


def _copy(tensor: StoredTensor, file: BinaryIO) -> None:
    left = tensor.info.end - tensor.info.start
    with tensor.path.open("rb") as source:
        source.seek(tensor.info.start)
        while left:
            piece = source.read(min(left, BUFFER))
            if not piece:
                raise WeightsError(f"{tensor.path} ended early: it was cut off while it was read.")
            file.write(piece)
            left -= len(piece)


def _write(name: str, tensor: StoredTensor, opened: MappedFiles, dtype: torch.dtype | None, file: BinaryIO) -> None:
    wanted = DTYPES[target_dtype(tensor, dtype)]
    own = tensor.make() if isinstance(tensor, MadeTensor) else opened.read(tensor)
    value = own.to(wanted)
    if wanted in (torch.float16, torch.float8_e4m3fn, torch.float8_e5m2) and value.dtype != own.dtype:
        lost = int((~torch.isfinite(value.float()) & torch.isfinite(own.float())).sum())
        if lost:
            raise WeightsError(
                f"Tensor {name!r} has {lost} values that {wanted} cannot hold "
                f"(largest {float(own.float().abs().max()):.3g}). Choose bfloat16, or keep the dtype."
            )
    file.write(value.contiguous().view(-1).view(torch.uint8).numpy().data if value.numel() else b"")


def write_weights(
    folder: Path,
    weights_name: str,
    stored: Mapping[str, StoredTensor],
    *,
    dtype: torch.dtype | None,
    limit: int,
    report: Report = lambda count: None,
    variant: str | None = None,
) -> None:
    """A model's weights in its folder: one file, or shards with an index."""
    groups = split(stored, lambda tensor: num_bytes(tensor, dtype), limit)
    base = with_variant(weights_name, variant)
    if len(groups) == 1:
        write_safetensors(folder / base, stored, dtype=dtype, report=report)
        return
    stem = base.removesuffix(".safetensors")
    names = [f"{stem}-{i + 1:05d}-of-{len(groups):05d}.safetensors" for i in range(len(groups))]
    for name, group in zip(names, groups, strict=True):
        write_safetensors(folder / name, group, dtype=dtype, report=report)
    weight_map = {tensor: name for name, group in zip(names, groups, strict=True) for tensor in group}
    total = sum(num_bytes(tensor, dtype) for tensor in stored.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    files.write_text(folder / with_variant(f"{weights_name}.index.json", variant), json.dumps(index, indent=2) + "\n")
