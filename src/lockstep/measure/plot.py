"""Tables as pictures: bars for sides, lines for growth."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFont

from .runs import Table

if TYPE_CHECKING:
    from .growth import Growth

INK, PALE, GRID, PAPER = "#1f2933", "#7b8794", "#e4e7eb", "#ffffff"
OURS, THEIRS = "#2563eb", "#9aa5b1"
LINES = ("#2563eb", "#d97706", "#059669", "#db2777")
WIDTH, ROW, EDGE, NAMES = 960, 34, 32, 220
SIZE, SMALL = 16, 13
LEAST = 0.1  # MiB that is drawn where a call took none
Place = tuple[int, int, int]  # left, top, and length of a side


def bars(tables: Sequence[Table], machine: str) -> Image.Image:
    """A bar for each side, as long as it is fast; its seconds, ratio and error behind it."""
    height = EDGE + sum(72 + ROW * len(table.present) for table in tables) + 60
    page = Image.new("RGB", (WIDTH, height), PAPER)
    draw, top = ImageDraw.Draw(page), EDGE
    for table in tables:
        draw.text((EDGE, top), table.title, INK, font=_font(SIZE + 3))
        draw.text((EDGE, top + 26), f"times as fast as {table.reference}", PALE, font=_font(SMALL))
        top = _bars_of(draw, table, top + 52) + 20
    _sign(draw, top, machine)
    return page


def _bars_of(draw: ImageDraw.ImageDraw, table: Table, top: int) -> int:
    left, room = EDGE + NAMES, WIDTH - EDGE - NAMES - EDGE - 250
    most = max(table.ratio(side) for side in table.present)
    one = left + room / most
    for side in table.present:
        ratio = table.ratio(side)
        colour = OURS if side.name.startswith("lockstep") else THEIRS
        draw.text((EDGE, top + 7), side.name, INK, font=_font(SIZE))
        draw.rectangle((left, top + 4, left + room * ratio / most, top + ROW - 6), colour)
        error = "" if not side.error else f"   error {side.error:.0e}"
        draw.text(
            (left + room * ratio / most + 8, top + 7),
            f"{ratio:.2f} x   {side.best:.3g} s{error}",
            INK,
            font=_font(SIZE),
        )
        top += ROW
    draw.line((one, top - ROW * len(table.present), one, top), INK)
    return top


def lines(growths: Sequence[Growth], machine: str) -> Image.Image:
    """Seconds, and beside them memory, against what grows, all in powers: a straight line is a power law."""
    side = WIDTH // 2
    page = Image.new("RGB", (WIDTH, side * len(growths) + 60), PAPER)
    draw = ImageDraw.Draw(page)
    for row, growth in enumerate(growths):
        memory = {name: [max(value, LEAST) for value in points] for name, points in growth.peak_mib.items()}
        for column, (title, found) in enumerate((("seconds", growth.seconds), ("MiB that a call takes", memory))):
            _lines_of(draw, f"{title} by {growth.what}", growth.values, found, (column * side, row * side, side))
    _sign(draw, page.height - 50, machine)
    return page


def _lines_of(
    draw: ImageDraw.ImageDraw, title: str, values: Sequence[int], found: dict[str, list[float]], place: Place
) -> None:
    left, top, side = place
    low, high = _span([number for points in found.values() for number in points])
    first, last = math.log(values[0]), math.log(values[-1])
    box = (left + 64, top + 56, left + side - 24, top + side - 56)

    def at(value: float, number: float) -> tuple[float, float]:
        across = (math.log(value) - first) / ((last - first) or 1)
        up = (math.log(number) - math.log(low)) / (math.log(high) - math.log(low))
        return box[0] + across * (box[2] - box[0]), box[3] - up * (box[3] - box[1])

    draw.text((left + EDGE, top + 16), title, INK, font=_font(SIZE + 1))
    for tick in _ticks(low, high):
        y = at(values[0], tick)[1]
        draw.line((box[0], y, box[2], y), GRID)
        draw.text((box[0] - 8, y - 8), f"{tick:g}", PALE, font=_font(SMALL), anchor="ra")
    for value in values:
        draw.text((at(value, low)[0], box[3] + 8), f"{value:g}", PALE, font=_font(SMALL), anchor="ma")
    for order, (name, points) in enumerate(found.items()):
        colour = LINES[order % len(LINES)]
        corners = [at(value, number) for value, number in zip(values, points, strict=True)]
        draw.line(corners, colour, width=3)
        for x, y in corners:
            draw.ellipse((x - 4, y - 4, x + 4, y + 4), colour)
        draw.text((box[0] + 8, box[1] + 4 + 18 * order), name, colour, font=_font(SMALL))


def _sign(draw: ImageDraw.ImageDraw, top: int, machine: str) -> None:
    """The machine, below everything, in as many lines as it takes."""
    draw.multiline_text((EDGE, top), "\n".join(textwrap.wrap(machine, 125)), PALE, font=_font(SMALL))


def _span(values: Sequence[float]) -> tuple[float, float]:
    """Room below and above, to whole ticks."""
    return min(values) / 1.3, max(values) * 1.6


def _ticks(low: float, high: float) -> list[float]:
    steps = [base * 10.0**power for power in range(-4, 5) for base in (1, 2, 5)]
    return [tick for tick in steps if low <= tick <= high]


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)
