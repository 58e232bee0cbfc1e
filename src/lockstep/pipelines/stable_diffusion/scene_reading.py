"""What a sentence asks a model of single things for: which things, how many of each, and how they stand to each other.

The names of the things come with the model (`KnownWords.things`). A sentence about one thing, or one that names none,
is left as it is: the model reads it whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .scene_places import MOST, Place, above, in_front, in_rows, placed, shrunk

NUMBERS = {
    **{word: number for number, words in enumerate(
        (("two", "couple", "pair", "both", "zwei", "deux", "dos", "due", "dois", "duas"),
         ("three", "few", "some", "trio", "drei", "trois", "tres", "tre", "três"),
         ("four", "vier", "quatre", "cuatro", "quattro", "quatro"),
         ("five", "many", "several", "lots", "lot", "fünf", "cinq", "cinco", "cinque"),
         ("six", "sechs", "seis", "sei"), ("seven",), ("eight",), ("nine", "dozen")), start=2)
       for word in words},
    **{str(number): min(number, MOST) for number in range(2, 100)},
    **dict.fromkeys(("ten", "eleven", "twelve", "twenty", "hundred"), MOST),
}  # fmt: skip
VAGUE = frozenset(("couple", "pair", "both", "few", "some", "trio", "many", "several", "lots", "lot", "dozen"))
ARTICLES = frozenset(
    (
        "a", "an", "the", "one", "another", "his", "her", "its", "their", "my", "our", "ein", "eine", "einen", "der",
        "die", "das", "un", "une", "le", "la", "una", "el", "il", "lo", "uma", "um",
    )
)  # fmt: skip
JOINTS = frozenset(
    (
        "and", "&", "+", ",", "with", "plus", "on", "in", "by", "over", "above", "under", "below", "near", "beside",
        "inside", "und", "et", "y", "e",
    )
)  # fmt: skip
OVER = ("on top of", "on", "above", "over", "riding", "upon")
UNDER = ("under", "below", "beneath", "underneath")
WITHIN = ("in", "inside")
RIGHT_OF = ("to the right of", "right of")
WORN_WORD = "wearing"
WORN = frozenset(
    (
        "crown", "hat", "top hat", "cap", "graduation cap", "sunglasses", "glasses", "eyeglasses", "tears", "heart",
        "scarf", "helmet", "bow tie", "tie", "beard", "ribbon",
    )
)  # fmt: skip
SMALL = frozenset(("tiny", "small", "little", "mini", "teeny"))
# Words that ask, and say nothing of the picture.
ASKING = frozenset(
    (
        "draw", "paint", "make", "show", "give", "create", "generate", "me", "us", "please", "i", "want", "would",
        "like", "to", "see", "can", "could", "you", "hi", "hello", "just", "picture", "image", "photo", "drawing",
        "icon", "emoji", "of", "there", "is", "are", "next", "together", "side", "left", "right", "top", "front",
        "looking", "at", "sitting", "standing", "holding", "eating", "chasing", "playing", "flying", "behind",
    )
)  # fmt: skip
COLOURS = "red|orange|yellow|green|blue|purple|pink|brown|gray|grey|black|white|turquoise"
BACKGROUND = re.compile(
    rf"[,\s]+(?:(?:on|with|in front of|against|in)\s+)?(?:an?\s+|the\s+)?({COLOURS})\s+background\b"
    rf"|\s+on\s+({COLOURS})\s*[.!?]*$"
)
STYLE = re.compile(
    r"[,\s]+(?:in\s+)?(?:an?\s+|the\s+)?(?:style\s+(?:of\s+)?)?\b(3d|flat|noto|fluent|outline|blob|firefox)\b(?:\s+style)?"
)
PLACES = re.compile(
    r"\b(?:(?:in|on|at)\s+the\s+)?(?:(top|upper|bottom|lower)(?:[\s-]+(left|right))?|(left|right))\b"
    r"(?:\s+(?:hand\s+)?(?:side|corner|half|edge))?(?!\s+of\b)\s*[.!?]*$"
)
UMLAUTS = str.maketrans("äöü", "aou")
TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


@dataclass(frozen=True)
class Part:
    """One thing of a scene: the words for it alone, and where it stands."""

    text: str
    place: Place


@dataclass(frozen=True)
class Mention:
    """A thing that a sentence names: its tokens from `start` to `end`, where its name begins, and how many it wants."""

    start: int
    end: int
    name: str
    head: int
    plural: bool = False
    number: int = 1
    adjectives: tuple[str, ...] = ()
    before: tuple[str, ...] = ()  # the words since the thing before


@dataclass(frozen=True)
class SceneReader:
    """Reads sentences about the things that a model knows; `things` has the plural of each name, or an empty text."""

    things: Mapping[str, str]

    @cached_property
    def names(self) -> dict[tuple[str, ...], tuple[str, bool]]:
        """Every name as its words -> the name in the singular, and whether these words are its plural."""
        many = {tuple(TOKEN.findall(plural)): (name, True) for name, plural in self.things.items() if plural}
        found = many | {tuple(TOKEN.findall(name)): (name, False) for name in self.things}
        return {words: name for words, name in found.items() if not ASKING.issuperset(words)}

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.names), default=0)

    def read(self, text: str) -> list[Part] | None:
        """The parts of a scene; None where the text is about one thing that fills the picture."""
        rest, background = taken(BACKGROUND, text.lower())
        rest, style = taken(STYLE, rest)
        suffix = (f", {style} style" if style else "") + (
            f" on {with_article(background)} background" if background else ""
        )
        tokens = TOKEN.findall(rest)
        mentions = joined(tokens, list(self.mentions(tokens)))
        if not mentions:
            return None
        parts = [(self.words_for(tokens, mention) + suffix, mention) for mention in mentions]
        if len(parts) == 1 and parts[0][1].number == 1:
            place = self.single_place(rest, mentions[0])
            return None if place is None else [Part(parts[0][0], place)]
        crowned = tuple(tokens[mentions[-1].end :][:2]) == ("on", "top")
        return laid_out(parts, "under" if crowned else relation_of(mentions[-1].before))

    def mentions(self, tokens: Sequence[str]) -> Iterator[Mention]:
        """The names in a sentence, the longest ones first taken."""
        at, last = 0, 0
        while at < len(tokens):
            for size in range(min(self.longest, len(tokens) - at), 0, -1):
                found = self.names.get(tuple(tokens[at : at + size]))
                if found:
                    yield Mention(last, at + size, found[0], at, found[1], before=tuple(tokens[last:at]))
                    last = at = at + size
                    break
            else:
                name = self.singular_of(tokens[at]) if at and tokens[at - 1] in NUMBERS else None
                if name:
                    yield Mention(last, at + 1, name, at, True, before=tuple(tokens[last:at]))
                    last = at + 1
                at += 1

    def singular_of(self, word: str) -> str | None:
        """The name whose plural a word after a number may be, by the endings of the further languages."""
        stems = [word, word[:-1], word[:-2], *(word[:-1] + ending for ending in "aeo")]
        stems = [stem for stem in stems if len(stem) > 2]
        return next((stem for stem in [*stems, *(s.translate(UMLAUTS) for s in stems)] if stem in self.things), None)

    def words_for(self, tokens: Sequence[str], mention: Mention) -> str:
        """One of the things a mention names, with what is said of it."""
        told = " ".join(tokens[mention.head : mention.end])
        plural = self.things[mention.name]
        if mention.plural and plural:  # what follows the name belongs to it: "cats wearing crowns"
            told = told.replace(plural, mention.name, 1)
        elif mention.plural:
            told = mention.name
        phrase = " ".join([*(word for word in mention.adjectives if word not in SMALL), told])
        return with_article(phrase) if plural and phrase[0].isalpha() else phrase

    @staticmethod
    def single_place(text: str, mention: Mention) -> Place | None:
        """Where one thing stands that does not fill the picture."""
        told = PLACES.search(text)
        if told:
            down, across, alone = told.groups()
            return placed(across or alone, {"upper": "top", "lower": "bottom"}.get(down, down))
        return placed(None, None, small=True) if SMALL & set(mention.adjectives) else None


def taken(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    """The text without what the pattern finds, and the word that was found."""
    found = pattern.search(text)
    if not found:
        return text, ""
    return text[: found.start()] + text[found.end() :], next(word for word in found.groups() if word)


def joined(tokens: Sequence[str], found: Sequence[Mention]) -> list[Mention]:
    """Mentions with numbers and adjectives; names that stand beside each other, or are worn, are one thing."""
    whole: list[Mention] = []
    for mention in found:
        words = set(mention.before)
        counted = bool(words & (ARTICLES | NUMBERS.keys()))
        separate = is_sign(mention.name) or counted or ("with" not in words and bool(words & JOINTS))
        worn = WORN_WORD in words or (bool({"with", "in"} & words) and (mention.name in WORN or mention.plural))
        if whole and (worn or not separate):
            whole[-1] = merged(whole[-1], mention, worn or "with" in words)
        else:
            whole.append(described(mention))
    return whole


def merged(first: Mention, second: Mention, worn: bool) -> Mention:
    """Two names as one thing: "rocket ship" is a ship, "cat wearing a crown" and "face with heart eyes" the first."""
    if worn:
        return replace(first, end=second.end)
    return replace(second, start=first.start, head=first.head, number=first.number, adjectives=first.adjectives,
                   before=first.before)  # fmt: skip


def described(mention: Mention) -> Mention:
    """The mention with the number and the adjectives that stand before its name."""
    words = list(mention.before)
    number = next((NUMBERS[word] for word in reversed(words) if word in NUMBERS), 2 if mention.plural else 1)
    if not (mention.plural or set(words) & NUMBERS.keys() - VAGUE):
        number = 1  # "a pair of glasses", "some fries": one thing
    breaks = [at for at, word in enumerate(words) if word in ARTICLES | JOINTS | ASKING or word in NUMBERS]
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
