"""Pictures as terminals with pixels take them."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from lockstep.cli.graphics import KITTY_CHUNK, choose_protocol, iterm, kitty, sixel
from lockstep.cli.preview import TerminalPicture
from lockstep.errors import UnknownNameError


def picture(size=(48, 32)):
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def pixels_of(data):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-256color"}, "blocks"),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, "blocks"),
        ({"TERM": "xterm-kitty", "LOCKSTEP_PICTURES": "blocks"}, "blocks"),
        ({}, "blocks"),
    ],
)
def test_a_terminal_is_known_by_its_environment(environment, protocol):
    assert choose_protocol(environment) == protocol


def test_an_unknown_wish_is_refused():
    with pytest.raises(UnknownNameError, match="sixel"):
        choose_protocol({"LOCKSTEP_PICTURES": "sixels"})


def test_kitty_gets_the_whole_png_in_pieces():
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", kitty(picture(), 20))
    assert len(pieces) > 1
    assert all(len(data) <= KITTY_CHUNK for _, data in pieces)
    assert [options[-3:] for options, _ in pieces] == ["m=1"] * (len(pieces) - 1) + ["m=0"]
    assert pieces[0][0].startswith("a=T,f=100,c=20,")
    assert np.array_equal(pixels_of("".join(data for _, data in pieces)), np.asarray(picture()))


def test_iterm_gets_one_png():
    options, data = re.fullmatch(r"\x1b\]1337;File=([^:]*):([^\x07]*)\x07", iterm(picture(), 20)).groups()
    assert "inline=1" in options
    assert "width=20" in options
    assert np.array_equal(pixels_of(data), np.asarray(picture()))


def decoded_sixel(text):
    """What a sixel terminal would paint."""
    width, height, rest = re.fullmatch(r'\x1bPq"1;1;(\d+);(\d+)(.*)\x1b\\', text, re.S).groups()
    canvas = np.zeros((int(height) + 6, int(width), 3))
    palette, colour, x, top = {}, 0, 0, 0
    for token in re.findall(r"#\d+(?:;\d+)*|!\d+.|[$-]|[?-~]", rest):
        if token.startswith("#"):
            number, *values = map(int, token[1:].split(";"))
            if values:
                palette[number] = np.array(values[1:]) * 255 / 100
            colour = number
        elif token == "$":
            x = 0
        elif token == "-":
            x, top = 0, top + 6
        else:
            count = int(token[1:-1]) if token.startswith("!") else 1
            bits = ord(token[-1]) - 63
            for row in range(6):
                if bits >> row & 1:
                    canvas[top + row, x : x + count] = palette[colour]
            x += count
    return canvas[: int(height)]


def test_sixel_paints_every_pixel():
    small = Image.fromarray(np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8))
    flat = small.resize((16, 16), Image.Resampling.NEAREST)
    painted = decoded_sixel(sixel(flat, 2))
    assert np.abs(painted - np.asarray(flat)).max() <= 2  # sixel counts colours in percent


def test_the_console_writes_the_sequence_unchanged():
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=20)
    console.print(TerminalPicture(picture(), 8, protocol="iterm"))
    assert iterm(picture(), 8) in console.file.getvalue()
