"""Pictures and captions: emoji art under MIT and Apache-2.0, recoloured and composed, with exact words for it.

sources.py   npm packages at pinned versions            -> archives/, unpacked/, sources.json
concepts.py  what they show and what it is called       -> concepts.json       (core.json: the list by hand)
art.py       which drawing shows which concept, per style
render.py    SVG and WebP to RGBA 128 px                -> pictures/
colours.py   recolour, background, colour names
captions.py  the grammar of prompts
items.py     the table that the trainer reads           -> items.json
sheets.py    contact sheets for the eye                 -> sheets/
"""

from .art import STYLES
from .captions import DEFAULT_STYLE
from .colours import BACKGROUNDS, COLOURS, compose, name_colour
from .concepts import Concept
from .items import Item, ItemTable, build_items, load_items
from .render import Picture, load_pictures, render_pictures
from .sources import fetch_sources

__all__ = [
    "BACKGROUNDS",
    "COLOURS",
    "DEFAULT_STYLE",
    "STYLES",
    "Concept",
    "Item",
    "ItemTable",
    "Picture",
    "build_items",
    "compose",
    "fetch_sources",
    "load_items",
    "load_pictures",
    "name_colour",
    "render_pictures",
]
