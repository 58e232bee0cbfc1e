"""A SentencePiece model file (`spiece.model`) without the sentencepiece library: the few protobuf fields that matter.

Field numbers are those of sentencepiece_model.proto: ModelProto {1: pieces, 2: trainer, 3: normalizer},
SentencePiece {1: text, 2: score, 3: kind}, TrainerSpec {3: model type}, NormalizerSpec {2: charsmap, 3, 4, 5: flags}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import FileFormatError

UNIGRAM = 1
UNKNOWN, BYTE = 2, 6  # kinds of pieces
NORMALIZER_FLAGS = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}


@dataclass
class SentencePieceModel:
    """Pieces with their log probabilities, which of them stands for the unknown, and the compiled normal form."""

    pieces: list[tuple[str, float]]
    unk_id: int
    byte_fallback: bool
    charsmap: bytes


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Read a unigram model."""
    pieces: list[tuple[str, float]] = []
    kinds: list[int] = []
    charsmap, model_type = b"", UNIGRAM
    seen = set()
    try:
        for number, value in protobuf_fields(path.read_bytes()):
            seen.add(number)
            if number == 1:
                piece = dict(protobuf_fields(value))
                pieces.append((piece[1].decode("utf-8"), struct.unpack("<f", piece.get(2, bytes(4)))[0]))
                kinds.append(piece.get(3, 1))
            elif number == 2:
                model_type = dict(protobuf_fields(value)).get(3, UNIGRAM)
            elif number == 3:
                normalizer = dict(protobuf_fields(value))
                charsmap = normalizer.get(2, b"")
                off = [name for field, name in NORMALIZER_FLAGS.items() if not normalizer.get(field, 1)]
                if off:
                    raise FileFormatError(
                        f"{path} turns off {', '.join(off)}, which no T5 model does. Use its tokenizer.json."
                    )
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, struct.error) as problem:
        raise FileFormatError(f"{path} is not a SentencePiece model or is cut off: {problem}.") from None
    if not {1, 2, 3} <= seen:  # the parts come in this order, so a file cut off between two fields lacks the last
        raise FileFormatError(
            f"{path} is not a SentencePiece model or is cut off: it has no pieces, trainer or normalizer."
        )
    if model_type != UNIGRAM or UNKNOWN not in kinds:
        raise FileFormatError(
            f"{path} is not a SentencePiece unigram model (type {model_type}, {len(pieces)} pieces). "
            "Save the tokenizer as tokenizer.json with the library it came from."
        )
    return SentencePieceModel(pieces, kinds.index(UNKNOWN), BYTE in kinds, charsmap)


def protobuf_fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of each field of a message: an int for a varint, bytes for anything else."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind not in (1, 2, 5):
            raise ValueError(f"field of unknown wire type {kind}")
        length = {1: 8, 5: 4}.get(kind)
        if length is None:
            length, position = _varint(data, position)
        if position + length > len(data):
            raise ValueError(f"a field of {length} bytes goes beyond the end")
        yield key >> 3, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
        if shift > 63:
            raise ValueError("a number longer than 64 bits")
