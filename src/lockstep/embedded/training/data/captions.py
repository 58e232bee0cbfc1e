"""Captions that are exact by construction: "{article} {colour} {name}{, STYLE style}{ on a COLOUR background}".

The canonical caption of an item never changes. At training time a caption is drawn: with or without article, by a
synonym, in either order of style and background, and with the style word left out, so that a plain prompt works.
Left out, it means the default style nine times in ten, because an average of seven styles would be no style at all.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from .concepts import Concept

DEFAULT_STYLE = "3d"
STYLE_OMITTED = {True: 0.6, False: 0.02}  # by whether the item has the default style
ALIAS_SHARE = 0.25
BARE_SHARE = 0.25  # without article: "red heart"
FRAMED_SHARE = 0.04
COLOUR_NAMED_SHARE = 0.12  # of pictures in their natural colour: "a yellow banana"
OWN_COLOUR_NAMED_SHARE = 0.5  # of concepts that are known by a colour: "a red heart", and as often "a heart"
WHITE_SHARE = 0.04
FRAMES = ("a picture of {}", "an icon of {}", "a drawing of {}", "an emoji of {}")
SPELLINGS = {"gray": "grey"}


@dataclass(frozen=True)
class Wording:
    """The choices that turn an item into one sentence; the defaults give the canonical caption."""

    name: int = 0
    article: bool = True
    style: bool = True
    style_last: bool = False
    colour: str | None = None
    background: str | None = None
    frame: str = "{}"


def word(concept: Concept, style: str, wording: Wording) -> str:
    """One caption."""
    name, number = concept.names[wording.name], concept.numbers[wording.name]
    phrase = f"{wording.colour} {name}" if wording.colour else name
    if wording.article and number == "count":
        phrase = with_article(phrase)
    phrase = wording.frame.format(phrase)
    parts = [f", {style} style" if wording.style else "", background_words(wording.background)]
    return phrase + "".join(reversed(parts) if wording.style_last else parts)


def with_article(phrase: str) -> str:
    """ "a" or "an"; the few vowels that sound like consonants in our names are "u" and "one"."""
    vowel = phrase[0] in "aeiou" and not phrase.startswith(("uni", "one-", "ufo", "eu"))
    return f"{'an' if vowel or phrase.startswith('x ') else 'a'} {phrase}"


def background_words(background: str | None) -> str:
    return f" on {with_article(background)} background" if background else ""


def own_colour_of(concept: Concept, style: str) -> str | None:
    """The colour that belongs to the thing ("a red heart"); an outline has none of its own."""
    return None if style == "outline" else concept.own_colour


def canonical_wording(concept: Concept, style: str, colour: str | None, background: str | None) -> Wording:
    return Wording(colour=colour or own_colour_of(concept, style), background=background)


def draw_wording(
    concept: Concept, style: str, colour: str | None, background: str | None, natural: str | None, rng: random.Random
) -> Wording:
    """The wording for one training step; every choice takes the same number of draws, whatever the item is."""
    alias, bare, omitted, framed, named, white, order, spelling = (rng.random() for _ in range(8))
    choice, frame = rng.randrange(1 << 16), rng.choice(FRAMES)
    own_colour = own_colour_of(concept, style)
    if own_colour and colour in (None, own_colour):
        colour = own_colour if named < OWN_COLOUR_NAMED_SHARE else None
    elif colour is None and concept.recolour and natural and named < COLOUR_NAMED_SHARE:
        colour = natural
    if background is None and white < WHITE_SHARE:
        background = "white"
    if spelling < 0.25:
        colour, background = SPELLINGS.get(colour or "", colour), SPELLINGS.get(background or "", background)
    others = len(concept.names) - 1
    return Wording(
        name=1 + choice % others if others and alias < ALIAS_SHARE else 0,
        article=bare >= BARE_SHARE,
        style=omitted >= STYLE_OMITTED[style == DEFAULT_STYLE],
        style_last=order < 0.5,
        colour=colour,
        background=background,
        frame=frame if framed < FRAMED_SHARE and bare >= BARE_SHARE else "{}",
    )
