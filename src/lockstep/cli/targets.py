"""Where the files of a command go: never over what is there, unless that is asked for."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError

if TYPE_CHECKING:
    from ..media import MediaKind


class Targets:
    """The names for `total` files of one kind: the one that was asked for, or numbered ones that nothing has."""

    def __init__(self, output: Path, kind: MediaKind, total: int, overwrite: bool) -> None:
        self.output, self.kind, self.total, self.overwrite = output, kind, total, overwrite
        if any(output.name.lower() == ending for format in kind.formats for ending in format.suffixes):
            raise InputError(f"{output} has an ending alone. Give it a name: my{output.name}.")
        first = kind.target_for(output, 0, total)
        self._numbered = first != output
        self._next = 0 if overwrite or not self._numbered else _after_the_last(first)
        self._check(first)

    def next(self) -> Path:
        """The name for the next file, chosen when it is written: a run may be long, and others write, too."""
        if not self._numbered:
            return self.output if self.overwrite else _free(self.output)
        path = self.kind.target_for(self.output, self._next, self.total)
        while path.exists() and not self.overwrite:
            self._next += 1
            path = self.kind.target_for(self.output, self._next, self.total)
        self._next += 1
        return path

    def _check(self, path: Path) -> None:
        """Make the folder; refuse, before anything is computed, what cannot be written."""
        check_folder(path.parent)
        format = self.kind.format_for(path)
        format.check_target(path)


def check_folder(folder: Path) -> None:
    """Make a folder that files go to, or say why it cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"The folder {folder} cannot be made: {problem.strerror}. Choose another --output.") from None
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise InputError(
            f"The folder {folder} cannot be written to: {problem.strerror}. Choose another --output."
        ) from None


def _free(path: Path) -> Path:
    from ..media import free_name

    return free_name(path)


def _after_the_last(first: Path) -> int:
    """The number after the highest one that a file beside `name-0.png` has."""
    name = re.compile(re.escape(first.stem.removesuffix("0")) + r"(\d{1,9})" + re.escape(first.suffix))
    taken = [int(found[1]) for one in first.parent.glob("*") if (found := name.fullmatch(one.name))]
    return max(taken, default=-1) + 1
