"""A video as a folder: one PNG a frame and the manifest beside them. Lossless, and needs nothing but PIL."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from .. import files
from ..errors import FileFormatError, InputError
from .clip import Clip
from .pictures import PNG, opened
from .streaming import Sink, VideoFormat
from .text import MAX_LENGTH

MANIFEST = "manifest.json"
FRAME = "frame-{:05d}.png"
FRAMES = "frame-*.png"


class FrameFolder(VideoFormat):
    """`clip/frame-00000.png`, `frame-00001.png` … and `manifest.json`."""

    name, suffixes = "a folder of frames", ("",)

    def check_target(self, path: Path) -> None:
        """A folder is replaced only where nothing but such frames would be lost."""
        if path.is_dir() and any(not (one.name == MANIFEST or one.match(FRAMES)) for one in path.iterdir()):
            raise InputError(f"{path} is a folder with other things in it; frames want a folder of their own.")
        if path.is_file():
            raise InputError(f"{path} is a file; a folder of frames cannot take its place. Choose another name.")

    def holds(self, folder: Path) -> bool:
        return (folder / MANIFEST).is_file() and any(folder.glob(FRAMES))

    def sink(self, folder: Path, size: tuple[int, int], fps: Fraction) -> Sink:
        return _FolderSink(folder / "frames")

    def read(self, path: Path) -> Clip:
        names = sorted(path.glob(FRAMES))
        if not names:
            raise FileFormatError(f"{path} has no frames ({FRAME.format(0)} …). There: {files.listing(path)}.")
        facts = files.read_json(path / MANIFEST) if (path / MANIFEST).is_file() else {}
        return Clip([opened(name).convert("RGB") for name in names], fps=facts.get("fps"), filename=path)

    def read_text(self, path: Path) -> str | None:
        file = path / MANIFEST
        if not file.is_file():
            return None
        if file.stat().st_size > 2 * MAX_LENGTH:
            raise FileFormatError(f"{file} has {file.stat().st_size} bytes; a manifest has {MAX_LENGTH} at most.")
        return file.read_text(encoding="utf-8", errors="replace")


class _FolderSink(Sink):
    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        folder.mkdir()

    def add(self, pixels: np.ndarray) -> None:
        (self.folder / FRAME.format(self.count)).write_bytes(PNG.encoded(Image.fromarray(pixels)))
        self.count += 1

    def finish(self, text: str) -> Path:
        record: Any = json.loads(text)
        (self.folder / MANIFEST).write_text(json.dumps(record, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        return self.folder

    def close(self) -> None:
        """Every frame is a file of its own: nothing is open."""
