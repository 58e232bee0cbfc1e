"""The header of a GGUF file, read without trusting it: no length is believed before the file is seen to be that long.

Written by hand because a reader that allocates what a header claims can be made to exhaust the memory; values are
dequantised by the `gguf` package.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from ..errors import FileFormatError
from ..files import TensorInfo

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LOST_AXIS = ("modulation", "pos_embed", "emb_pos")  # begin with an axis of one, which some quantisers leave out
MAX_AXES, MAX_ALIGNMENT, MAX_KEPT = 8, 2**20, 64  # longer arrays (vocabularies) are passed over
# number of a type -> (name, elements in a block, bytes of a block)
TYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 40), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18),
}  # fmt: skip
# number of a metadata type -> how struct reads it
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


class _Reader:
    """A position in the bytes of a file that never leaves them."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.position = path, data, 0

    def take(self, form: str) -> Any:
        size = struct.calcsize(f"<{form}")
        self.need(size)
        (value,) = struct.unpack_from(f"<{form}", self.data, self.position)
        self.position += size
        return value

    def need(self, size: int) -> None:
        if size > len(self.data) - self.position:
            raise FileFormatError(
                f"{self.path} is a damaged GGUF file: at byte {self.position} it claims {size} more bytes, "
                f"but it has {len(self.data) - self.position}."
            )

    def text(self) -> str:
        length = self.take("Q")
        self.need(length)
        raw = self.data[self.position : self.position + length]
        self.position += length
        return raw.decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind in SCALARS:
            return self.take(SCALARS[kind])
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            return self.array()
        raise FileFormatError(f"{self.path} is a damaged GGUF file: a value of the unknown type {kind}.")

    def array(self) -> Any:
        kind, count = self.take("I"), self.take("Q")
        if kind == ARRAY:
            raise FileFormatError(f"{self.path}: arrays of arrays are not read in a GGUF header.")
        self.need(count * (struct.calcsize(f"<{SCALARS[kind]}") if kind in SCALARS else 8))
        if count > MAX_KEPT and kind in SCALARS:
            self.position += count * struct.calcsize(f"<{SCALARS[kind]}")
            return f"{count} values"
        values = [self.value(kind) for _ in range(count)]
        return values if count <= MAX_KEPT else f"{count} values"


def read_gguf_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, Any]]:
    """Tensors (shapes in torch's order) and metadata."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = _Reader(path, data)
        reader.position = len(MAGIC)
        version, num_tensors, num_values = reader.take("I"), reader.take("Q"), reader.take("Q")
        if version not in VERSIONS:
            raise FileFormatError(f"{path} is GGUF of version {version}; versions 2 and 3 are read.")
        reader.need(num_values * 13 + num_tensors * 25)  # what an entry takes at the least
        metadata = {}
        for _ in range(num_values):
            key = reader.text()
            metadata[key] = reader.value(reader.take("I"))
        entries = [_entry(reader) for _ in range(num_tensors)]
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or not 0 < alignment <= MAX_ALIGNMENT:
            raise FileFormatError(f"{path} is a damaged GGUF file: it claims an alignment of {alignment!r}.")
        base = -(-reader.position // alignment) * alignment
        return _placed(path, entries, base, len(data)), metadata


def _entry(reader: _Reader) -> tuple[str, tuple[int, ...], int, int]:
    name, axes = reader.text(), reader.take("I")
    if axes > MAX_AXES:
        raise FileFormatError(f"{reader.path} is a damaged GGUF file: tensor {name!r} claims {axes} axes.")
    shape = tuple(reader.take("Q") for _ in range(axes))[::-1]
    if axes == 2 and name.rpartition(".")[2] in LOST_AXIS:
        shape = (1, *shape)
    return name, shape, reader.take("I"), reader.take("Q")


def _placed(
    path: Path, entries: list[tuple[str, tuple[int, ...], int, int]], base: int, size: int
) -> dict[str, TensorInfo]:
    """Each tensor with its bytes, which lie within the file and overlap no other's."""
    tensors: dict[str, TensorInfo] = {}
    for name, shape, kind, offset in entries:
        if kind not in TYPES:
            raise FileFormatError(f"{path}: tensor {name!r} has the GGUF type {kind}, which is not known here.")
        dtype, block, block_bytes = TYPES[kind]
        count = 1
        for n in shape:
            count *= n
        if shape and shape[-1] % block:
            raise FileFormatError(
                f"{path}: tensor {name!r} of shape {list(shape)} is no multiple of {dtype}'s {block}."
            )
        if name in tensors:
            raise FileFormatError(f"{path} is a damaged GGUF file: tensor {name!r} stands in it twice.")
        tensors[name] = TensorInfo(dtype, shape, base + offset, base + offset + count // block * block_bytes)
        if tensors[name].end > size:
            raise FileFormatError(
                f"{path}: tensor {name!r} would end at byte {tensors[name].end}, but the file has {size}: "
                "it is cut off or damaged."
            )
    end, before = 0, ""
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if info.start < end:
            raise FileFormatError(f"{path}: the tensors {before!r} and {name!r} overlap.")
        end, before = max(end, info.end), name
    return tensors
