"""A pipeline's folder, written beside its place and moved there when all of it is on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from .. import files
from ..errors import InputError


def written_beside(folder: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary folder; its parts take their places in `folder`, or nothing does."""
    if folder.is_file():
        raise InputError(f"save_pretrained wants a folder, but {folder} is a file.")
    folder = folder.resolve() if folder.exists() else folder
    beside = files.temporary_beside(folder)
    with files.writing(folder):
        try:
            beside.mkdir(parents=True)
            write(beside)
            if not folder.exists():
                files.settle(beside, folder)
                return
            indexes = [part for part in beside.iterdir() if part.is_file()]
            for part in [*(part for part in beside.iterdir() if part.is_dir()), *indexes]:  # what names the parts last
                files.settle(part, folder / part.name)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
