"""Pictures in a terminal: as pixels where it can show them, else two pixels a character."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.segment import ControlType, Segment
from rich.style import Style

from .graphics import choose_protocol, encode

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console, ConsoleOptions, RenderResult


class TerminalPicture:
    """A picture as rich renders it, at most as wide as the terminal."""

    def __init__(self, picture: Image, width: int = 64, protocol: str | None = None) -> None:
        self.picture, self.width = picture.convert("RGB"), width
        self.protocol = protocol or choose_protocol()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = max(2, min(self.width, options.max_width))
        if self.protocol == "blocks":
            yield from self._half_blocks(columns)
        else:
            # marked as a control sequence, rich neither measures nor crops it
            yield Segment(encode(self.picture, self.protocol, columns), None, [(ControlType.BELL,)])
            yield Segment.line()

    def _half_blocks(self, columns: int) -> Iterator[Segment]:
        """Upper half blocks: the foreground colours the upper pixel, the background the lower one."""
        rows = max(2, round(columns * self.picture.height / self.picture.width / 2) * 2)
        pixels: Any = self.picture.resize((columns, rows)).load()
        for y in range(0, rows, 2):
            for x in range(columns):
                upper, lower = pixels[x, y], pixels[x, y + 1]
                yield Segment("▀", Style.parse(f"rgb({_rgb(upper)}) on rgb({_rgb(lower)})"))
            yield Segment.line()


def _rgb(pixel: Any) -> str:
    return ",".join(map(str, pixel))


def can_show(console: Console) -> bool:
    """Whether this terminal has the colours for it."""
    return console.is_terminal and console.color_system in ("256", "truecolor")
