"""The safetensors container with numpy alone: a checked header, mapped bytes, BF16 and FP8 decoded to float32.

The `safetensors` package refuses BF16 in numpy; traces from other frameworks are full of it, hence this file.
Every number in a header comes from outside and is checked before it is used.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidTrace

Array = NDArray[Any]
MAX_HEADER = 100_000_000
MAX_DIMS = 64

PLAIN = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "BOOL": np.bool_,
    "C64": np.complex64,
}
ENCODED = {"BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8}
FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "C64"}


@dataclass(frozen=True)
class Slice:
    """Where one tensor lies in its file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def item_size(dtype: str) -> int:
    table = PLAIN if dtype in PLAIN else ENCODED
    if dtype not in table:
        raise InvalidTrace(f"dtype {dtype!r} is not known; known are {', '.join([*PLAIN, *ENCODED])}")
    return np.dtype(table[dtype]).itemsize


class SafetensorsFile:
    """One mapped file; `slices` is its validated table of contents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as handle:
                size = os.fstat(handle.fileno()).st_size
                self.metadata, self.slices, self._start = _read_header(handle, size, path.name)
                self._map = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InvalidTrace(f"cannot read {path}: {error.strerror or error}") from error

    def array(self, name: str) -> Array:
        """The tensor as numpy; encoded dtypes as float32, everything else as a read-only view of the file."""
        part = self.slices[name]
        storage = PLAIN.get(part.dtype) or ENCODED[part.dtype]
        count = (part.end - part.begin) // np.dtype(storage).itemsize
        raw: Array = np.frombuffer(self._map, storage, count, self._start + part.begin)
        return decode(raw, part.dtype).reshape(part.shape)

    def raw(self, name: str) -> bytes:
        part = self.slices[name]
        return self._map[self._start + part.begin : self._start + part.end]


def _read_header(handle: Any, size: int, label: str) -> tuple[dict[str, str], dict[str, Slice], int]:
    if size < 8:
        raise InvalidTrace(f"{label}: {size} bytes are too few for a safetensors file (a header needs 8)")
    (length,) = struct.unpack("<Q", handle.read(8))
    if length > MAX_HEADER or length > size - 8:
        raise InvalidTrace(
            f"{label}: header says {length} bytes, the file has {size - 8} after it (limit {MAX_HEADER}): "
            "truncated, or not a safetensors file"
        )
    header = load_json(handle.read(length), f"{label}: header")
    if not isinstance(header, dict):
        raise InvalidTrace(f"{label}: header is a {type(header).__name__}, not an object")
    metadata = header.pop("__metadata__", None) or {}  # MLX writes null where there is none
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise InvalidTrace(f"{label}: __metadata__ must map text to text")
    slices = {name: _slice(name, entry, label) for name, entry in header.items()}
    _check_layout(slices, size - 8 - length, label)
    return metadata, slices, 8 + length


def _slice(name: str, entry: Any, label: str) -> Slice:
    try:
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        begin, end = offsets
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidTrace(f"{label}: tensor {name!r} lacks dtype, shape or data_offsets") from error
    numbers = [*shape, begin, end] if isinstance(shape, list) else [None]
    if not all(type(v) is int and 0 <= v < 1 << 62 for v in numbers) or len(numbers) > MAX_DIMS + 2:
        raise InvalidTrace(f"{label}: tensor {name!r} has a shape or offsets that are no natural numbers")
    if not isinstance(dtype, str):
        raise InvalidTrace(f"{label}: tensor {name!r} has dtype {dtype!r}")
    count = 1
    for extent in shape:
        count *= extent
    if count * item_size(dtype) != end - begin:
        raise InvalidTrace(
            f"{label}: tensor {name!r} of shape {shape} {dtype} needs {count * item_size(dtype)} bytes, "
            f"got {end - begin}"
        )
    return Slice(dtype, tuple(shape), begin, end)


def _check_layout(slices: dict[str, Slice], available: int, label: str) -> None:
    position = 0
    for name, part in sorted(slices.items(), key=lambda item: (item[1].begin, item[1].end)):
        if part.begin != position:
            raise InvalidTrace(
                f"{label}: tensor {name!r} starts at {part.begin}, expected {position} (overlap or hole)"
            )
        position = part.end
    if position != available:
        what = "truncated" if position > available else "has bytes that belong to no tensor"
        raise InvalidTrace(f"{label}: {what}: tensors need {position} bytes, the file holds {available}")


def load_json(data: bytes, label: str) -> Any:
    """JSON from outside: no duplicate keys, no NaN literals, no stack overflow."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidTrace(f"{label} is not valid JSON: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice")
    return result


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def decode(raw: Array, dtype: str) -> Array:
    """Stored numbers to numpy's: BF16 and FP8 become float32 exactly."""
    if dtype == "BF16":
        return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "F8_E5M2":  # the upper half of a float16
        return (raw.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32)
    if dtype == "F8_E4M3":
        return _E4M3[raw]
    return raw


def _e4m3_table() -> Array:
    code = np.arange(256)
    sign, exponent, mantissa = np.where(code & 0x80, -1.0, 1.0), (code >> 3) & 0xF, code & 7
    value = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    value = np.where((code & 0x7F) == 0x7F, np.nan, value)  # the "fn" variant: no infinity, one NaN per sign
    return (sign * value).astype(np.float32)


_E4M3 = _e4m3_table()


def write_safetensors(
    path: Path, tensors: list[tuple[str, str, tuple[int, ...], bytes]], metadata: dict[str, str]
) -> None:
    """(name, dtype, shape, bytes) to a file, under a temporary name first."""
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    position = 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [position, position + len(data)]}
        position += len(data)
    blob = json.dumps(header, separators=(",", ":")).encode()
    blob += b" " * (-len(blob) % 8)
    temporary = path.with_name(path.name + ".part")
    with open(temporary, "wb") as out:
        out.write(struct.pack("<Q", len(blob)) + blob)
        for *_, data in tensors:
            out.write(data)
    os.replace(temporary, path)


def numpy_dtype_name(array: Array) -> str:
    for name, dtype in PLAIN.items():
        if array.dtype == dtype:
            return name
    raise InvalidTrace(f"numpy dtype {array.dtype} has no name in safetensors; use one of {', '.join(PLAIN)}")
