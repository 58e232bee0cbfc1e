"""What an output is (picture, video): how it is written and read back with its manifest, given as input, and shown.

Everything goes through `KINDS`: a further kind is a class here, and no other room has to know it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import FileFormatError, NotFoundError, UnknownNameError
from .clip import Clip
from .compare import Comparison, compare
from .kind import Format, MediaKind
from .pictures import MadePicture, Pictures, plain
from .sheet import contact_sheet
from .streaming import VideoFormat, VideoWriter, free_name
from .text import Describe, from_text
from .videos import Videos

KINDS: tuple[MediaKind, ...] = (Pictures(), Videos())

__all__ = [
    "KINDS", "Clip", "Comparison", "Describe", "Format", "MadePicture", "MediaKind", "VideoWriter", "compare",
    "contact_sheet", "free_name", "kind_named", "kind_of_file", "plain", "read_manifest", "writer",
]  # fmt: skip


def kind_named(name: str) -> MediaKind:
    """The kind that a vocabulary entry names."""
    found = next((kind for kind in KINDS if kind.name == name), None)
    if found is None:
        raise UnknownNameError("kind of media", name, [kind.name for kind in KINDS])
    return found


def kind_of_file(path: Path) -> MediaKind:
    """The kind of a file that is there."""
    if not path.exists():
        raise NotFoundError(f"There is no picture or video at {path}.")
    suffix = "" if path.is_dir() else path.suffix.lower()
    found = next((kind for kind in KINDS if suffix in kind.suffixes), None)
    if found is None or (not suffix and not path.is_dir()):
        known = ", ".join(name for kind in KINDS for name in kind.suffixes if name)
        raise FileFormatError(
            f"{path} is not a picture or video that can be read: wanted {known}, or a folder of frames."
        )
    return found


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest inside a picture or video."""
    path = Path(path)
    return from_text(kind_of_file(path).format_for(path).read_text(path), path)


def writer(path: str | Path, fps: float, describe: Describe | None = None) -> VideoWriter:
    """A video to which frames are added one by one: `with writer("clip.mp4", fps=24) as w: w.add(frame)`."""
    format = kind_named("video").format_for(Path(path))
    assert isinstance(format, VideoFormat)
    return VideoWriter(format, Path(path), fps=fps, describe=describe)
