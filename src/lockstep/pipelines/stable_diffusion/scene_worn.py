"""What a thing wears or has: drawn by itself, and put where it belongs on the thing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .scene_mentions import Mention
from .scene_places import Place

HEADROOM = 0.14  # of a place: what stays free above a head that wears something on it


@dataclass(frozen=True)
class Fit:
    """Something that is worn: the words for it, and in shares of the wearer's box its width and its middles."""

    words: str
    width: float
    middles: tuple[tuple[float, float], ...]

    @property
    def is_on_top(self) -> bool:
        return min(down for _, down in self.middles) < HEADROOM


@dataclass(frozen=True)
class Part:
    """One thing of a scene: the words for it alone, and where it stands; what has a fit is on the thing before it."""

    text: str
    place: Place
    fit: Fit | None = None


HAT = Fit("a top hat", 0.66, ((0.5, -0.1),))
EYEGLASSES = Fit("glasses", 0.8, ((0.5, 0.45),))
FITS = {
    "crown": Fit("a crown", 0.62, ((0.5, -0.05),)),
    **dict.fromkeys(("top hat", "hat", "cap"), HAT),
    "graduation cap": Fit("a graduation cap", 0.9, ((0.5, 0.0),)),
    **dict.fromkeys(("glasses", "eyeglasses"), EYEGLASSES),
    "sunglasses": Fit("sunglasses", 0.8, ((0.5, 0.45),)),
    "tears": Fit("a water drop", 0.16, ((0.26, 0.68), (0.74, 0.68))),
    "heart": Fit("a heart", 0.34, ((0.9, 0.04),)),
    "zzz": Fit("zzz", 0.36, ((0.9, 0.02),)),
}
MOODS = {
    **dict.fromkeys(("sad", "crying", "unhappy"), "tears"),
    **dict.fromkeys(("sleeping", "sleepy", "tired"), "zzz"),
    "loving": "heart",
}


def worn_by(mention: Mention) -> Iterator[Fit]:
    """What a thing wears, and what shows its mood."""
    names = (*mention.worn, *(MOODS[word] for word in mention.adjectives if word in MOODS))
    yield from dict.fromkeys(FITS[name] for name in names if name in FITS)


def dressed(things: Sequence[tuple[Part, Mention]], style: str) -> list[Part]:
    """The things, each followed by what it wears in the same style; under a hat they leave room for it."""
    parts: list[Part] = []
    for part, mention in things:
        fits = list(worn_by(mention))
        on_top = any(fit.is_on_top for fit in fits)
        parts.append(replace(part, place=below_headroom(part.place)) if on_top else part)
        parts.extend(Part(fit.words + style, part.place, fit) for fit in fits)
    return parts


def below_headroom(place: Place) -> Place:
    free = HEADROOM * place.height
    return replace(place, top=place.top + free, height=place.height - free, touches="bottom")
