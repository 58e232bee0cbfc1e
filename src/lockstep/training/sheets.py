"""Sheets: many small pictures with what was asked for under each, in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .. import files

MARGIN, LABEL = 4, 26


def save_sheet(
    path: Path, pictures: np.ndarray | Sequence[np.ndarray], labels: Sequence[str], columns: int = 8
) -> Path:
    """Write uint8 HWC pictures row by row, as PNG, or as JPEG by the file's name."""
    height, width = pictures[0].shape[:2]
    rows = -(-len(pictures) // columns)
    sheet = Image.new(
        "RGB", (columns * (width + MARGIN) + MARGIN, rows * (height + LABEL + MARGIN) + MARGIN), (245, 245, 245)
    )
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=10)
    for index, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        left = MARGIN + (index % columns) * (width + MARGIN)
        top = MARGIN + (index // columns) * (height + LABEL + MARGIN)
        sheet.paste(Image.fromarray(picture), (left, top))
        draw.multiline_text(
            (left + 1, top + height + 1), wrap(label, width, font), fill=(40, 40, 40), font=font, spacing=1
        )
    with files.atomic(path) as temporary:
        sheet.save(temporary, format="JPEG" if path.suffix == ".jpg" else "PNG", quality=92)
    return path


def wrap(text: str, width: int, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, lines: int = 2) -> str:
    """The text in at most `lines` lines of that many pixels."""
    rows = [""]
    for word in text.split():
        longer = f"{rows[-1]} {word}".strip()
        if rows[-1] and font.getlength(longer) > width:
            rows.append(word)
        else:
            rows[-1] = longer
    return "\n".join(rows[:lines])
