"""More words for a tokenizer that a model was trained with: every token stays, whole words are added after them.

A new word begins with the embedding of what it means: "puppy" and "chien" with that of "dog", "🐶" too. The model draws
the right thing from the first step on, and training only has to make out the rest of the sentence.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn

import tokenizers

from ...tokenizers import CLIPTokenizer
from .data import ItemTable, load_items
from .data.concepts import read_words
from .data.scenes import SceneDrawer, plural_of
from .data.storage import read_json, write_json

END = "</w>"
MARKS = ("<|startoftext|>", "<|endoftext|>")
WORD = re.compile(r"[^\W\d_]+|\d|[^\w\s]+")
CAPTIONS_DRAWN = 20_000  # enough to meet every word of the grammar


def widen_tokenizer(work: Path, released: Path) -> Path:
    """The tokenizer of a released folder with every word of the captions as one token; writes it and the meanings."""
    tokenizer = CLIPTokenizer.from_pretrained(released / "tokenizer")
    table = load_items(work)
    meanings = meanings_of(table)
    words = dict.fromkeys([*meanings, *grammar_words(table)])
    vocabulary, merges = widened(tokenizer.backend, words)
    wider = CLIPTokenizer.from_vocabulary(vocabulary, merges, model_max_length=tokenizer.model_max_length)
    wider.save_pretrained(work / "tokenizer")
    write_json(work / "tokenizer-meanings.json", {"meanings": meanings})
    return work / "tokenizer"


def meanings_of(table: ItemTable, tiers: tuple[int, ...] = (1, 2)) -> dict[str, str]:
    """Words that name a concept of these tiers, each with the usual name of it; names of the core win."""
    odd = read_words()["plurals"]
    meanings: dict[str, str] = {}
    for concept in sorted(table.concepts.values(), key=lambda concept: concept.tier):
        if concept.tier not in tiers:
            continue
        names = [*concept.english, *(name for name in concept.foreign if " " not in name)]
        for word in (word for name in names for word in WORD.findall(name.lower())):
            meanings.setdefault(word, concept.name)
        for name in concept.english:
            for word, plural in zip(WORD.findall(name), WORD.findall(plural_of(name, odd)), strict=False):
                meanings.setdefault(plural, concept.name if word == name else word)
        for emoji in filter(None, {concept.emoji, concept.emoji.replace("\ufe0f", "")}):
            meanings.setdefault(emoji, concept.name)
    return meanings


def grammar_words(table: ItemTable, tiers: tuple[int, ...] = (1, 2)) -> list[str]:
    """Words that captions use around the names, met by drawing many."""
    rng, drawer = random.Random(0), SceneDrawer(table, tiers=tiers)
    items = table.select(tiers=tiers)
    drawn = (table.draw_caption(items[rng.randrange(len(items))], rng) for _ in range(CAPTIONS_DRAWN))
    scenes = (drawer.draw(rng).caption for _ in range(CAPTIONS_DRAWN))
    return sorted({word for captions in (drawn, scenes) for caption in captions for word in WORD.findall(caption)})


def widened(backend: tokenizers.Tokenizer, words: Iterable[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges with further merges at the end that make each word one token."""
    model = json.loads(backend.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    tokens = [token for token, _ in sorted(model["vocab"].items(), key=lambda entry: entry[1]) if token not in MARKS]
    added: dict[tuple[str, str], int] = {}
    for start in (pieces for word in words for pieces in pieces_of(backend, word)):
        pieces = merged(start, added)
        while len(pieces) > 1:
            added[pieces[0], pieces[1]] = len(added)
            tokens.append(pieces[0] + pieces[1])
            pieces = merged(pieces, added)
    ordered = {token: index for index, token in enumerate([*dict.fromkeys(tokens), *MARKS])}
    return ordered, [*merges, *added]


def pieces_of(backend: tokenizers.Tokenizer, word: str) -> Iterable[list[str]]:
    """The word as it stands alone and, if it is a symbol, as it stands before another one ("🐶🐱")."""
    yield backend.encode(word, add_special_tokens=False).tokens
    if not any(character.isascii() or character.isalnum() for character in word):
        yield backend.encode(word + "!", add_special_tokens=False).tokens[:-1]


def merged(pieces: list[str], merges: Mapping[tuple[str, str], int]) -> list[str]:
    """The pieces of a word after the merges (by rank) that apply to them, the lowest rank first, as BPE does it."""
    pieces = list(pieces)
    while len(pieces) > 1:
        pairs = enumerate(pairwise(pieces))
        known = [(merges[pair], place) for place, pair in pairs if pair in merges]
        if not known:
            break
        place = min(known)[1]
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
    return pieces


@torch.no_grad()
def adopt_embedding(
    embedding: nn.Embedding,
    wider: tokenizers.Tokenizer,
    released: Tensor,
    narrower: tokenizers.Tokenizer,
    meanings: Mapping[str, str],
) -> int:
    """Fill the embedding of the wider vocabulary from the narrower one's; how many tokens took their meaning from
    words."""
    ids, old = wider.get_vocab(), narrower.get_vocab()
    embedding.weight.copy_(released.mean(0).expand_as(embedding.weight))
    for token, index in ids.items():
        if token in old:
            embedding.weight[index] = released[old[token]]
    count = 0
    for word, meaning in meanings.items():
        for pieces in pieces_of(wider, word):
            if len(pieces) == 1 and pieces[0] not in old:
                meant = narrower.encode(meaning, add_special_tokens=False).ids
                embedding.weight[ids[pieces[0]]] = released[meant].mean(0)
                count += 1
    return count


def read_meanings(work: Path) -> dict[str, str]:
    path = work / "tokenizer-meanings.json"
    return read_json(path, made_by="tokenizer")["meanings"] if path.is_file() else {}
