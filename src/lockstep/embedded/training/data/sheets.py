"""Contact sheets: the whole data set for the eye, one file per style, and one of recolours and backgrounds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from .... import files
from .items import Item, ItemTable, load_items
from .render import load_pictures

COLUMNS = 24
CELL = 72
LINE = 12


def write_sheets(work: Path, *, rows_of_compositions: int = 10) -> list[Path]:
    """`sheets/STYLE.png` for every style (tiers 1 and 2) and `sheets/compositions.png`, each picture with its words."""
    rgba, _ = load_pictures(work)
    table = load_items(work)
    styles = list(dict.fromkeys(picture.style for picture in table.pictures))
    paths = []
    for style in styles:
        items = table.select(tiers=(1, 2), styles=(style,), kinds=("base",), mirrored=False)
        items.sort(key=lambda item: item.tier)
        names = [table.concepts[item.concept].name for item in items]
        paths.append(write_sheet(work / f"sheets/{style}.png", table, items, names, rgba))
    composed = table.select(tiers=(1, 2), kinds=("colour", "background", "both"))
    drawn = random.Random(0).sample(composed, min(len(composed), COLUMNS * rows_of_compositions))
    names = [short_caption(table, item) for item in drawn]
    paths.append(write_sheet(work / "sheets/compositions.png", table, drawn, names, rgba))
    return paths


def short_caption(table: ItemTable, item: Item) -> str:
    colour, background = item.colour or "", f"/{item.background}" if item.background else ""
    return f"{colour} {table.concepts[item.concept].name}{background}".strip()


def write_sheet(path: Path, table: ItemTable, items: list[Item], names: list[str], rgba: np.ndarray) -> Path:
    rows = -(-len(items) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * CELL, max(1, rows) * (CELL + LINE)), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (item, name) in enumerate(zip(items, names, strict=True)):
        left, top = place % COLUMNS * CELL, place // COLUMNS * (CELL + LINE)
        picture = Image.fromarray(table.render(item, rgba)).resize((CELL - 4, CELL - 4), Image.Resampling.LANCZOS)
        sheet.paste(picture, (left, top + LINE))
        draw.text((left, top), name[:13], fill="black", font_size=10)
    with files.atomic(path) as temporary:
        sheet.save(temporary, format="PNG")
    return path
