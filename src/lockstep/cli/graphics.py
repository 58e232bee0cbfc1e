"""Pictures as the escape sequences of terminals that show pixels: kitty's protocol, iTerm2's, and sixel.

A terminal is known by what it says of itself in the environment; asking it would mean to read its answer from the
keyboard. `LOCKSTEP_PICTURES` (kitty, iterm, sixel, blocks) overrules the guess.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import UnknownNameError

if TYPE_CHECKING:
    from PIL.Image import Image

PROTOCOLS = ("kitty", "iterm", "sixel", "blocks")
KITTY_CHUNK = 4096  # the longest piece of base64 that the protocol allows
SIXEL_TERMINALS = ("foot", "mlterm", "yaft", "contour")


def choose_protocol(environment: Mapping[str, str] = os.environ) -> str:
    """The protocol of this terminal; `blocks` (coloured characters) where none is known."""
    wanted = environment.get("LOCKSTEP_PICTURES")
    if wanted:
        if wanted not in PROTOCOLS:
            raise UnknownNameError("LOCKSTEP_PICTURES", wanted, PROTOCOLS)
        return wanted
    term, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "TMUX" in environment or term.startswith(("screen", "tmux")):
        return "blocks"  # a multiplexer swallows what it does not know
    if "KITTY_WINDOW_ID" in environment or "kitty" in term or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm"
    return "sixel" if term.startswith(SIXEL_TERMINALS) else "blocks"


def encode(picture: Image, protocol: str, columns: int) -> str:
    """The sequence that shows a picture `columns` characters wide."""
    return {"kitty": kitty, "iterm": iterm, "sixel": sixel}[protocol](picture, columns)


def kitty(picture: Image, columns: int) -> str:
    """PNG in pieces; every piece but the last says that more follow."""
    data = _base64_png(picture)
    pieces = [data[start : start + KITTY_CHUNK] for start in range(0, len(data), KITTY_CHUNK)]
    heads = [f"a=T,f=100,c={columns},", *[""] * (len(pieces) - 1)]
    last = len(pieces) - 1
    return "".join(
        f"\x1b_G{head}m={int(index < last)};{piece}\x1b\\"
        for index, (head, piece) in enumerate(zip(heads, pieces, strict=True))
    )


def iterm(picture: Image, columns: int) -> str:
    """One PNG in one sequence."""
    return f"\x1b]1337;File=inline=1;width={columns};preserveAspectRatio=1:{_base64_png(picture)}\x07"


def sixel(picture: Image, columns: int) -> str:
    """Up to 256 colours, six rows of pixels a band; a character is taken to be 8 pixels wide."""
    width = columns * 8
    small = picture.resize((width, max(1, round(picture.height * width / picture.width))))
    indexed = small.quantize(256)
    palette = (indexed.getpalette() or [])[: 3 * 256]
    colours = [tuple(round(v * 100 / 255) for v in palette[k : k + 3]) for k in range(0, len(palette), 3)]
    registers = "".join(f"#{k};2;{r};{g};{b}" for k, (r, g, b) in enumerate(colours))
    return f'\x1bPq"1;1;{indexed.width};{indexed.height}{registers}{"-".join(_bands(indexed))}\x1b\\'


def _bands(indexed: Image) -> Iterator[str]:
    """Each band: for every colour in it, one character a column whose six bits are the pixels of that colour."""
    pixels: Any = indexed.load()
    for top in range(0, indexed.height, 6):
        bits: dict[int, list[int]] = {}
        for y in range(top, min(top + 6, indexed.height)):
            for x in range(indexed.width):
                bits.setdefault(pixels[x, y], [0] * indexed.width)[x] |= 1 << (y - top)
        yield "$".join(f"#{colour}{_shortened(row)}" for colour, row in bits.items())


def _shortened(row: list[int]) -> str:
    """A row of six-bit values with repeats counted: `!12~`."""
    text, start = "", 0
    for place in range(1, len(row) + 1):
        if place == len(row) or row[place] != row[start]:
            count, character = place - start, chr(63 + row[start])
            text += f"!{count}{character}" if count > 3 else character * count
            start = place
    return text


def _base64_png(picture: Image) -> str:
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return base64.b64encode(file.getvalue()).decode()
