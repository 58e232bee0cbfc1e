"""A contact sheet: several pictures as one."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

LABEL = 18  # pixels for a line of text


def contact_sheet(
    pictures: Sequence[Image.Image], labels: Sequence[str] | None = None, columns: int = 4, gap: int = 0
) -> Image.Image:
    """The pictures in rows, with their labels underneath and `gap` pixels between them."""
    width, height = pictures[0].size
    cell = height + (LABEL if labels else 0)
    columns = min(columns, len(pictures))
    rows = -(-len(pictures) // columns)
    size = (columns * (width + gap) - gap, rows * (cell + gap) - gap)
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    for index, picture in enumerate(pictures):
        left, top = index % columns * (width + gap), index // columns * (cell + gap)
        sheet.paste(picture, (left, top))
        if labels:
            draw.text((left + 4, top + height + 3), labels[index], fill="black")
    return sheet
