"""A file and the pixels that were made again from its manifest: are they the same, and if not, which changed?"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .kind import Format, MediaKind
from .pixels import Difference, PixelHash, difference


@dataclass(frozen=True)
class MediaComparison:
    """`computed`: whether the pixels before writing are those of the first time (None: the manifest does not say).

    A lossy file is compared with what its own format makes of the pixels, so `apart` is 0 where nothing changed.
    """

    format: Format
    computed: bool | None
    untouched: bool | None  # a lossless file still has the pixels that its manifest names
    apart: Difference | None  # None: another size or number of frames

    @property
    def identical(self) -> bool:
        """Every pixel was made again; where the file is lossy, the hash in its manifest has to say so, too."""
        exact = self.apart is not None and self.apart.largest == 0
        return exact and (self.format.lossless or self.computed is True)

    @property
    def within_tolerance(self) -> bool:
        return self.apart is not None and self.apart.mean <= self.format.tolerance

    @property
    def edited(self) -> bool:
        """The file is not what was written, whatever the computation gives."""
        if self.format.lossless:
            return self.untouched is False
        return self.computed is True and not self.within_tolerance


def compare(kind: MediaKind, path: Path, again: Any, manifest: dict[str, Any]) -> MediaComparison:
    """Hold what was made again against a file."""
    format = kind.format_of(path)
    file, recorded = format.read(path), manifest.get("pixels")
    computed = untouched = None
    if isinstance(recorded, str):
        computed = PixelHash(kind.frames(again)).text == recorded
        untouched = PixelHash(kind.frames(file)).text == recorded if format.lossless else None
    wanted = again if format.lossless else _as_written(kind, path.stem + format.suffixes[0], again, manifest)
    return MediaComparison(format, computed, untouched, difference(kind.frames(file), kind.frames(wanted)))


def _as_written(kind: MediaKind, name: str, item: Any, manifest: dict[str, Any]) -> Any:
    """An item after a way through the file's format."""
    options = {option: manifest[option] for option in kind.options if option in manifest}
    with tempfile.TemporaryDirectory() as folder:
        path = kind.write(item, Path(folder) / name, **options)
        return kind.format_for(path).read(path)
