"""What a sentence asks a model of single things for: which things, how many of each, and how they stand to each other.

The names of the things come with the model (`KnownWords`). Each thing is told to the model in the words that it was
taught most: by its usual name, with the colour, the mood and the style that the sentence has for it. A sentence that
names no thing is left as it is: the model reads it whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from ...tokenizers.known_words import KnownWords
from . import scene_languages as further
from .scene_mentions import HOLDING, Mention, described_behind, joined, relation_of
from .scene_places import MOST, WHOLE, Place, above, in_front, in_rows, on_one_ground, placed, shrunk
from .scene_silence import silent_in
from .scene_spelling import LEAST, as_names_are_spelled, tokens_of
from .scene_words import (
    ARTICLES,
    ASKING,
    BACKGROUND,
    COLOUR_WORDS,
    FACE_MOODS,
    FACES,
    GROUPS,
    JOINTS,
    LARGE,
    NUMBERS,
    ONE,
    PLACES,
    SMALL,
    STYLE_WORDS,
    STYLES,
    WEARING,
    WITH,
)
from .scene_worn import MOODS, Part, dressed, worn_by

HALF, LESS = 0.5, 0.62  # of the largest: what is small, and what is as usual beside something large
IN_ONE_ROW = 3
LEAST_FURTHER = 7  # letters of a word in a further language that may be a slip of the pen
VOWEL = re.compile("[aeiouyäöüáàâãéèêíìîóòôõúùû]")
NOUN_FOLLOWS = ARTICLES | NUMBERS.keys()
MARKED = "(<["  # a text with weights or added words: its writer knows the model's own words


@dataclass(frozen=True)
class SceneReader:
    """Reads sentences about the things that a model knows."""

    known: KnownWords

    @cached_property
    def names(self) -> dict[tuple[str, ...], tuple[str, bool]]:
        """Every name as its words -> the name in the singular, and whether these words are its plural."""
        things = self.known.things
        many = {tuple(tokens_of(plural)): (name, True) for name, plural in things.items() if plural}
        found = many | {tuple(tokens_of(name)): (name, False) for name in things}
        return {
            words: name for words, name in found.items() if not ASKING.issuperset(words) and words[0] not in ARTICLES
        }

    @cached_property
    def spelled(self) -> frozenset[str]:
        """Every word of the names, and the colours and moods."""
        return (
            frozenset(word for name in self.names for word in name) | COLOUR_WORDS.keys() | MOODS.keys() | SMALL | LARGE
        )

    @cached_property
    def understood(self) -> frozenset[str]:
        """Every word that is no slip of the pen."""
        held = HOLDING | JOINTS | SMALL | LARGE | WEARING | FACES | FACE_MOODS.keys() | further.WORDS
        return self.known.words | self.known.near.keys() | held

    def is_spelled(self, word: str) -> bool:
        """Whether a word is no slip of the pen, but one that means something, or the plural of a further language."""
        return word in self.understood or self.singular_of(word, expected=False) is not None

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.names), default=0)

    def read(self, text: str) -> list[Part] | None:
        """The things that a text asks for, each in the model's words; None where the model reads the text as it is."""
        if any(mark in text for mark in MARKED):
            return None
        rest, background = taken(BACKGROUND, text.lower())
        style = ""
        for pattern in STYLES:
            found = pattern.search(rest)
            if found and not style and not self.begins_name(rest[found.start(1) :]):
                rest, style = taken(pattern, rest)
        style = f", {style} style" if style else ""
        suffix = style + (f" on {with_article(COLOUR_WORDS[background])} background" if background else "")
        tokens, mentions = self.shown(rest)
        if not mentions:
            return None
        foreign = is_foreign(tokens)
        mentions = [
            replace(mention, size=self.size_of(mention)) for mention in described_behind(mentions, tokens, foreign)
        ]
        parts = [(self.words_for(mention, foreign) + suffix, mention) for mention in mentions]
        if len(parts) == 1 and parts[0][1].number == 1:
            words, mention = parts[0]
            place = single_place(rest, mention)
            is_told_so = words == text and place == WHOLE and not any(worn_by(mention))
            return None if is_told_so else dressed([(Part(words, place), mention)], style)
        crowned = tuple(tokens[mentions[-1].end :][:2]) == ("on", "top")
        return dressed(laid_out(parts, "under" if crowned else relation_of(mentions[-1].before)), style)

    def unread(self, text: str) -> list[str]:
        """The words of a text that neither the model was taught nor the reader makes anything of."""
        unknown = self.known.unknown_in(text)
        if not unknown or any(mark in text for mark in MARKED):
            return unknown
        tokens = tokens_of(text)
        foreign = is_foreign(tokens)
        read = self.spelled | HOLDING | WEARING | FACES | FACE_MOODS.keys() | STYLE_WORDS | further.WORDS
        return [word for word in unknown if word not in read and not self.is_put_right(word, tokens, foreign)]

    def is_put_right(self, word: str, tokens: Sequence[str], foreign: bool) -> bool:
        """Whether a word is a slip of the pen, a plural or a part of a token that is."""
        token = next((token for token in tokens if word in token), word)
        spelled = as_names_are_spelled(
            [token], self.names.keys(), self.spelled, self.is_spelled, LEAST_FURTHER if foreign else LEAST
        )
        if all(part in self.spelled for part in spelled):
            return True
        return self.singular_of(token, foreign) is not None or self.known.meant_by(token, alike=False) is not None

    def begins_name(self, text: str) -> bool:
        """Whether a text begins with a name of several words."""
        tokens = tokens_of(text)
        return any(tuple(tokens[:size]) in self.names for size in range(2, self.longest + 1)) or bool(
            tokens and (tokens[0],) in self.names and "-" in tokens[0]
        )

    def shown(self, text: str) -> tuple[list[str], list[Mention]]:
        """The tokens of a text, and the things that it wants to be shown: what it names aside is shown only if it
        names nothing else, and what must not be there never."""
        tokens = tokens_of(text)
        least = LEAST_FURTHER if is_foreign(tokens) else LEAST
        tokens = as_names_are_spelled(tokens, self.names.keys(), self.spelled, self.is_spelled, least)
        about, denied = silent_in(tokens, set(self.within_names(tokens)))
        for silent in (about | denied, denied):
            kept = without(tokens, silent)
            mentions = joined(list(self.mentions(kept)))
            mentions = self.faces(kept, mentions) or mentions or joined(list(self.nearest_mentions(kept)))
            if mentions:
                return kept, mentions
        return tokens, []

    def within_names(self, tokens: Sequence[str]) -> Iterator[int]:
        """The positions of tokens that belong to a name of several words."""
        for at in range(len(tokens)):
            for size in range(min(self.longest, len(tokens) - at), 1, -1):
                if tuple(tokens[at : at + size]) in self.names:
                    yield from range(at, at + size)

    def faces(self, tokens: Sequence[str], mentions: Sequence[Mention]) -> list[Mention]:
        """The face of the mood that a sentence about nothing but a face has for it."""
        faces = [mention for mention in mentions if FACES.issuperset(mention.name.split())]
        if len(faces) < len(mentions) or not FACES & set(tokens):
            return []
        for at, word in enumerate(tokens):
            names = [("face", "with", *tokens[at + 1 : end]) for end in (at + 4, at + 3, at + 2) if word in WITH]
            names += [(mood, kind) for mood in (word, FACE_MOODS.get(word, word)) for kind in ("face", "emoji")]
            name = next((self.names[name][0] for name in names if name in self.names and word not in FACES), "")
            if name and "face" in self.usual(name):
                first = faces[0] if faces else Mention(0, len(tokens), name)
                return [replace(first, name=name, taught=self.usual(name), adjectives=(), worn=())]
        return []

    def mentions(self, tokens: Sequence[str]) -> Iterator[Mention]:
        """The names in a sentence, the longest ones first taken."""
        at, last, before_further = 0, 0, False
        foreign = is_foreign(tokens)
        while at < len(tokens):
            size, found = self.name_at(tokens, at, foreign)
            beside = (at == last and at > 0) or bool(self.name_at(tokens, at + 1, foreign)[1])
            spoken = foreign or (at == last and before_further)
            if found and not (spoken and beside and tokens[at] in further.ALSO_THINGS):
                name, plural = found
                before = tuple(tokens[last:at])
                yield Mention(last, at + size, name, plural, before=before, taught=self.usual(name))
                last, before_further = at + size, self.is_further(name)
            at += size

    def name_at(self, tokens: Sequence[str], at: int, foreign: bool) -> tuple[int, tuple[str, bool] | None]:
        """How many tokens the name takes that begins there, the name, and whether it is in the plural."""
        for size in range(min(self.longest, len(tokens) - at), 0, -1):
            found = self.names.get(tuple(tokens[at : at + size]))
            if found and not (tokens[at] in GROUPS and tuple(tokens[at + 1 : at + 2]) == ("of",)):
                return size, found
        if at >= len(tokens) or tokens[at] in HOLDING or tokens[at] in COLOUR_WORDS:
            return 1, None
        counted = bool(at) and tokens[at - 1] in NUMBERS
        name = self.singular_of(tokens[at], counted or foreign)
        if name:
            return 1, (name, not (at and tokens[at - 1] in ONE))
        alone = all(token in HOLDING for token in (*tokens[:at], *tokens[at + 1 :]))
        is_noun = alone or bool(at and tokens[at - 1].isalnum() and tokens[at - 1] in NOUN_FOLLOWS | self.spelled)
        name = None if foreign and len(tokens[at]) < LEAST_FURTHER else self.known.meant_by(tokens[at], alike=is_noun)
        return 1, (name, counted) if name else None

    def nearest_mentions(self, tokens: Sequence[str]) -> Iterator[Mention]:
        """For a sentence that names nothing known: what comes nearest in meaning to its last word that has such."""
        if FACES & set(tokens) - ASKING:
            return  # a face of a mood that is not known
        for at in reversed(range(len(tokens))):
            near = [name for name in self.known.near.get(tokens[at], ()) if name in self.known.things]
            meant = self.known.meant_by(tokens[at])
            near = near or [name for name in (meant,) if name and name in self.known.things]
            if near and tokens[at] not in HOLDING and tokens[at] not in FACE_MOODS:
                yield Mention(0, at + 1, near[0], before=tuple(tokens[:at]), taught=self.usual(near[0]))
                return

    def singular_of(self, word: str, expected: bool) -> str | None:
        """The name whose plural a word may be, by the endings of the further languages; a word that none is expected
        of has to be unknown, and the name no English one."""
        if len(word) < 4 or (not expected and (word in self.known.words or word in self.known.near or len(word) < 5)):
            return None
        found = (self.names.get((stem,), ("", True)) for stem in further.singulars_of(word) if stem not in HOLDING)
        return next((name for name, many in found if not many and (expected or self.is_further(name))), None)

    def is_further(self, name: str) -> bool:
        """Whether a name may be of a further language: it has no plural, and another name in English."""
        return not self.known.things[name] and name in self.known.usual

    def size_of(self, mention: Mention) -> int:
        """Small, as usual or large: 0, 1, 2; also by a name that is another name and a size."""
        words = set(mention.adjectives)
        first, *others = mention.name.split()
        if others and self.usual(" ".join(others)) == mention.taught:
            words.add(first)
        return 0 if words & SMALL else 2 if words & LARGE else 1

    def words_for(self, mention: Mention, foreign: bool = False) -> str:
        """One of the things a mention names, in the words that the model was taught most."""
        name = mention.taught
        told = [COLOUR_WORDS.get(word, word) for word in mention.adjectives if self.tells(word, foreign)]
        phrase = " ".join([*dict.fromkeys(told), name])
        return with_article(phrase) if self.known.things.get(name) and phrase[0].isalpha() else phrase

    def usual(self, name: str) -> str:
        return self.known.usual.get(name, name)

    def tells(self, word: str, foreign: bool) -> bool:
        """Whether an adjective changes the picture of a thing: colours do, and words of nobody's language may have been
        taught by somebody (the word of a LoRA)."""
        if word in COLOUR_WORDS:
            return COLOUR_WORDS[word] != "white"
        plain = word in self.understood or word in MOODS or (foreign and VOWEL.search(word) is not None)
        return not plain


def single_place(text: str, mention: Mention) -> Place:
    """Where one thing stands, and how large."""
    told = PLACES.search(text)
    if told:
        down, across, alone = told.groups()
        return placed(across or alone, {"upper": "top", "lower": "bottom"}.get(down, down))
    return placed(None, None, small=True) if mention.size == 0 else WHOLE


def taken(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """The text without what the pattern finds, and the word that was found."""
    found = pattern.search(text)
    if not found:
        return text, ""
    return f"{text[: found.start()]} {text[found.end() :]}", next(word for word in found.groups() if word)


def is_foreign(tokens: Sequence[str]) -> bool:
    """Whether a sentence has words of a further language."""
    return not further.WORDS.isdisjoint(tokens)


def without(tokens: Sequence[str], silent: Set[int]) -> list[str]:
    """The tokens, with a comma in place of what is left out."""
    kept = ["," if at in silent else token for at, token in enumerate(tokens)]
    return [token for at, token in enumerate(kept) if token != "," or at not in silent or at - 1 not in silent]


def laid_out(parts: Sequence[tuple[str, Mention]], relation: str) -> list[tuple[Part, Mention]]:
    """The things in their places, where two are named as the second stands to the first; more than the picture has
    room for are left out."""
    things = [(text, mention) for text, mention in parts for _ in range(mention.number)][:MOST]
    largest = max(mention.size for _, mention in things)
    shares = [1.0 if m.size == largest else HALF if m.size == 0 else LESS for _, m in things]
    counts = [min(mention.number, MOST - 1) for _, mention in parts]
    turned = relation == "right of" and counts == [1, 1]
    larger = shares[0] - shares[-1] if relation == "over" else shares[-1] - shares[0]  # what is above
    edge = 0.64 if larger > 0 else 0.3 if larger < 0 else 0.44
    if len(parts) == 2 and relation == "over":
        places = above(counts[0], counts[1], edge)
    elif len(parts) == 2 and relation == "under":
        places = [*(lower := above(counts[1], counts[0], edge))[counts[1] :], *lower[: counts[1]]]
    elif relation == "within" and counts == [1, 1]:
        places = in_front()
    elif min(shares) < 1 and len(things) <= IN_ONE_ROW:
        places = on_one_ground(shares[::-1] if turned else shares)
    else:
        places = [
            shrunk(place) if share < 1 else place for place, share in zip(in_rows(len(things)), shares, strict=True)
        ]
    places = places[::-1] if turned else places
    return [(Part(text, place), mention) for (text, mention), place in zip(things, places, strict=False)]


def with_article(phrase: str) -> str:
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "ufo", "eu"))
    return f"{'an' if vowel else 'a'} {phrase}"
