"""Again at each save: which Python files a port is made of, and when one of them has changed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

PAUSE = 0.5  # seconds between two looks
LEFT_OUT = {".git", ".venv", "venv", "node_modules", "__pycache__", "build", "dist", "out"}


def saved_files(folders: list[Path]) -> dict[Path, int]:
    """Every Python file below the folders with the time at which it was saved last."""
    found: dict[Path, int] = {}
    for folder in folders:
        for path in folder.rglob("*.py"):
            if not LEFT_OUT & set(path.relative_to(folder).parts[:-1]):
                try:
                    found[path] = path.stat().st_mtime_ns
                except FileNotFoundError:  # gone between listing and looking
                    continue
    return found


def saves(folders: list[Path], pause: float = PAUSE) -> Iterator[list[Path]]:
    """The files that were saved from now on, each time that some were; never ends by itself."""
    return _saves(folders, saved_files(folders), pause)


def _saves(folders: list[Path], before: dict[Path, int], pause: float) -> Iterator[list[Path]]:
    while True:
        time.sleep(pause)
        now = saved_files(folders)
        changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path))
        before = now
        if changed:
            yield changed
