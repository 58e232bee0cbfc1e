"""A vocabulary of byte pairs as two files: `vocab.json`, tokens with their ids, and `merges.txt` in order of rank."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import tokenizers

from .. import files
from ..errors import FileFormatError, NotFoundError

Build = Callable[[str, str], tokenizers.Tokenizer]


def read_bpe(folder: Path, title: str, build: Build, others: int) -> tokenizers.Tokenizer:
    """The Rust object that `build` makes of the two paths; `others` are the tokens that no merge makes, at most."""
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    for path in (vocab, merges):
        if not path.is_file():
            raise NotFoundError(
                f"A {title} tokenizer is a tokenizer.json, or a vocab.json and a merges.txt; {path} is missing. "
                f"There: {files.listing(folder)}."
            )
    try:
        backend = build(str(vocab), str(merges))
    except Exception as problem:  # the library raises nothing narrower
        files.read_json(vocab)  # says it better when the file is not even JSON
        raise FileFormatError(f"{vocab} and {merges.name} do not make a BPE vocabulary: {problem}.") from None
    # A token is a byte, a mark or made by a merge: merges that were cut off would split words into letters.
    num_merges = sum(1 for line in merges.read_bytes().splitlines() if line and not line.startswith(b"#version"))
    if backend.get_vocab_size() > others + num_merges:
        raise FileFormatError(
            f"{vocab} has {backend.get_vocab_size()} tokens, but with the {num_merges} merges of {merges} there "
            f"can be at most {others + num_merges}: it is cut off, or belongs to another vocabulary."
        )
    return backend


def write_bpe(backend: tokenizers.Tokenizer, folder: Path) -> None:
    """Write `vocab.json` and `merges.txt`."""
    model = json.loads(backend.to_str())["model"]
    files.write_text(folder / "vocab.json", json.dumps(model["vocab"], ensure_ascii=False) + "\n")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in model["merges"])]
    files.write_text(folder / "merges.txt", "\n".join(lines) + "\n")
