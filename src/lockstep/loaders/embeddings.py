"""Textual inversion files (arXiv:2208.01618): words, each with the vectors that stand for it.

| form | content |
|---|---|
| diffusers | the word itself -> (n, width) or (width,) |
| A1111, a pickle | `string_to_param` {"*": (n, width)} and `name` |
| A1111, safetensors | `emb_params` (n, width); the word is the file's name |
| SDXL | `clip_l` (n, 768) and `clip_g` (n, 1280); the word is the file's name |
| pivotal tuning | `text_encoders_0`, `text_encoders_1`: row k of each is the word `<sk>` |
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import FileFormatError, InputError, WeightsError
from ..models.weights import DTYPES, open_weights, read_tensors
from .checkpoint import unpickled
from .header import container_of, read_header

NAMES = ("learned_embeds.safetensors", "learned_embeds.bin")
ROLES = {  # of a tensor that says which encoder it is for
    "clip_l": "text_encoder",
    "clip_g": "text_encoder_2",
    "text_encoders_0": "text_encoder",
    "text_encoders_1": "text_encoder_2",
}
PLAIN = ("emb_params", "string_to_param.*", "*")  # names that are not the word
WIDTHS = {768: "Stable Diffusion 1.x, or the first encoder of XL", 1024: "2.x", 1280: "the second encoder of XL"}


@dataclass(frozen=True)
class Word:
    """A word and its vectors (n, width), for one encoder or for whichever has their width."""

    token: str
    vectors: Tensor
    encoder: str | None = None


@dataclass(frozen=True)
class WordFile:
    """The words of a file."""

    source: str
    sha256: str
    words: tuple[Word, ...]


def read_words(
    source: Path | Mapping[str, Any] | Tensor, token: str | None = None, allow_pickle: bool = False
) -> WordFile:
    """The words of a file, of a dict or of a tensor; `token` names the word otherwise than the file does."""
    if isinstance(source, Path):
        content, name = _read(source, allow_pickle), str(source)
        sha256, stem = hashlib.sha256(source.read_bytes()).hexdigest(), source.stem
    else:
        content, name, stem = (
            {"*": source} if isinstance(source, Tensor) else dict(source),
            "tensors given by hand",
            None,
        )
        sha256 = hashlib.sha256(b"".join(_bytes(t) for t in _tensors(content).values())).hexdigest()
    tensors = _tensors(content)
    if not tensors:
        raise WeightsError(f"{name} holds no vectors of a textual inversion; it has: {', '.join(map(str, content))}.")
    words = []
    for key, value in tensors.items():
        vectors = value if value.ndim == 2 else value[None]
        if vectors.ndim != 2 or not vectors.dtype.is_floating_point or not torch.isfinite(vectors.float()).all():
            raise WeightsError(
                f"{name}: {key!r} wants finite vectors of shape (n, width), got {list(value.shape)} {value.dtype}."
            )
        if key.startswith("text_encoders_") and token is None:
            words += [Word(f"<s{k}>", row[None], ROLES[key]) for k, row in enumerate(vectors)]
            continue
        told = None if key in ROLES or key in PLAIN else key
        called = token or told or content.get("name") or stem
        if not isinstance(called, str) or not called.strip():
            raise InputError(f"{name} does not say which word its vectors stand for. Give it: token='<my-word>'.")
        words.append(Word(called, vectors, ROLES.get(key)))
    if token is not None and len({(word.token, word.encoder) for word in words}) != len(words):
        raise InputError(f"{name} holds {len(words)} words, so token={token!r} cannot name them. Leave it out.")
    counts = {word.encoder: len(word.vectors) for word in words if word.encoder}
    if len({word.token for word in words}) == 1 and len(set(counts.values())) > 1:
        told = " and ".join(f"{count} for {encoder}" for encoder, count in counts.items())
        raise WeightsError(f"{name}: the two encoders of a word want as many vectors each, got {told}.")
    return WordFile(name, sha256, tuple(words))


def _read(path: Path, allow_pickle: bool) -> dict[str, Any]:
    if container_of(path) == "safetensors":
        stored = open_weights([path])
        dtypes = {key: DTYPES[tensor.info.dtype] for key, tensor in stored.items()}
        return dict(read_tensors(stored, dtypes, torch.device("cpu")))
    if not allow_pickle:
        read_header(path)  # says why not
    content = unpickled(path)
    if isinstance(content, Tensor):
        return {"*": content}
    if not isinstance(content, Mapping):
        raise FileFormatError(f"{path} wants vectors by name, got {type(content).__name__}.")
    return {str(key): value for key, value in content.items()}


def _tensors(content: Mapping[str, Any]) -> dict[str, Tensor]:
    """The vectors of a file's content; A1111 keeps them one level down."""
    inner = content.get("string_to_param")
    given = inner if isinstance(inner, Mapping) else content
    return {str(key): value.detach() for key, value in given.items() if isinstance(value, Tensor)}


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
