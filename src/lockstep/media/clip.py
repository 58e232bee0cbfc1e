"""A video in memory: its frames, and what is known of the file that they came from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image


class Clip(list[Any]):
    """A list of PIL frames that knows its rate and its file."""

    def __init__(self, frames: Iterable[Image.Image], fps: float | None = None, filename: Path | None = None) -> None:
        super().__init__(frames)
        self.fps, self.filename = fps, filename
