"""Videos written frame by frame: nothing has the target's name before it is whole, and what is done is kept."""

from __future__ import annotations

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from .. import files
from ..errors import InputError, LockstepError
from .kind import Format
from .pixels import PixelHash, pixels_of
from .text import Describe, to_text

MAX_RATE = 1000


class Sink(ABC):
    """Where the frames of one video go: files in a working folder that nobody else looks into."""

    @abstractmethod
    def add(self, pixels: np.ndarray) -> None:
        """One more frame."""

    @abstractmethod
    def finish(self, text: str) -> Path:
        """The finished file or folder, with its manifest inside."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open; `finish` does so, too."""


class VideoFormat(Format):
    """A format that takes frames one after the other."""

    @abstractmethod
    def sink(self, folder: Path, size: tuple[int, int], fps: Fraction) -> Sink:
        """A new video in a working folder; the size is (width, height)."""

    def write(self, item: Iterable[Any], path: Path, describe: Describe | None, **options: Any) -> None:
        with VideoWriter(self, path, describe=describe, **options) as writer:
            for frame in item:
                writer.add(frame)


class VideoWriter:
    """`with writer(path, fps=24) as w: w.add(frame)`: the video is at `path` when the block ends well.

    When it ends with an error or an interrupt, the frames until then are a valid video under a name of its own
    (`clip-unfinished.mp4`), which the error's note tells.
    """

    def __init__(self, format: VideoFormat, path: Path, *, fps: float, describe: Describe | None = None) -> None:
        self.format, self.path, self.fps = format, path, frame_rate(fps)
        self.describe = describe
        self.num_frames = 0
        self._size: tuple[int, int] | None = None
        self._sink: Sink | None = None
        self._hash = PixelHash()
        self._folder = files.temporary_beside(path)
        format.check_target(path)

    def __enter__(self) -> Self:
        with files.writing(self.path):
            self._folder.mkdir(parents=True)
        return self

    def add(self, frame: Any) -> None:
        """Append one frame: PIL, numpy (HWC) or torch (CHW)."""
        pixels = pixels_of(frame)
        size = (pixels.shape[1], pixels.shape[0])
        if pixels.shape[-1] != 3:
            raise InputError("A frame of a video has no transparency; put it on a background first.")
        if self._size is not None and size != self._size:
            raise InputError(
                f"All frames have one size: {'x'.join(map(str, self._size))}, got {'x'.join(map(str, size))}."
            )
        with files.writing(self.path):
            if self._sink is None:
                self._sink = self.format.sink(self._folder, size, self.fps)
                self._size = size
            self._sink.add(pixels)
        self._hash.add(pixels)
        self.num_frames += 1

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            if problem is None:
                self._settle(self.path)
            elif self.num_frames:
                self._keep(problem)
        finally:
            if self._sink is not None:
                with contextlib.suppress(OSError):  # what a full disk does not take any more is thrown away anyhow
                    self._sink.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _settle(self, path: Path) -> None:
        if self._sink is None:
            raise InputError(f"No frame was added to {path}; a video has at least one.")
        described = dict(self.describe(path.parent)) if self.describe is not None else {}
        rate = int(self.fps) if self.fps.denominator == 1 else float(self.fps)
        facts = {"pixels": self._hash.text, "fps": rate, "frames": self.num_frames}
        unfinished = {} if path == self.path else {"unfinished": True}
        with files.writing(path):
            files.settle(self._sink.finish(to_text(described | facts | unfinished)), path)

    def _keep(self, problem: BaseException) -> None:
        """What is done, as a video that says it is not all."""
        path = free_name(self.path.with_stem(f"{self.path.stem}-unfinished"))
        try:
            self._settle(path)
        except (LockstepError, OSError) as second:
            problem.add_note(f"The {self.num_frames} frames that were done could not be kept: {second}")
        else:
            problem.add_note(f"The {self.num_frames} frames that were done are in {path}.")


def frame_rate(fps: float) -> Fraction:
    """Frames per second as a fraction: 23.976 is 24000/1001."""
    if not isinstance(fps, (int, float, Fraction)) or isinstance(fps, bool) or not 0 < fps <= MAX_RATE:
        raise InputError(f"fps (frames per second) has to be above 0 and at most {MAX_RATE}, got {fps!r}.")
    ntsc = Fraction(round(fps * 1.001) * 1000, 1001)
    return ntsc if abs(ntsc - fps) < 0.0005 and fps != int(fps) else Fraction(fps).limit_denominator(1000)


def free_name(path: Path) -> Path:
    """The path, or the first of `name-1`, `name-2` … that nothing has."""
    number, name = 0, path
    while name.exists():
        number += 1
        name = path.with_stem(f"{path.stem}-{number}")
    return name
