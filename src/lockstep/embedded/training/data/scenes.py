"""Pictures of several things: counts, pairs, sizes, places and things that are worn, each with exact words for it.

A scene is a list of tiles with their places on a grid of 16 x 16 cells, one cell for every latent. Tiles are rendered
and
encoded once (`collage.py`), so that every step of a training can put together a scene that it has never seen.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from .captions import DEFAULT_STYLE, STYLE_OMITTED, STYLE_TURNS, all_names, draw_name, dressed, turned, with_article
from .colours import COLOURS, compose
from .concepts import read_words
from .items import Item, ItemTable

CELLS = 16  # of a whole picture, 8 pixels each
PIXELS = 8
MARGIN = 2  # cells of white around a tile when it is encoded, so that it knows of no neighbour
HALF, SMALL = 8, 5  # sides of the two kinds of tiles
NUMBERS = {2: ("two", "2", "a pair of", "a couple of"), 3: ("three", "3"), 4: ("four", "4"), 5: ("five", "5")}
VAGUE = {2: ("",), 3: ("some", "a few"), 5: ("many", "several", "a lot of", "lots of")}
COUNT_PLACES = {
    2: ((4, 0), (4, 8)),
    3: ((0, 4), (8, 0), (8, 8)),
    4: ((0, 0), (0, 8), (8, 0), (8, 8)),
    5: ((0, 0), (0, 11), (5, 5), (11, 0), (11, 11)),
}
BESIDE = (
    "{a} and {b}", "{a} and {b}", "{a} and {b}", "{a} and {b}", "{a} next to {b}", "{a} next to {b}", "{a} beside {b}",
    "{a} with {b}", "{a} & {b}", "{a}, {b}", "{a} + {b}", "{a} to the left of {b}", "{b} to the right of {a}",
    "{a} left of {b}",
    "{b} right of {a}", "{a} on the left and {b} on the right", "{a} near {b}", "{a} together with {b}",
)  # fmt: skip
STACKED = (
    "{a} on top of {b}", "{a} on top of {b}", "{a} on {b}", "{a} on {b}", "{a} above {b}", "{a} over {b}",
    "{b} under {a}",
    "{b} below {a}", "{b} beneath {a}", "{a} sitting on {b}", "{a} standing on {b}", "{b} with {a} on top",
)  # fmt: skip
SIZES = ("tiny", "small", "little", "mini", "very small", "teeny tiny")
PLACES = {
    (4, 0): ("on the left", "at the left", "on the left side"),
    (4, 8): ("on the right", "at the right", "on the right side"),
    (0, 4): ("at the top", "on top"),
    (8, 4): ("at the bottom", "below"),
    (0, 0): ("in the top left corner", "in the upper left corner", "top left"),
    (0, 8): ("in the top right corner", "in the upper right corner", "top right"),
    (8, 0): ("in the bottom left corner", "in the lower left corner", "bottom left"),
    (8, 8): ("in the bottom right corner", "in the lower right corner", "bottom right"),
}
KINDS = {"count": 0.34, "beside": 0.28, "stacked": 0.12, "worn": 0.12, "mixed": 0.05, "small": 0.05, "place": 0.04}
SCENE_STYLES = {"3d": 0.7, "flat": 0.15, "noto": 0.15}
COLOURED_SHARE = 0.3
COLOURS_EACH = 2  # recoloured tiles of a thing


@dataclass(frozen=True)
class Accessory:
    """Something that a head wears or has: where its pictures go, in shares of the head's box, and the words for it."""

    name: str
    width: float
    centres: tuple[tuple[float, float], ...]
    words: tuple[str, ...]


ACCESSORIES = (
    Accessory("crown", 0.62, ((0.5, -0.05),), ("{} wearing a crown", "{} with a crown", "{} with a crown on its head")),
    Accessory("top hat", 0.66, ((0.5, -0.1),),
              ("{} wearing a top hat", "{} with a top hat", "{} in a top hat", "{} with a hat", "{} wearing a hat")),
    Accessory("graduation cap", 0.9, ((0.5, 0.0),), ("{} wearing a graduation cap", "{} with a graduation cap")),
    Accessory("sunglasses", 0.8, ((0.5, 0.45),), ("{} wearing sunglasses", "{} with sunglasses", "{} in sunglasses")),
    Accessory("glasses", 0.8, ((0.5, 0.45),), ("{} wearing glasses", "{} with glasses")),
    Accessory("water drop", 0.16, ((0.26, 0.68), (0.74, 0.68)), ("sad {}", "crying {}", "unhappy {}", "{} with tears")),
    Accessory("heart", 0.4, ((0.95, -0.05),), ("{} in love", "{} with a heart", "loving {}")),
    Accessory("zzz", 0.4, ((0.95, -0.05),), ("sleeping {}", "sleepy {}", "tired {}")),
)  # fmt: skip
HEADS = (
    "dog", "cat", "wolf", "fox", "lion", "tiger", "horse", "unicorn", "cow", "pig", "mouse", "hamster", "rabbit",
    "bear", "koala",
    "panda", "monkey", "frog", "dragon", "chick", "chicken", "penguin", "owl", "smiley face", "robot", "ghost",
    "alien", "skull",
    "pumpkin", "teddy bear", "clown", "apple", "moon", "star",
)  # fmt: skip
HEAD_SCALE = 0.72


@dataclass(frozen=True)
class Tile:
    """A picture at the size of some cells: recoloured or not, centred or at the edge it touches, with an accessory or
    not."""

    picture: int
    cells: int = HALF
    colour: str | None = None
    edge: str = ""  # "bottom" stands on something, "top" carries something
    accessory: str = ""
    accessory_picture: int = -1


@dataclass(frozen=True)
class Placement:
    """A tile and the row and column of its first cell."""

    tile: Tile
    row: int
    column: int


@dataclass(frozen=True)
class Scene:
    """Tiles in their places, and the words for them."""

    caption: str
    placements: tuple[Placement, ...]


@dataclass
class SceneDrawer:
    """Draws scenes from the base pictures of a table; `tiles` lists every tile that it may use."""

    table: ItemTable
    favourites: frozenset[str] = frozenset()
    favour: float = 1.0
    tiers: tuple[int, ...] = (1, 2)  # of things in the default style; the other styles show the first alone
    kinds: dict[str, float] = field(default_factory=lambda: dict(KINDS))

    def __post_init__(self) -> None:
        self.plurals: dict[str, str] = read_words()["plurals"]
        self.things: dict[str, list[Item]] = {style: self.countable(style) for style in SCENE_STYLES}
        self.things = {style: items for style, items in self.things.items() if items}
        self.by_name = {
            style: {self.table.concepts[item.concept].name: item for item in base_pictures(self.table, style)}
            for style in self.things
        }
        self.heads = [
            self.by_name[DEFAULT_STYLE][name] for name in HEADS if name in self.by_name.get(DEFAULT_STYLE, {})
        ]
        self.accessories = [a for a in ACCESSORIES if a.name in self.by_name.get(DEFAULT_STYLE, {})]

    def countable(self, style: str) -> list[Item]:
        """Base pictures of things that take "a"."""
        tiers = self.tiers if style == DEFAULT_STYLE else (1,)
        items = base_pictures(self.table, style, tiers)
        return [item for item in items if self.table.concepts[item.concept].numbers[0] == "count"]

    def tiles(self) -> Iterable[Tile]:
        """Every tile that scenes are made of."""
        for style, items in self.things.items():
            for item in items:
                yield Tile(item.picture, HALF, item.colour)
                if style == DEFAULT_STYLE:
                    yield Tile(item.picture, SMALL, item.colour)
                    yield Tile(item.picture, HALF, item.colour, "bottom")
                    yield Tile(item.picture, HALF, item.colour, "top")
                    yield from (Tile(item.picture, HALF, colour) for colour in self.colours_of(item))
        for head in self.heads:
            yield from (self.worn_tile(head, accessory) for accessory in self.accessories)

    def colours_of(self, item: Item) -> list[str]:
        """The colours that a thing's tile comes in, beside its own."""
        concept, natural = self.table.concepts[item.concept], self.table.pictures[item.picture].natural
        if not concept.recolour or not item.core:
            return []
        taken = {natural, concept.own_colour, concept.held_out_colour}
        names = [name for name in COLOURS if name not in taken]
        return random.Random(f"tile {concept.code}").sample(names, COLOURS_EACH)

    def worn_tile(self, head: Item, accessory: Accessory) -> Tile:
        worn = self.by_name[DEFAULT_STYLE][accessory.name]
        return Tile(head.picture, CELLS, head.colour, "", accessory.name, worn.picture)

    def draw(self, rng: random.Random) -> Scene:
        """One scene; it depends on the state of `rng` alone."""
        kind = rng.choices(list(self.kinds), list(self.kinds.values()))[0]
        style = rng.choices(list(self.things), [SCENE_STYLES[style] for style in self.things])[0]
        if kind in ("stacked", "worn", "small", "mixed"):
            style = DEFAULT_STYLE
        caption, placements = getattr(self, f"draw_{kind}")(style, rng)
        return Scene(dressed(caption + style_words(style, rng), rng), tuple(placements))

    def pick(self, style: str, rng: random.Random) -> Item:
        items = self.things[style]
        while True:  # a favourite is always taken, another thing one time in `favour`
            item = items[rng.randrange(len(items))]
            if item.concept in self.favourites or rng.random() < 1 / self.favour:
                return item

    def draw_count(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        number = rng.choices((2, 3, 4, 5), (0.36, 0.28, 0.2, 0.16 if style == DEFAULT_STYLE else 0))[0]
        item = self.pick(style, rng)
        colour, word = self.draw_colour(item, style, rng, coloured=number < 5)
        tile = Tile(item.picture, SMALL if number == 5 else HALF, colour)
        vague = VAGUE.get(number, ())
        amount = rng.choice(vague) if vague and rng.random() < 0.12 else self.number_word(number, rng)
        caption = " ".join(filter(None, (amount, word, self.plural_name(item, rng))))
        concept = self.table.concepts[item.concept]
        if concept.emoji and not word and rng.random() < 0.04:
            caption = concept.emoji * number
        return caption, [Placement(tile, *place) for place in COUNT_PLACES[number]]

    def number_word(self, number: int, rng: random.Random) -> str:
        first, *others = NUMBERS[number]
        return rng.choice(others) if rng.random() < 0.25 else first

    def draw_beside(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        left, right = self.pick(style, rng), self.pick(style, rng)
        (words_left, tile_left), (words_right, tile_right) = (self.named(i, style, rng) for i in (left, right))
        caption = rng.choice(BESIDE).format(a=words_left, b=words_right)
        return caption, [Placement(tile_left, 4, 0), Placement(tile_right, 4, 8)]

    def draw_stacked(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        above, below = self.pick(style, rng), self.pick(style, rng)
        words = [self.named(item, style, rng, coloured=False)[0] for item in (above, below)]
        tiles = [Tile(item.picture, HALF, item.colour, edge) for item, edge in ((above, "bottom"), (below, "top"))]
        return rng.choice(STACKED).format(a=words[0], b=words[1]), [
            Placement(tiles[0], 0, 4),
            Placement(tiles[1], 8, 4),
        ]

    def draw_mixed(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        """ "two dogs and a cat": the single one above."""
        many, one = self.pick(style, rng), self.pick(style, rng)
        pair, single = Tile(many.picture, HALF, many.colour), Tile(one.picture, HALF, one.colour)
        caption = f"{self.number_word(2, rng)} {self.plural_name(many, rng)}"
        other = self.named(one, style, rng, coloured=False)[0]
        caption = f"{caption} and {other}" if rng.random() < 0.7 else f"{other} and {caption}"
        return caption, [Placement(single, 0, 4), Placement(pair, 8, 0), Placement(pair, 8, 8)]

    def draw_worn(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        head, accessory = rng.choice(self.heads), rng.choice(self.accessories)
        form = rng.choice(accessory.words)
        name = self.english_name(head, rng)
        caption = with_article(form.format(name)) if rng.random() > 0.2 else form.format(name)
        return caption, [Placement(self.worn_tile(head, accessory), 0, 0)]

    def draw_small(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        item = self.pick(style, rng)
        caption = with_article(f"{rng.choice(SIZES)} {self.english_name(item, rng)}")
        return caption, [Placement(Tile(item.picture, SMALL, item.colour), 5, 5)]

    def draw_place(self, style: str, rng: random.Random) -> tuple[str, list[Placement]]:
        item = self.pick(style, rng)
        words, tile = self.named(item, style, rng)
        place = rng.choice(list(PLACES))
        return f"{words} {rng.choice(PLACES[place])}", [Placement(tile, *place)]

    def named(self, item: Item, style: str, rng: random.Random, *, coloured: bool = True) -> tuple[str, Tile]:
        """A thing with its article and perhaps a colour, and its tile."""
        colour, word = self.draw_colour(item, style, rng, coloured=coloured)
        concept = self.table.concepts[item.concept]
        index = draw_name(concept, rng, english=True)
        name = all_names(concept)[index]
        phrase = f"{word} {name}" if word else name
        takes_article = index < len(concept.english) and concept.numbers[index] == "count"
        bare = rng.random() < 0.2
        return (with_article(phrase) if takes_article and not bare else phrase), Tile(item.picture, HALF, colour)

    def draw_colour(self, item: Item, style: str, rng: random.Random, *, coloured: bool) -> tuple[str | None, str]:
        """The colour to paint the tile in, and the word for it: now and then another one, or the thing's own."""
        chance, choice = rng.random(), rng.randrange(1 << 16)
        others = self.colours_of(item) if style == DEFAULT_STYLE and coloured else []
        if others and chance < COLOURED_SHARE:
            colour = others[choice % len(others)]
            return colour, colour
        natural = self.table.concepts[item.concept].own_colour or self.table.pictures[item.picture].natural
        return item.colour, natural if natural and chance > 1 - COLOURED_SHARE / 2 else ""

    def english_name(self, item: Item, rng: random.Random) -> str:
        """A name that takes "a"."""
        concept = self.table.concepts[item.concept]
        names = [name for name, number in zip(concept.english, concept.numbers, strict=True) if number == "count"]
        return rng.choice(names[1:]) if len(names) > 1 and rng.random() < 0.25 else names[0]

    def plural_name(self, item: Item, rng: random.Random) -> str:
        return plural_of(self.english_name(item, rng), self.plurals)


def base_pictures(table: ItemTable, style: str, tiers: tuple[int, ...] | None = None) -> list[Item]:
    """The pictures of a style as they were drawn."""
    return table.select(tiers=tiers, styles=(style,), kinds=("base",), mirrored=False)


def style_words(style: str, rng: random.Random) -> str:
    form = turned(", {} style", STYLE_TURNS, rng)
    return "" if rng.random() < STYLE_OMITTED[style == DEFAULT_STYLE] else form.format(style)


def plural_of(name: str, odd: dict[str, str]) -> str:
    """The plural of a name; in "slice of pizza" it is the slices that are many."""
    for joint in (" of ", " with ", " on ", " in "):
        if joint in name:
            first, rest = name.split(joint, 1)
            return f"{plural_of(first, odd)}{joint}{rest}"
    *before, last = name.split(" ")
    return " ".join([*before, odd.get(last) or regular_plural(last)])


def regular_plural(word: str) -> str:
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return word[:-1] + "ies"
    return word + "s"


def render_tile(tile: Tile, rgba: np.ndarray) -> np.ndarray:
    """The tile on transparent ground, uint8 [side, side, 4]."""
    if tile.accessory:
        return render_worn(tile, rgba)
    side, inner = tile.cells * PIXELS, tile.cells * PIXELS - 8 + (tile.cells == SMALL) * 2
    image = Image.fromarray(np.asarray(rgba[tile.picture]))
    top = (side - inner) // 2
    if tile.edge:
        rows = np.flatnonzero(np.asarray(image)[..., 3].max(1) > 8)
        scale = inner / image.height
        top = round(-rows[0] * scale) if tile.edge == "top" else round(side - (rows[-1] + 1) * scale)
    canvas = Image.new("RGBA", (side, side), (255, 255, 255, 0))
    canvas.paste(image.resize((inner, inner), Image.Resampling.LANCZOS), ((side - inner) // 2, top))
    return np.asarray(canvas)


def render_worn(tile: Tile, rgba: np.ndarray) -> np.ndarray:
    """A head in the lower part of the picture, and the accessory over it."""
    side = CELLS * PIXELS
    accessory = next(entry for entry in ACCESSORIES if entry.name == tile.accessory)
    head, worn = (cropped(np.asarray(rgba[picture])) for picture in (tile.picture, tile.accessory_picture))
    scale = HEAD_SCALE * side / max(head.size)
    head = head.resize((round(head.width * scale), round(head.height * scale)), Image.Resampling.LANCZOS)
    left, top = (side - head.width) // 2, side - 4 - head.height
    scale = accessory.width * head.width / worn.width
    worn = worn.resize(
        (max(1, round(worn.width * scale)), max(1, round(worn.height * scale))), Image.Resampling.LANCZOS
    )
    canvas = Image.new("RGBA", (side, side), (255, 255, 255, 0))
    canvas.alpha_composite(head, (left, top))
    for across, down in accessory.centres:
        x = round(left + across * head.width - worn.width / 2)
        y = round(top + down * head.height - worn.height / 2)
        canvas.alpha_composite(worn, (min(max(x, 0), side - worn.width), min(max(y, 0), side - worn.height)))
    return np.asarray(canvas)


def cropped(picture: np.ndarray) -> Image.Image:
    """A picture without its empty border."""
    visible = picture[..., 3] > 8
    rows, columns = np.flatnonzero(visible.any(1)), np.flatnonzero(visible.any(0))
    return Image.fromarray(picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])


def render_scene(scene: Scene, rgba: np.ndarray) -> np.ndarray:
    """The scene's picture, uint8 [128, 128, 3]."""
    canvas = np.full((CELLS * PIXELS, CELLS * PIXELS, 3), 255, np.uint8)
    for placement in scene.placements:
        tile = placement.tile
        picture = compose(render_tile(tile, rgba), tile.colour)
        top, left = placement.row * PIXELS, placement.column * PIXELS
        canvas[top : top + len(picture), left : left + len(picture)] = picture
    return canvas
