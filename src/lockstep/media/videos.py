"""Videos: which formats there are, how a pipeline's frames become files, and how a file becomes an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..errors import InputError, NotFoundError
from . import containers
from .clip import Clip
from .frame_folder import FrameFolder
from .gif import Gif
from .kind import MediaKind
from .pixels import PixelHash, pixels_of
from .sheet import contact_sheet
from .streaming import frame_rate

DEFAULT_FPS = 16.0  # where neither the run nor the person says it
SHOWN = 12  # frames of a contact sheet


class Videos(MediaKind):
    """Frames in a row, with a rate."""

    name, place = "video", "video"
    count_input = "num_videos_per_prompt"
    formats = (*containers.FORMATS, Gif(), FrameFolder())
    options = ("fps",)

    def items(self, value: Any) -> list[Any]:
        """Lists of PIL frames, or an array with the axes batch, frame and those of a picture."""
        clips = list(value) if isinstance(value, list) or getattr(value, "ndim", 0) == 5 else []
        if not clips or not all(_is_clip(clip) for clip in clips):
            raise InputError("There are no videos to save in this output; ask for output_type='pil' or 'np'.")
        return clips

    def frames(self, item: Any) -> Iterable[np.ndarray]:
        return (pixels_of(frame) for frame in item)

    def preview(self, item: Any) -> Image.Image:
        """A contact sheet of frames at equal distances, the first and the last among them."""
        chosen = np.unique(np.linspace(0, len(item) - 1, min(SHOWN, len(item))).round().astype(int))
        return contact_sheet([Image.fromarray(pixels_of(item[k])) for k in chosen], gap=4)

    def load(self, path: Path) -> Clip:
        if not path.exists():
            raise NotFoundError(f"There is no video at {path}.")
        known = path.is_dir() or path.suffix.lower() in self.suffixes
        return self.format_for(path).read(path) if known else containers.read_container(path)

    def describe_input(self, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, Clip):
            return None
        digest = PixelHash(self.frames(value)).text
        file = {} if value.filename is None else {"file": Path(value.filename)}
        return {"video": len(value), "size": list(value[0].size), "sha256": digest, **file}

    def check_options(self, options: Mapping[str, Any]) -> None:
        super().check_options(options)
        if "fps" in options:
            frame_rate(options["fps"])

    def options_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"fps": values.get("frame_rate") or DEFAULT_FPS}


def _is_clip(value: Any) -> bool:
    return getattr(value, "ndim", 0) == 4 or (isinstance(value, list) and bool(value))
