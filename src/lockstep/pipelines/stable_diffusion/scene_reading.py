"""What a sentence asks a model of single things for: which things, how many of each, and how they stand to each other.

The names of the things come with the model (`KnownWords`). Each thing is told to the model in the words that it was
taught most: by its usual name, with the colour, the mood and the style that the sentence has for it. A sentence that
names no thing is left as it is: the model reads it whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...tokenizers.known_words import KnownWords
from .scene_places import MOST, WHOLE, Place, above, in_front, in_rows, placed, shrunk
from .scene_words import (
    ARTICLES,
    ASKING,
    BACKGROUND,
    COLOUR_WORDS,
    DRAWN_WORN,
    JOINTS,
    MOODS,
    NUMBERS,
    OTHER_STYLE,
    OVER,
    PLACES,
    RIGHT_OF,
    SMALL,
    STYLE,
    TOKEN,
    UMLAUTS,
    UNDER,
    VAGUE,
    WEARING,
    WITHIN,
    WORN,
)

HOLDING = ARTICLES | JOINTS | ASKING | NUMBERS.keys()  # what holds a sentence together
MARKED = "(<["  # a text with weights or added words: its writer knows the model's own words


@dataclass(frozen=True)
class Part:
    """One thing of a scene: the words for it alone, and where it stands."""

    text: str
    place: Place


@dataclass(frozen=True)
class Mention:
    """A thing that a sentence names: its tokens from `start` to `end`, and how many it wants."""

    start: int
    end: int
    name: str
    plural: bool = False
    number: int = 1
    adjectives: tuple[str, ...] = ()
    before: tuple[str, ...] = ()  # the words since the thing before
    worn: tuple[str, ...] = ()  # what it wears or has


@dataclass(frozen=True)
class SceneReader:
    """Reads sentences about the things that a model knows."""

    known: KnownWords

    @cached_property
    def names(self) -> dict[tuple[str, ...], tuple[str, bool]]:
        """Every name as its words -> the name in the singular, and whether these words are its plural."""
        things = self.known.things
        many = {tuple(TOKEN.findall(plural)): (name, True) for name, plural in things.items() if plural}
        found = many | {tuple(TOKEN.findall(name)): (name, False) for name in things}
        return {
            words: name for words, name in found.items() if not ASKING.issuperset(words) and words[0] not in ARTICLES
        }

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.names), default=0)

    def read(self, text: str) -> list[Part] | None:
        """The things that a text asks for, each in the model's words; None where the model reads the text as it is."""
        if any(mark in text for mark in MARKED):
            return None
        rest, background = taken(BACKGROUND, text.lower())
        rest, style = taken(STYLE, rest)
        rest, style = (rest, style) if style else taken(OTHER_STYLE, rest)
        suffix = (f", {style} style" if style else "") + (
            f" on {with_article(COLOUR_WORDS[background])} background" if background else ""
        )
        tokens = TOKEN.findall(rest)
        mentions = joined(list(self.mentions(tokens))) or joined(list(self.nearest_mentions(tokens)))
        if not mentions:
            return None
        mentions = [coloured_behind(mention, tokens) for mention in mentions]
        parts = [(self.words_for(mention) + suffix, mention) for mention in mentions]
        if len(parts) == 1 and parts[0][1].number == 1:
            return self.single(text, rest, *parts[0])
        crowned = tuple(tokens[mentions[-1].end :][:2]) == ("on", "top")
        return laid_out(parts, "under" if crowned else relation_of(mentions[-1].before))

    def single(self, text: str, rest: str, words: str, mention: Mention) -> list[Part] | None:
        """One thing, which fills the picture unless the sentence has a place or a size for it."""
        place = single_place(rest, mention)
        return None if place == WHOLE and words == text else [Part(words, place)]

    def mentions(self, tokens: Sequence[str]) -> Iterator[Mention]:
        """The names in a sentence, the longest ones first taken."""
        at, last = 0, 0
        while at < len(tokens):
            for size in range(min(self.longest, len(tokens) - at), 0, -1):
                found = self.names.get(tuple(tokens[at : at + size]))
                if found:
                    yield Mention(last, at + size, *found, before=tuple(tokens[last:at]))
                    last = at = at + size
                    break
            else:
                counted = bool(at) and tokens[at - 1] in NUMBERS
                name = (self.singular_of(tokens[at]) if counted else None) or self.meant_by(tokens[at])
                if name:
                    yield Mention(last, at + 1, name, counted, before=tuple(tokens[last:at]))
                    last = at + 1
                at += 1

    def nearest_mentions(self, tokens: Sequence[str]) -> Iterator[Mention]:
        """For a sentence that names nothing known: what comes nearest in meaning to its last word that has such."""
        for at in reversed(range(len(tokens))):
            near = [name for name in self.known.near.get(tokens[at], ()) if name in self.known.things]
            if near and tokens[at] not in HOLDING:
                yield Mention(0, at + 1, near[0], before=tuple(tokens[:at]))
                return

    def meant_by(self, word: str) -> str | None:
        """The name that a word is a slip of the pen for."""
        return None if word in HOLDING or word in COLOUR_WORDS else self.known.meant_by(word)

    def singular_of(self, word: str) -> str | None:
        """The name whose plural a word after a number may be, by the endings of the further languages."""
        stems = [word, word[:-1], word[:-2], *(word[:-1] + ending for ending in "aeo")]
        stems = [stem for stem in stems if len(stem) > 2]
        stems += [stem.translate(UMLAUTS) for stem in stems]
        return next((stem for stem in stems if stem in self.known.things), None)

    def words_for(self, mention: Mention) -> str:
        """One of the things a mention names, in the words that the model was taught most."""
        name = self.usual(mention.name)
        told = [COLOUR_WORDS.get(word, word) for word in mention.adjectives if self.tells(word)]
        worn = [DRAWN_WORN[thing] for thing in map(self.usual, mention.worn) if thing in DRAWN_WORN]
        phrase = " ".join([*told, name, *worn])
        return with_article(phrase) if self.known.things.get(name) and phrase[0].isalpha() else phrase

    def usual(self, name: str) -> str:
        return self.known.usual.get(name, name)

    def tells(self, word: str) -> bool:
        """Whether an adjective changes the picture: colours and moods do, and words of nobody's language may have
        been taught by somebody (the word of a LoRA)."""
        if word in COLOUR_WORDS:
            return COLOUR_WORDS[word] != "white"
        plain = word in self.known.words or word in self.known.near or word in SMALL
        return word in MOODS or not plain


def single_place(text: str, mention: Mention) -> Place:
    """Where one thing stands, and how large."""
    told = PLACES.search(text)
    if told:
        down, across, alone = told.groups()
        return placed(across or alone, {"upper": "top", "lower": "bottom"}.get(down, down))
    return placed(None, None, small=True) if SMALL & set(mention.adjectives) else WHOLE


def taken(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """The text without what the pattern finds, and the word that was found."""
    found = pattern.search(text)
    if not found:
        return text, ""
    return text[: found.start()] + text[found.end() :], next(word for word in found.groups() if word)


def joined(found: Sequence[Mention]) -> list[Mention]:
    """Mentions with numbers and adjectives; names that stand beside each other, or are worn, are one thing."""
    whole: list[Mention] = []
    for mention in found:
        words = set(mention.before)
        counted = bool(words & (ARTICLES | NUMBERS.keys()))
        separate = is_sign(mention.name) or counted or ("with" not in words and bool(words & JOINTS))
        worn = bool(WEARING & words) or (bool({"with", "in"} & words) and (mention.name in WORN or mention.plural))
        if whole and worn:
            whole[-1] = replace(whole[-1], end=mention.end, worn=(*whole[-1].worn, mention.name))
        elif whole and not separate:
            whole[-1] = compound(whole[-1], mention)
        else:
            whole.append(described(mention))
    return whole


def compound(first: Mention, second: Mention) -> Mention:
    """Two names beside each other: "rocket ship" is a ship, "orange cat" a cat in orange, "face with heart eyes" the
    first."""
    if "with" in second.before:
        return replace(first, end=second.end)
    colours = tuple(word for word in first.name.split() if word in COLOUR_WORDS)
    own = described(second)
    return replace(own, start=first.start, number=max(first.number, own.number), before=first.before,
                   adjectives=(*first.adjectives, *colours, *own.adjectives))  # fmt: skip


def coloured_behind(mention: Mention, tokens: Sequence[str]) -> Mention:
    """The mention with a colour that stands behind its name: "une voiture bleue", "a cat in blue"."""
    behind = [word for word in tokens[mention.end : mention.end + 2] if word not in (",", "in")][:1]
    colours = tuple(word for word in behind if word in COLOUR_WORDS)
    return replace(mention, adjectives=(*mention.adjectives, *colours))


def described(mention: Mention) -> Mention:
    """The mention with the number and the adjectives that stand before its name."""
    words = list(mention.before)
    number = next((NUMBERS[word] for word in reversed(words) if word in NUMBERS), 2 if mention.plural else 1)
    if not (mention.plural or set(words) & NUMBERS.keys() - VAGUE):
        number = 1  # "a pair of glasses", "some fries": one thing
    breaks = [at for at, word in enumerate(words) if word in HOLDING]
    own = words[breaks[-1] + 1 :] if breaks else words
    return replace(mention, number=number, adjectives=tuple(word for word in own if word.isalpha()))


def laid_out(parts: Sequence[tuple[str, Mention]], relation: str) -> list[Part]:
    """The things in their places, where two are named as the second stands to the first; more than the picture has
    room for are left out."""
    small = [bool(SMALL & set(mention.adjectives)) for _, mention in parts]
    smaller = [one and not all(small) for one in small]  # than the others
    things = [
        (text, shrinks) for (text, mention), shrinks in zip(parts, smaller, strict=True) for _ in range(mention.number)
    ][:MOST]
    if len(parts) == 2:
        first, second = (min(mention.number, MOST - 1) for _, mention in parts)
        if relation == "over":
            places = above(first, second)
        elif relation == "under":
            places = [*(lower := above(second, first))[second:], *lower[:second]]
        elif relation == "within" and first == second == 1:
            places = in_front()
        else:
            places = in_rows(len(things))
            if relation == "right of" and first == second == 1:
                places = places[::-1]
    else:
        places = in_rows(len(things))
    placed_things = zip(things, places, strict=False)
    return [Part(text, shrunk(place) if shrinks else place) for (text, shrinks), place in placed_things]


def relation_of(words: Sequence[str]) -> str:
    """How a thing stands to the one before it, by the words between them."""
    between = f" {' '.join(words)} "
    for relation, ways in (("right of", RIGHT_OF), ("over", OVER), ("under", UNDER), ("within", WITHIN)):
        if any(f" {way} " in between for way in ways):
            return relation
    return "beside"


def with_article(phrase: str) -> str:
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "ufo", "eu"))
    return f"{'an' if vowel else 'a'} {phrase}"


def is_sign(name: str) -> bool:
    """Whether a name is no word: the emoji itself."""
    return not any(character.isalnum() for character in name)
