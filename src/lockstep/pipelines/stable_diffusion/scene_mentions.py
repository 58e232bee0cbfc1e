"""The things that a sentence names: how many of each, what describes it, and what belongs to the thing before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from . import scene_languages as further
from .scene_words import (
    ABOUT_IT,
    ARTICLES,
    ASKING,
    COLOUR_WORDS,
    GROUPS,
    JOINTS,
    LARGE,
    MANY,
    NUMBERS,
    OF,
    OVER,
    RIGHT_OF,
    SMALL,
    UNDER,
    VAGUE,
    WEARING,
    WITH,
    WITHIN,
    WORN,
)

HOLDING = ARTICLES | JOINTS | ASKING | NUMBERS.keys() | further.PURPOSE | further.NOT  # what holds a sentence together

TOLD_BEHIND = COLOUR_WORDS.keys() | SMALL | LARGE
BEFORE_COLOUR = frozenset((",", "in", "is", "are", "ist", "sind", "est", "es", "è", "é"))


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
    taught: str = ""  # the usual name
    size: int = 1  # 0 small, 2 large


def joined(found: Sequence[Mention]) -> list[Mention]:
    """Mentions with numbers and adjectives; names that stand beside each other, or are worn, are one thing."""
    whole: list[Mention] = []
    attached = False  # whether the one before belongs to another
    for mention in found:
        words = set(mention.before)
        counted = bool(words & (ARTICLES | NUMBERS.keys()))
        separate = is_sign(mention.name) or counted or bool(not words & WITH and words & JOINTS)
        if whole and len(words) == 1 and words <= OF:  # "a bouquet of roses"
            whole[-1] = filled(whole[-1], mention)
        elif whole and (is_worn(mention) or (attached and goes_on(mention))):
            whole[-1] = wearing(whole[-1], mention)
            attached = True
            continue
        elif whole and (not separate or is_same(whole[-1], mention)):
            whole[-1] = compound(whole[-1], mention)
            if len(whole) > 1 and is_worn(whole[-1]):  # "with a cowboy hat"
                whole[-2:] = [wearing(whole[-2], whole[-1])]
                attached = True
                continue
        else:
            whole.append(described(mention))
        attached = bool(words & WITH) and not counted
    return whole


def wearing(thing: Mention, worn: Mention) -> Mention:
    """The thing with one thing more that it wears or has."""
    return replace(thing, end=worn.end, worn=(*thing.worn, worn.taught))


def filled(first: Mention, second: Mention) -> Mention:
    """A thing and what it is of: "une tasse de café" is the cup that the second is known by."""
    vessels = [mention.taught.partition(" of ") for mention in (first, second)]
    same = vessels[0][0] == vessels[1][0] and bool(vessels[1][1])
    taught = second.taught if same else first.taught
    return replace(first, end=second.end, taught=taught)


def is_worn(mention: Mention) -> bool:
    """Whether a thing is on or of the one before: "wearing a crown", "with candles"."""
    words = set(mention.before)
    clothes = mention.name in WORN or mention.taught in WORN
    several = mention.plural and not words & NUMBERS.keys()
    return bool(WEARING & words) or (bool((WITH | {"in"}) & words) and (clothes or several))


def goes_on(mention: Mention) -> bool:
    """Whether a thing carries on what the one before it began: "with a hat and glasses", "with ham and cheese"."""
    clothes = mention.name in WORN or mention.taught in WORN
    return set(mention.before) <= {"and", ",", "&", *(ARTICLES if clothes else ())}


def is_same(first: Mention, second: Mention) -> bool:
    """Whether an emoji says again what the word before it says."""
    return not second.before and first.taught == second.taught and is_sign(second.name) and not is_sign(first.name)


def compound(first: Mention, second: Mention) -> Mention:
    """Two names beside each other: "rocket ship" is a ship, "orange cat" a cat in orange, "face with heart eyes" the
    first."""
    if is_same(first, second) or not (WITH | ABOUT_IT).isdisjoint(second.before):
        return replace(first, end=second.end)
    colours = tuple(word for word in first.name.split() if word in COLOUR_WORDS)
    own = described(second)
    return replace(own, start=first.start, number=max(first.number, own.number), before=first.before,
                   adjectives=(*first.adjectives, *colours, *own.adjectives))  # fmt: skip


def described_behind(mentions: Sequence[Mention], tokens: Sequence[str], foreign: bool) -> list[Mention]:
    """The mentions with the colours and sizes that stand behind their names: "une voiture bleue", "a cat in blue"; in
    English what leads to the next thing is that one's."""
    found = []
    for mention, after in zip(mentions, (*mentions[1:], None), strict=True):
        start = mention.end + (tokens[mention.end : mention.end + 1] != [] and tokens[mention.end] in BEFORE_COLOUR)
        behind = tuple(takewhile(lambda word: word in TOLD_BEHIND, tokens[start : start + 2]))
        led = start + len(behind) - mention.end
        if after and not (foreign and start == mention.end) and HOLDING.isdisjoint(after.before[led:]):
            behind = ()
        found.append(replace(mention, adjectives=(*mention.adjectives, *behind)))
    return found


def described(mention: Mention) -> Mention:
    """The mention with the number and the adjectives that stand before its name."""
    words = list(mention.before)
    number = next((NUMBERS[word] for word in reversed(words) if word in NUMBERS), 2 if mention.plural else 1)
    if not (mention.plural or set(words) & NUMBERS.keys() - VAGUE):
        number = 1  # "a pair of glasses", "some fries": one thing
    if GROUPS & set(words) and "of" in words:
        number = MANY
    breaks = [at for at, word in enumerate(words) if word in HOLDING]
    own = words[breaks[-1] + 1 :] if breaks else words
    return replace(mention, number=number, adjectives=tuple(word for word in own if word.isalpha()))


def relation_of(words: Sequence[str]) -> str:
    """How a thing stands to the one before it, by the words between them."""
    between = f" {' '.join(words)} "
    for relation, ways in (("right of", RIGHT_OF), ("over", OVER), ("under", UNDER), ("within", WITHIN)):
        if any(f" {way} " in between for way in ways):
            return relation
    return "beside"


def is_sign(name: str) -> bool:
    """Whether a name is no word: the emoji itself."""
    return not any(character.isalnum() for character in name)
