"""The list of words that the embedded model was taught, and what comes near to words that it was not.

Meaning comes from public word vectors (GloVe, PDDL): for frequent English words the nearest names of things are kept.
Words
that only hold a sentence together are listed as known, because nobody expects to see them in a picture.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ...tokenizers.known_words import WORD, KnownWords, is_sign
from .data import ItemTable, load_items
from .data.captions import all_names
from .data.concepts import read_words
from .data.scenes import plural_of
from .tokenizer import VECTORS
from .vocabulary import grammar_words, meanings_of

FREQUENT = 30_000  # words of the vectors' file that are asked about; it is ordered by frequency
LEAST_COSINE = 0.5
SHOWN = 3


def build_known_words(work: Path, tiers: tuple[int, ...] = (1, 2)) -> KnownWords:
    """Every word of the captions of some tiers; and, where the word vectors are there, what is near to other words."""
    table = load_items(work)
    words = {
        part
        for word in (*meanings_of(table, tiers), *grammar_words(table, tiers), *read_words()["plain"])
        for part in (*WORD.findall(word.lower()), *filter(is_sign, word))
    }
    names = names_of_things(table, tiers)
    near = near_words(work / VECTORS, words, names)
    return KnownWords(frozenset(words), frozenset(names), near, things_of(table, tiers), usual_names(table, tiers))


def things_of(table: ItemTable, tiers: tuple[int, ...]) -> dict[str, str]:
    """Every name of a thing, in all languages and as the emoji, and its plural; what cannot be counted has none."""
    things: dict[str, str] = {}
    plurals = read_words()["plurals"]
    for concept in sorted(table.concepts.values(), key=lambda concept: -concept.tier):  # everyday names win
        if concept.tier in tiers:
            things |= dict.fromkeys((name.lower() for name in all_names(concept) if name), "")
            counted = zip(concept.english, concept.numbers, strict=True)
            things |= {name: plural_of(name, plurals) for name, number in counted if number == "count"}
    return things


def usual_names(table: ItemTable, tiers: tuple[int, ...]) -> dict[str, str]:
    """Every further name of a thing, in all languages and as the emoji, and the usual one; what is a usual name in
    English, or else any name in it, means that."""
    chosen = [concept for concept in table.concepts.values() if concept.tier in tiers]
    chosen.sort(key=lambda concept: -concept.tier)  # everyday things win
    usual: dict[str, str] = {}
    for names_of in (all_names, lambda concept: concept.english, lambda concept: concept.names[:1]):
        for concept in chosen:
            usual |= {name.lower(): concept.name for name in names_of(concept) if name}
    return {name: taught for name, taught in usual.items() if name != taught}


def names_of_things(table: ItemTable, tiers: tuple[int, ...]) -> list[str]:
    """Names of one word."""
    names = [name for concept in table.concepts.values() if concept.tier in tiers for name in concept.names]
    return [name for name in names if WORD.fullmatch(name)]


def near_words(vectors: Path, known: set[str], things: list[str]) -> dict[str, list[str]]:
    """For frequent words that are not known: the names whose vectors point nearly the same way."""
    if not vectors.is_file():
        return {}
    every: dict[str, list[float]] = json.loads(vectors.read_text(encoding="utf-8"))["vectors"]
    asked = [word for word in list(every)[:FREQUENT] if WORD.fullmatch(word) and word not in known]
    things = [name for name in things if name in every]
    directions, of_things = (unit(np.array([every[word][:100] for word in words])) for words in (asked, things))
    cosines = directions @ of_things.T
    near = {}
    for word, row in zip(asked, cosines, strict=True):
        best = [things[index] for index in np.argsort(-row)[:SHOWN] if row[index] >= LEAST_COSINE]
        if best:
            near[word] = best
    return near


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
