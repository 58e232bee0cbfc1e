"""GIF: every frame with its own 256 colours, exact where it has no more; written by PIL's encoder, frame by frame."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from PIL import GifImagePlugin, Image, ImageSequence

from ..errors import FileFormatError, InputError
from .clip import Clip
from .pictures import UNREADABLE
from .streaming import Sink, VideoFormat
from .text import KEY

MARK = f"{KEY}:".encode()
COMMENT, NETSCAPE, END = b"\x21\xfe", b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00", b"\x3b"
MAX_RATE, MAX_SIDE = 50, 65_535


class Gif(VideoFormat):
    """Small loops that play everywhere; the manifest is its comment."""

    name, suffixes, tolerance = "GIF", (".gif",), 11.0

    def sink(self, folder: Path, size: tuple[int, int], fps: Fraction) -> Sink:
        if fps > MAX_RATE:
            raise InputError(
                f"A GIF shows {MAX_RATE} frames per second at most, got {float(fps):g}. Use .mp4 or .webm."
            )
        if max(size) > MAX_SIDE:
            raise InputError(f"A GIF has {MAX_SIDE} pixels a side at most, got {size[0]}x{size[1]}.")
        return _GifSink(folder, size, fps)

    def read(self, path: Path) -> Clip:
        try:
            with Image.open(path, formats=["GIF"]) as file:
                pairs = [
                    (frame.info.get("duration", 0), frame.convert("RGB")) for frame in ImageSequence.Iterator(file)
                ]
        except UNREADABLE as problem:
            raise FileFormatError(f"{path} is not a GIF that can be read: {problem}.") from None
        seconds = sum(duration for duration, _ in pairs) / 1000
        return Clip([frame for _, frame in pairs], fps=len(pairs) / seconds if seconds else None, filename=path)

    def read_text(self, path: Path) -> str | None:
        try:
            with Image.open(path, formats=["GIF"]) as file:
                comment = file.info.get("comment", b"")
        except UNREADABLE as problem:
            raise FileFormatError(f"{path} is not a GIF that can be read: {problem}.") from None
        return comment.removeprefix(MARK).decode("ascii", errors="replace") if comment.startswith(MARK) else None


class _GifSink(Sink):
    """The frames go to a file of their own; the head with the comment comes before them at the end."""

    def __init__(self, folder: Path, size: tuple[int, int], fps: Fraction) -> None:
        self.folder, self.size, self.fps, self.count = folder, size, fps, 0
        self.body = (folder / "body").open("w+b")

    def add(self, pixels: np.ndarray) -> None:
        start, end = (round(k * 100 / self.fps) for k in (self.count, self.count + 1))  # in 1/100 s, without drift
        data = GifImagePlugin.getdata(_indexed(pixels), duration=(end - start) * 10, include_color_table=True)
        self.body.write(b"".join(data))
        self.count += 1

    def finish(self, text: str) -> Path:
        path = self.folder / "finished.gif"
        with path.open("wb") as file:
            file.write(b"GIF89a" + struct.pack("<HHBBB", *self.size, 0, 0, 0) + NETSCAPE)
            file.write(COMMENT + b"".join(_pieces(MARK + text.encode("ascii"))) + b"\0")
            self.body.seek(0)
            shutil.copyfileobj(self.body, file)
            file.write(END)
        self.close()
        return path

    def close(self) -> None:
        self.body.close()


def _pieces(data: bytes) -> Iterator[bytes]:
    """As GIF keeps long data: up to 255 bytes, each piece after its length."""
    for start in range(0, len(data), 255):
        piece = data[start : start + 255]
        yield bytes([len(piece)]) + piece


def _indexed(pixels: np.ndarray) -> Image.Image:
    """A frame with a palette: its own colours where they are 256 or fewer, the nearest 256 where they are more."""
    picture = Image.fromarray(pixels)
    if picture.getcolors(256) is None:
        palette = picture.quantize(256, method=Image.Quantize.FASTOCTREE)
        return picture.quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
    height, width, _ = pixels.shape
    colours, places = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True)
    indexed = Image.fromarray(places.reshape(height, width).astype(np.uint8), mode="P")
    indexed.putpalette(colours.tobytes())
    return indexed
