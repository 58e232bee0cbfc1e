"""What scripts use around a run: a picture from a file or an address, several as one, frames to a file and back."""

from __future__ import annotations

import io
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, overload

import numpy as np
from PIL import Image, ImageOps

from ..errors import FileFormatError, InputError, NotFoundError
from .clip import Clip
from .pictures import UNREADABLE, opened
from .pixels import pixels_of
from .sheet import contact_sheet
from .videos import Videos

MOST_BYTES = 200 * 2**20  # of a file that is fetched
SECONDS = 30.0
Picture: TypeAlias = Image.Image
Frames: TypeAlias = "Sequence[Picture] | Sequence[np.ndarray] | np.ndarray"


def load_image(image: str | Path | Picture, convert_method: Callable[[Picture], Picture] | None = None) -> Picture:
    """A picture from a path or an http address, upright and in RGB (or as `convert_method` makes it)."""
    place = None
    if isinstance(image, (str, Path)) and str(image).startswith(("http://", "https://")):
        image = opened_bytes(fetched(str(image)), str(image))
    elif isinstance(image, (str, Path)):
        image, place = opened(Path(image)), str(image)
    if not isinstance(image, Image.Image):
        raise InputError(f"load_image wants a path, an http address or a PIL image, got {type(image).__name__}.")
    upright = ImageOps.exif_transpose(image)
    if convert_method is not None:
        return convert_method(upright)
    picture = upright.convert("RGB")
    if place is not None and not upright.has_transparency_data:  # which a replay would read otherwise
        picture.filename = place  # type: ignore[attr-defined]  # a manifest tells where a picture came from
    return picture


@overload
def load_video(
    video: str | Path,
    convert_method: Callable[[list[Picture]], list[Picture]] | None = None,
    return_fps: Literal[False] = False,
) -> list[Picture]: ...
@overload
def load_video(
    video: str | Path,
    convert_method: Callable[[list[Picture]], list[Picture]] | None = None,
    *,
    return_fps: Literal[True],
) -> tuple[list[Picture], float]: ...
def load_video(
    video: str | Path,
    convert_method: Callable[[list[Picture]], list[Picture]] | None = None,
    return_fps: bool = False,
) -> list[Picture] | tuple[list[Picture], float]:
    """The frames of a video file or of an address, with its frames per second where they are asked for."""
    if str(video).startswith(("http://", "https://")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"video{Path(str(video).partition('?')[0]).suffix}"
            path.write_bytes(fetched(str(video)))
            clip = Videos().load(path)
    else:
        clip = Videos().load(Path(video))
    frames = list(clip) if convert_method is None else convert_method(list(clip))
    return (frames, float(clip.fps or 0.0)) if return_fps else frames


def make_image_grid(images: Sequence[Picture], rows: int, cols: int, resize: int | None = None) -> Picture:
    """Pictures as one, row after row; `resize` makes each of them a square of that side first."""
    if len(images) != rows * cols:
        raise InputError(f"A grid of {rows} x {cols} wants {rows * cols} pictures, got {len(images)}.")
    shown = [image.resize((resize, resize)) for image in images] if resize is not None else list(images)
    return contact_sheet(shown, columns=cols)


def export_to_video(video_frames: Frames, output_video_path: str | Path | None = None, fps: float = 10) -> str:
    """Frames (PIL, or arrays from 0 to 1 or in bytes) as a video file; its path, a new one where none is given."""
    return _exported(video_frames, output_video_path, ".mp4", fps)


def export_to_gif(image: Frames, output_gif_path: str | Path | None = None, fps: float = 10) -> str:
    """Frames as an animated GIF; its path."""
    return _exported(image, output_gif_path, ".gif", fps)


def _exported(frames: Frames, path: str | Path | None, suffix: str, fps: float) -> str:
    target = Path(path) if path is not None else Path(tempfile.mkdtemp()) / f"video{suffix}"
    pictures = [Image.fromarray(pixels_of(frame)) for frame in frames]
    return str(Videos().write(Clip(pictures, fps=fps), target, fps=fps))


def fetched(address: str) -> bytes:
    """What is at an http address, if it is no larger than a picture or short video would be."""
    request = urllib.request.Request(address, headers={"User-Agent": "lockstep"})
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            data: bytes = answer.read(MOST_BYTES + 1)
    except (urllib.error.URLError, TimeoutError, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise NotFoundError(f"{address} could not be fetched: {reason}. Download the file and give its path.") from None
    if len(data) > MOST_BYTES:
        raise InputError(f"{address} is larger than {MOST_BYTES // 2**20} MiB. Download the file and give its path.")
    return data


def opened_bytes(data: bytes, name: str) -> Picture:
    """A picture in memory."""
    try:
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
            return picture
    except UNREADABLE as problem:
        raise FileFormatError(f"{name} is not a picture that can be read: {problem}.") from None
