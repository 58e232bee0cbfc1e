"""GGUF files: tensors that are dequantised one at a time, when they are read (package `gguf`, extra `gguf`)."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..errors import FileFormatError, UnsupportedError
from ..files import TensorInfo
from ..models.weights import MadeTensor, StoredTensor
from .header import ORIGINAL_SHAPE, Header

PLAIN = {
    "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64,
    "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
}  # fmt: skip


def open_gguf(header: Header) -> dict[str, StoredTensor]:
    """Every tensor of a GGUF file; a quantised one becomes fp32."""
    quantised = sorted({info.dtype for info in header.tensors.values()} - set(PLAIN))
    package = _package(header, quantised) if quantised else None
    stored: dict[str, StoredTensor] = {}
    for name, info in header.tensors.items():
        shape = _original_shape(header, name, info)
        dtype = PLAIN.get(info.dtype, torch.float32)
        like = torch.empty(shape, dtype=dtype, device="meta")
        stored[name] = MadeTensor.of(header.path, like, _Reading(header, name, shape, dtype, package))
    return stored


def _package(header: Header, quantised: list[str]) -> Any:
    try:
        import gguf
    except ImportError:
        raise UnsupportedError(
            f"{header.path} is quantised ({', '.join(quantised)}); reading it needs the package gguf: "
            "pip install 'lockstep-diffusion[gguf]'."
        ) from None
    return gguf


def _original_shape(header: Header, name: str, info: TensorInfo) -> tuple[int, ...]:
    said = header.metadata.get(ORIGINAL_SHAPE + name)
    if not isinstance(said, list):
        return info.shape
    if math.prod(said) != math.prod(info.shape) or not all(type(n) is int and n > 0 for n in said):
        raise FileFormatError(f"{header.path}: tensor {name!r} of shape {list(info.shape)} cannot be seen as {said}.")
    return tuple(said)


class _Reading:
    """One tensor, read and dequantised when it is called."""

    def __init__(self, header: Header, name: str, shape: tuple[int, ...], dtype: torch.dtype, package: Any) -> None:
        self.path, self.name, self.info = header.path, name, header.tensors[name]
        self.shape, self.dtype, self.package = shape, dtype, package

    def __call__(self) -> torch.Tensor:
        info = self.info
        with self.path.open("rb") as file:
            file.seek(info.start)
            raw = bytearray(file.read(info.end - info.start))
        if len(raw) != info.end - info.start:
            raise FileFormatError(f"{self.path} ended early: it was cut off while it was read.")
        if info.dtype in PLAIN:
            return (
                torch.frombuffer(raw, dtype=self.dtype).view(self.shape)
                if raw
                else torch.empty(self.shape, dtype=self.dtype)
            )
        import numpy

        kind = self.package.GGMLQuantizationType[info.dtype]
        rows = numpy.frombuffer(raw, dtype=numpy.uint8).reshape(math.prod(info.shape[:-1]), -1)
        try:
            values = self.package.quants.dequantize(rows, kind)
        except NotImplementedError:
            raise UnsupportedError(
                f"{self.path}: tensor {self.name!r} is {info.dtype}, which the package gguf does not dequantise."
            ) from None
        return torch.from_numpy(numpy.ascontiguousarray(values, dtype=numpy.float32)).view(self.shape)
