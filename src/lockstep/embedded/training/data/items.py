"""The table of training items: which picture, recoloured how, on what, mirrored or not; and what is held out.

`items.json`: {"format": 1, "default_style": ..., "inputs": ..., "items": [record], "held_out": [record]}; a record has
the fields of `Item`. For every concept of tiers 1 and 2 one colour and one background are never trained on in any
style ("a purple banana"): the items in `held_out` show them.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from .captions import DEFAULT_STYLE, canonical_wording, draw_wording, dressed, own_colour_of, with_tail, word
from .colours import BACKGROUNDS, COLOURS, compose
from .concepts import Concept, load_concepts
from .render import Picture, load_pictures
from .storage import hash_of, read_json, write_json

FORMAT = 1
# How many recolours, backgrounds and both at once a picture gets. The three main styles carry most of the colour work.
MAIN_STYLES = ("noto", "3d", "flat")
MAIN_COUNTS = {"colour": 4, "background": 2, "both": 1}
OTHER_COUNTS = {"colour": 2, "background": 1, "both": 0}
REST_COUNTS = {"colour": 1, "background": 0, "both": 0}  # tier 3


@dataclass(frozen=True)
class Item:
    """One picture to train on; `index` is its row in the list that it belongs to (`split`)."""

    index: int
    picture: int
    concept: str
    style: str
    colour: str | None
    background: str | None
    mirror: bool
    kind: str
    tier: int
    split: str

    @property
    def core(self) -> bool:
        return self.tier == 1


def build_items(work: Path) -> Path:
    """Write `items.json`, the held-out pairs in it; the same inputs give the same table, byte for byte."""
    _, pictures = load_pictures(work)
    concepts = load_concepts(work)
    naturals: dict[str, set[str]] = {code: set() for code in concepts}
    for picture in pictures:
        naturals[picture.concept].add(picture.natural or "")
    concepts = {code: with_held_out(concept, naturals[code]) for code, concept in concepts.items()}
    items = [item for picture in pictures for item in items_of(picture, concepts[picture.concept])]
    held_out = [item for picture in pictures for item in held_out_of(picture, concepts[picture.concept])]
    content = {
        "format": FORMAT,
        "default_style": DEFAULT_STYLE,
        "inputs": hash_of([asdict(picture) for picture in pictures], [asdict(c) for c in concepts.values()]),
        "pairs": {code: [c.held_out_colour, c.held_out_background] for code, c in concepts.items() if c.tier < 3},
        "items": [asdict(replace(item, index=index)) for index, item in enumerate(items)],
        "held_out": [asdict(replace(item, index=index)) for index, item in enumerate(held_out)],
    }
    write_json(work / "items.json", content)
    return work / "items.json"


def with_held_out(concept: Concept, naturals: set[str]) -> Concept:
    """Choose the pair that is never trained on: not the colour that the thing has anyway."""
    if concept.tier == 3:
        return concept
    rng = random.Random(f"held out {concept.code}")
    colour = rng.choice([name for name in COLOURS if name not in naturals and name != concept.own_colour])
    background = rng.choice([name for name in BACKGROUNDS if name not in naturals and name != concept.own_colour])
    return replace(
        concept,
        held_out_colour=concept.held_out_colour or (colour if concept.recolour else None),
        held_out_background=concept.held_out_background or background,
    )


def items_of(picture: Picture, concept: Concept) -> Iterator[Item]:
    """The picture itself, its mirror image, and its share of recolours and backgrounds, drawn by its own seed.

    Recolours and backgrounds are never mirrored: the same thing would face the other way for no word of its caption."""
    rng = random.Random(f"{concept.code} {picture.style}")
    counts = REST_COUNTS if concept.tier == 3 else MAIN_COUNTS if picture.style in MAIN_STYLES else OTHER_COUNTS
    used = {picture.natural, concept.own_colour}
    colours = [name for name in COLOURS if name not in used | {concept.held_out_colour}] if concept.recolour else []
    backgrounds = [name for name in BACKGROUNDS if name not in used | {concept.held_out_background}]
    rng.shuffle(colours)
    rng.shuffle(backgrounds)
    # Some sets draw the heart pink: a concept that is known by a colour gets it by recolouring where the art differs.
    own_colour = own_colour_of(concept, picture.style)
    base = replace(make_item(picture, concept), colour=None if own_colour == picture.natural else own_colour)
    yield base
    if concept.mirror:
        yield replace(base, mirror=True)
    for colour in colours[: counts["colour"]]:
        yield make_item(picture, concept, colour=colour)
    for background in backgrounds[: counts["background"]]:
        yield replace(base, background=background, kind="background")
    for number in range(counts["both"] if colours else 0):
        colour = colours[-1 - number]
        background = next(name for name in reversed(backgrounds) if name != colour)
        yield make_item(picture, concept, colour, background)


def held_out_of(picture: Picture, concept: Concept) -> Iterator[Item]:
    """In the default style: the colour never seen, the background never seen, and both at once."""
    colour, background = concept.held_out_colour, concept.held_out_background
    if picture.style != DEFAULT_STYLE or concept.tier == 3:
        return
    if colour:
        yield make_item(picture, concept, colour=colour, split="held_out")
    if background:
        yield make_item(picture, concept, background=background, split="held_out")
    if colour and background and colour != background:
        yield make_item(picture, concept, colour, background, split="held_out")


def make_item(
    picture: Picture,
    concept: Concept,
    colour: str | None = None,
    background: str | None = None,
    mirror: bool = False,
    split: str = "train",
) -> Item:
    kind = "both" if colour and background else "colour" if colour else "background" if background else "base"
    return Item(-1, picture.index, concept.code, picture.style, colour, background, mirror, kind, concept.tier, split)


@dataclass(frozen=True)
class ItemTable:
    """What the trainer reads: items, the held-out ones, and everything needed to word and to show them."""

    items: list[Item]
    held_out: list[Item]
    concepts: dict[str, Concept]
    pictures: list[Picture]
    default_style: str
    inputs: str

    def select(
        self,
        *,
        tiers: Collection[int] | None = None,
        core: bool | None = None,
        styles: Collection[str] | None = None,
        kinds: Collection[str] | None = None,
        mirrored: bool | None = None,
    ) -> list[Item]:
        """Training items by any combination of properties; what is left out is not asked about."""
        return [
            item
            for item in self.items
            if (tiers is None or item.tier in tiers)
            and (core is None or item.core == core)
            and (styles is None or item.style in styles)
            and (kinds is None or item.kind in kinds)
            and (mirrored is None or item.mirror == mirrored)
        ]

    def caption(self, item: Item) -> str:
        """The canonical caption, style word included."""
        concept = self.concepts[item.concept]
        return word(concept, item.style, canonical_wording(concept, item.style, item.colour, item.background))

    def prompt(self, item: Item) -> str:
        """The canonical caption without the style word: what a person would type."""
        concept = self.concepts[item.concept]
        wording = canonical_wording(concept, item.style, item.colour, item.background)
        return word(concept, item.style, replace(wording, style=False))

    def draw_caption(self, item: Item, rng: random.Random) -> str:
        """A caption for one training step; it depends on the item and the state of `rng` alone."""
        concept, natural = self.concepts[item.concept], self.pictures[item.picture].natural
        wording = draw_wording(concept, item.style, item.colour, item.background, natural, rng)
        return dressed(with_tail(word(concept, item.style, wording), rng), rng)

    def render(self, item: Item, rgba: np.ndarray) -> np.ndarray:
        """The item's picture, uint8 [128, 128, 3]."""
        return compose(np.asarray(rgba[item.picture]), item.colour, item.background, item.mirror)


def load_items(work: Path) -> ItemTable:
    content = read_json(Path(work) / "items.json", made_by="items")
    _, pictures = load_pictures(work)
    concepts = load_concepts(Path(work))
    for code, (colour, background) in content["pairs"].items():
        concepts[code] = replace(concepts[code], held_out_colour=colour, held_out_background=background)
    return ItemTable(
        items=[Item(**record) for record in content["items"]],
        held_out=[Item(**record) for record in content["held_out"]],
        concepts=concepts,
        pictures=pictures,
        default_style=content["default_style"],
        inputs=content["inputs"],
    )
