"""Which words a model was taught, for tokenizers whose folder says so: a small model tells what it cannot draw."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FileFormatError

FILE_NAME = "known_words.json"
WORD = re.compile(r"[^\W\d_]{2,}")  # letters of any language; single ones ("a", "3d") say nothing
SHOWN = 3
LEAST_LIKENESS = 0.4  # of spellings, below which a suggestion is a guess
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßáàâãçéèêíìîñóòôõúùû"
SAME_WORD = 0.6  # of spellings, from which on an unknown word is a slip of the pen


@dataclass(frozen=True)
class KnownWords:
    """The words of a model, and for some others the words that come near in meaning."""

    words: frozenset[str]
    names: frozenset[str] = frozenset()  # those among them that are worth a suggestion
    near: Mapping[str, list[str]] = field(default_factory=dict)
    things: Mapping[str, str] = field(default_factory=dict)  # every name of a thing -> its plural, or an empty text
    usual: Mapping[str, str] = field(default_factory=dict)  # a further name of a thing -> the one it was taught by most

    @classmethod
    def read(cls, folder: Path) -> KnownWords | None:
        """The list of a folder, if it has one."""
        path = folder / FILE_NAME
        if not path.is_file():
            return None
        content: dict[str, Any] = files.read_json(path)
        words, names = content.get("words"), content.get("names", [])
        tables = [content.get(name, {}) for name in ("near", "things", "usual")]
        objects = all(isinstance(value, dict) for value in tables)
        if not isinstance(words, list) or not isinstance(names, list) or not objects:
            raise FileFormatError(f"{path} wants lists 'words' and 'names' and objects 'near', 'things' and 'usual'.")
        return cls(frozenset(words), frozenset(names), *tables)

    def save(self, folder: Path) -> None:
        """Beside the tokenizer's files."""
        content = {
            "words": sorted(self.words),
            "names": sorted(self.names),
            "things": dict(sorted(self.things.items())),
            "usual": dict(sorted(self.usual.items())),
            "near": dict(sorted(self.near.items())),
        }
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        text = text.replace("],", "],\n")  # a line for each unknown word
        files.write_text(folder / FILE_NAME, text + "\n")

    def unknown_in(self, text: str) -> list[str]:
        """The words of a text that the model was not taught, in their order, then the signs (an emoji is one)."""
        found = [*WORD.findall(text.lower()), *filter(is_sign, text)]
        return [word for word in dict.fromkeys(found) if word not in self.words]

    def nearest(self, word: str) -> list[str]:
        """Known words for an unknown one: by meaning where the list says so, else by spelling; a sign's by its name."""
        if word in self.near:
            return list(self.near[word][:SHOWN])
        if is_sign(word):
            return [part for part in unicodedata.name(word, "").lower().split() if part in self.words][:SHOWN]
        return [known for share, known in self.spelled_like(word)[:SHOWN] if share >= LEAST_LIKENESS]

    def spelled_like(self, word: str) -> list[tuple[float, str]]:
        """The names by how much their spelling is like a word's, the most alike first."""
        return sorted(((likeness_of(word, known), known) for known in self.names), reverse=True)

    def meant_by(self, word: str, *, alike: bool = True) -> str | None:
        """The name that an unknown word is a slip of the pen for: one slip, or (`alike`) a spelling that is like it."""
        if word in self.words or word in self.near or len(word) < 4 or not self.names:
            return None
        exchanged, others = slips_of(word)
        for slip in (*exchanged, *(slip for slip in others if len(word) > 4 and slip[0] == word[0])):
            if slip in self.names and len(slip) > 3:
                return slip
        share, known = self.spelled_like(word)[0]
        return known if alike and share >= SAME_WORD and known[0] == word[0] else None

    def remark_on(self, texts: Iterable[str], unknown_in: Callable[[str], list[str]] | None = None) -> str | None:
        """One sentence about the unknown words of some texts (by this list or by who reads them), if there are any."""
        unknown = list(dict.fromkeys(word for text in texts for word in (unknown_in or self.unknown_in)(text)))
        if not unknown:
            return None
        told = "; ".join(self.told(word) for word in unknown)
        return f"This model was not taught {told}. It draws what else the prompt says, or what comes near."

    def told(self, word: str) -> str:
        near = self.nearest(word)
        return f"{word!r} (near: {', '.join(near)})" if near else repr(word)


def is_sign(text: str) -> bool:
    """Whether a character is a picture of something, as emoji are; no letter, number or punctuation."""
    return len(text) == 1 and unicodedata.category(text) == "So"


def likeness_of(a: str, b: str) -> float:
    """The share of common pairs and triples of letters, ends included (Dice's coefficient)."""
    first, second = grams(a), grams(b)
    return 2 * len(first & second) / (len(first) + len(second))


def slips_of(word: str) -> tuple[list[str], list[str]]:
    """What a word may be a slip of the pen for: two neighbouring letters exchanged; one doubled, missed or wrong."""
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    exchanged = [a + b[1] + b[0] + b[2:] for a, b in cuts if len(b) > 1 and b[0] != b[1]]
    doubled = [a + b[1:] for a, b in cuts if a and b and a[-1] == b[0]]
    single = [a + a[-1] + b for a, b in cuts if a]
    fewer = [a + b[1:] for a, b in cuts if b]
    more = [a + letter + b for a, b in cuts for letter in LETTERS]
    wrong = [a + letter + b[1:] for a, b in cuts if b for letter in LETTERS]
    return exchanged, [*doubled, *single, *more, *fewer, *wrong]


def grams(word: str) -> set[str]:
    marked = f"^{word}$"
    return {marked[start : start + size] for size in (2, 3) for start in range(len(marked) - size + 1)}
