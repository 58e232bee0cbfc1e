"""What each media format loses: the mean and largest difference of pixels, in 1/255, after writing and reading back.

    python -m benchmarks.media_loss

The tolerances in `lockstep/media` are the largest mean of a format here, rounded up.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.table import Table

from lockstep.media import KINDS
from lockstep.media.pixels import difference

from .machine import console

SHEET = Path(__file__).parents[1] / "docs" / "emoji-sheet.png"
WIDTH, HEIGHT, FRAMES = 256, 192, 24


def wander() -> list[Image.Image]:
    """A window that moves over pictures of the embedded model."""
    with Image.open(SHEET) as file:
        sheet = file.convert("RGB")
    return [sheet.crop((3 * k, 2 * k, 3 * k + WIDTH, 2 * k + HEIGHT)) for k in range(FRAMES)]


def waves() -> list[Image.Image]:
    """Smooth colours with one hard edge."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    planes = [
        ((x + 3 * k) % 256, 128 + 100 * np.sin(y / 20 + k / 5), 127 + 120 * np.cos((x + y) / 40 - k / 6))
        for k in range(FRAMES)
    ]
    return [Image.fromarray(np.stack(plane, -1).astype(np.uint8)) for plane in planes]


def loss(kind: Any, item: Any, path: Path) -> Any:
    options = {"fps": 24} if "fps" in kind.options else {}
    kind.write(item, path, **options)
    return difference(kind.frames(item), kind.frames(kind.format_for(path).read(path)))


def main() -> None:
    table = Table("format", "content", "mean", "largest", "tolerance")
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            for format in kind.formats:
                for name, clip in (("wander", wander()), ("waves", waves())):
                    item = clip if kind.name == "video" else clip[0]
                    found = loss(kind, item, Path(folder) / f"{name}{format.suffixes[0]}")
                    row = (f"{found.mean:.2f}", str(found.largest), f"{format.tolerance:g}")
                    table.add_row(f"{kind.name}: {format.name}", name, *row)
        for name, clip in (("wander", wander()), ("waves", waves())):
            path = Path(folder) / "quality75.jpg"
            clip[0].save(path)  # as PIL writes it where nobody says the quality
            found = difference(KINDS[0].frames(clip[0]), KINDS[0].frames(Image.open(path)))
            table.add_row("picture: JPEG by PIL's save", name, f"{found.mean:.2f}", str(found.largest), "")
    console.print(table)


if __name__ == "__main__":
    main()
