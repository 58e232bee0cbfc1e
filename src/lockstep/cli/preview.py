"""Pictures in a terminal: two pixels a character, an upper half block with foreground and background colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.segment import Segment
from rich.style import Style

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console, ConsoleOptions, RenderResult


class TerminalPicture:
    """A picture as rich renders it, at most as wide as the terminal."""

    def __init__(self, picture: Image, width: int = 64) -> None:
        self.picture, self.width = picture.convert("RGB"), width

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = max(2, min(self.width, options.max_width))
        rows = max(2, round(columns * self.picture.height / self.picture.width / 2) * 2)
        pixels = self.picture.resize((columns, rows)).load()
        for y in range(0, rows, 2):
            for x in range(columns):
                upper, lower = pixels[x, y], pixels[x, y + 1]  # type: ignore[index]
                yield Segment("▀", Style.parse(f"rgb({_rgb(upper)}) on rgb({_rgb(lower)})"))
            yield Segment.line()


def _rgb(pixel: Any) -> str:
    return ",".join(map(str, pixel))


def can_show(console: Console) -> bool:
    """Whether this terminal has the colours for it."""
    return console.is_terminal and console.color_system in ("256", "truecolor")
