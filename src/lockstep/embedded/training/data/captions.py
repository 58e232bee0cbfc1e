"""Captions that are exact by construction: "{article} {colour} {name}{, STYLE style}{ on a COLOUR background}".

The canonical caption of an item never changes. At training time a caption is drawn as people write: with or without
article, by a synonym, in another language or as the emoji itself, politely or with exclamation marks, in either order
of
style and background, and with the style word left out, so that a plain prompt works.
Left out, it means the default style nine times in ten, because an average of seven styles would be no style at all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from .concepts import Concept

DEFAULT_STYLE = "3d"
STYLE_OMITTED = {True: 0.7, False: 0.02}  # by whether the item has the default style
ALIAS_SHARE = 0.3
FOREIGN_SHARE = 0.06
EMOJI_SHARE = 0.04
BARE_SHARE = 0.25  # without article: "red heart"
ADJECTIVE_SHARE = 0.14
TAIL_SHARE = 0.06
COLOUR_NAMED_SHARE = 0.12  # of pictures in their natural colour: "a yellow banana"
OWN_COLOUR_NAMED_SHARE = 0.5  # of concepts that are known by a colour: "a red heart", and as often "a heart"
WHITE_SHARE = 0.04
TURNED_SHARE = 0.12  # of colours, styles and backgrounds: said in another way than the usual one
POLITE_SHARE = 0.15
PUNCTUATION_SHARE = 0.08
SPELLINGS = {"gray": "grey"}
# Words that people add and that change nothing in a picture of one thing.
ADJECTIVES = (
    "cute", "nice", "beautiful", "pretty", "lovely", "funny", "cool", "simple", "happy", "smiling", "colorful",
    "single", "big",
    "large", "huge", "giant", "great", "shiny", "sweet", "friendly", "scary", "old", "new", "young", "fresh",
    "delicious", "tasty",
    "yummy", "juicy", "ripe", "hot", "cold", "wild", "fluffy", "furry", "soft", "fast", "slow", "strong", "brave",
    "crazy", "silly",
    "weird", "strange", "magic", "magical", "royal", "modern", "vintage", "classic", "elegant", "fancy", "perfect",
    "amazing",
    "awesome", "wonderful", "cozy", "tall", "long", "round", "bright", "dark", "spooky", "evil", "fierce", "gentle",
    "kind", "cartoon",
    "realistic", "minimal", "detailed", "glossy", "wooden", "famous", "lonely", "golden", "little baby",
    "super cute", "very nice",
)  # fmt: skip
TAILS = (
    " for my friend", " for halloween", " for a birthday", " in the sky", " in the garden", " in the sun",
    " at night", " with a smile",
    " that looks nice", " for me", " on a sunny day", " in summer", " for my mom", " from above", " for a logo",
    " as a sticker", " with details",
)  # fmt: skip
FOREIGN_ARTICLES = (
    "ein", "eine", "einen", "der", "die", "das", "un", "une", "le", "la", "una", "el", "uno", "il", "lo", "um",
    "uma", "o", "a",
)  # fmt: skip
COLOUR_TURNS = ("{name} in {colour}", "{name}, {colour}", "{colour} colored {name}")
STYLE_TURNS = (" in {} style", ", {}", " {} style", " in the style of {}", ", style {}")
BACKGROUND_TURNS = (" on {colour}", " with {a} background", ", {colour} background", " in front of {a} background")
FRAMES = (
    "a picture of {}", "an icon of {}", "a drawing of {}", "an emoji of {}", "an image of {}", "a photo of {}",
    "{} emoji",
    "{} icon", "draw {}", "draw me {}", "please draw {}", "paint {}", "paint me {}", "make {}", "make me {}",
    "show me {}",
    "show {}", "i want {}", "i would like {}", "i want to see {}", "can you draw {}", "could you please draw me {}",
    "could you make {}", "give me {}", "create {}", "create a picture of {}", "generate {}", "generate an image of {}",
    "{} please", "{}, please", "please, {}", "hi, draw {}", "hello, please make {}", "draw me {} please", "just {}",
)  # fmt: skip
ENDINGS = ("!", "!!!", ".", "?", "...", "!!", " :)", " <3")


@dataclass(frozen=True)
class Wording:
    """The choices that turn an item into one sentence; the defaults give the canonical caption."""

    name: int = 0
    article: bool = True
    style: bool = True
    style_last: bool = False
    colour: str | None = None
    background: str | None = None
    adjective: str | None = None
    foreign_article: str = "un"
    colour_form: str = "{colour} {name}"
    style_form: str = ", {} style"
    background_form: str = " on {a} background"


def word(concept: Concept, style: str, wording: Wording) -> str:
    """One caption."""
    names = all_names(concept)
    phrase = names[wording.name]
    if wording.adjective:
        phrase = f"{wording.adjective} {phrase}"
    if wording.colour:
        phrase = wording.colour_form.format(colour=wording.colour, name=phrase)
    if wording.article:
        phrase = with_fitting_article(phrase, concept, wording)
    parts = [
        wording.style_form.format(style) if wording.style else "",
        background_words(wording.background, wording.background_form),
    ]
    return phrase + "".join(reversed(parts) if wording.style_last else parts)


def with_fitting_article(phrase: str, concept: Concept, wording: Wording) -> str:
    """English names have an article if they can be counted, foreign ones any of their languages', the emoji none."""
    if wording.name < len(concept.english):
        return with_article(phrase) if concept.numbers[wording.name] == "count" else phrase
    is_emoji = wording.name == len(concept.english) + len(concept.foreign)
    return phrase if is_emoji else f"{wording.foreign_article} {phrase}"


def all_names(concept: Concept) -> list[str]:
    """English names first, then those in other languages, then the emoji itself."""
    return [*concept.english, *concept.foreign, concept.emoji]


def with_article(phrase: str) -> str:
    """ "a" or "an"; the few vowels that sound like consonants in our names are "u" and "one"."""
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "one-", "ufo", "eu"))
    return f"{'an' if vowel or phrase.startswith('x ') else 'a'} {phrase}"


def background_words(background: str | None, form: str = " on {a} background") -> str:
    return form.format(colour=background, a=with_article(background)) if background else ""


def own_colour_of(concept: Concept, style: str) -> str | None:
    """The colour that belongs to the thing ("a red heart"); an outline has none of its own."""
    return None if style == "outline" else concept.own_colour


def canonical_wording(concept: Concept, style: str, colour: str | None, background: str | None) -> Wording:
    return Wording(colour=colour or own_colour_of(concept, style), background=background)


def draw_wording(
    concept: Concept, style: str, colour: str | None, background: str | None, natural: str | None, rng: random.Random
) -> Wording:
    """The wording for one training step; every choice takes the same number of draws, whatever the item is."""
    bare, omitted, named, white, order, spelling, adjective = (rng.random() for _ in range(7))
    own_colour = own_colour_of(concept, style)
    if own_colour and colour in (None, own_colour):
        colour = own_colour if named < OWN_COLOUR_NAMED_SHARE else None
    elif colour is None and concept.recolour and natural and named < COLOUR_NAMED_SHARE:
        colour = natural
    if background is None and white < WHITE_SHARE:
        background = "white"
    if spelling < 0.25:
        colour, background = SPELLINGS.get(colour or "", colour), SPELLINGS.get(background or "", background)
    kind = rng.choice(ADJECTIVES)
    return Wording(
        name=draw_name(concept, rng, english=colour is not None),
        article=bare >= BARE_SHARE,
        style=omitted >= STYLE_OMITTED[style == DEFAULT_STYLE],
        style_last=order < 0.5,
        colour=colour,
        background=background,
        adjective=kind if adjective < ADJECTIVE_SHARE else None,
        foreign_article=rng.choice(FOREIGN_ARTICLES),
        colour_form=turned("{colour} {name}", COLOUR_TURNS, rng),
        style_form=turned(", {} style", STYLE_TURNS, rng),
        background_form=turned(" on {a} background", BACKGROUND_TURNS, rng),
    )


def draw_name(concept: Concept, rng: random.Random, *, english: bool = False) -> int:
    """Which of all names: mostly the usual one; with an English colour word before it, an English one or the emoji."""
    chance, choice = rng.random(), rng.randrange(1 << 16)
    english_names, foreign = len(concept.english), len(concept.foreign)
    if concept.emoji and chance < EMOJI_SHARE:
        return english_names + foreign
    if foreign and not english and chance < EMOJI_SHARE + FOREIGN_SHARE:
        return english_names + choice % foreign
    if english_names > 1 and chance > 1 - ALIAS_SHARE:
        return 1 + choice % (english_names - 1)
    return 0


def with_tail(caption: str, rng: random.Random) -> str:
    """Now and then a phrase at the end that changes nothing in the picture."""
    tail = rng.choice(TAILS)
    return caption + tail if rng.random() < TAIL_SHARE else caption


def turned(usual: str, others: tuple[str, ...], rng: random.Random) -> str:
    """The usual form, or now and then another."""
    other = rng.choice(others)
    return other if rng.random() < TURNED_SHARE else usual


def dressed(caption: str, rng: random.Random) -> str:
    """The caption as people send it: asked for politely, or with a mark at its end, or as it is."""
    polite, marked = rng.random() < POLITE_SHARE, rng.random() < PUNCTUATION_SHARE
    frame, ending = rng.choice(FRAMES), rng.choice(ENDINGS)
    caption = frame.format(caption) if polite else caption
    return caption + ending if marked else caption
