"""What a kind of media is, and what a format of it is: the seam that all writing and reading goes through."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from ..errors import InputError
from .text import Describe


class Format(ABC):
    """One way to write a medium: its suffixes, and how much of the pixels it keeps."""

    name: str
    suffixes: tuple[str, ...]
    tolerance: float = 0.0  # mean difference in 1/255 that writing the same pixels again may make; 0 is lossless

    @property
    def lossless(self) -> bool:
        return self.tolerance == 0.0

    def check_target(self, path: Path) -> None:
        """Refuse, before anything is computed, a target that could not be written in the end."""
        if path.is_dir():
            raise InputError(f"{path} is a folder; a file cannot take its place. Choose another name.")

    def holds(self, folder: Path) -> bool:
        """Whether this folder is itself a medium, where the format makes folders."""
        return False

    @abstractmethod
    def write(self, item: Any, path: Path, describe: Describe | None, **options: Any) -> None:
        """Write it whole or not at all, with its manifest inside."""

    @abstractmethod
    def read(self, path: Path) -> Any:
        """What is in the file, as `write` takes it."""

    @abstractmethod
    def read_text(self, path: Path) -> str | None:
        """The manifest inside the file, without reading the pixels where that can be avoided."""


class MediaKind(ABC):
    """Pictures, videos …: how outputs of this kind are written, read back, given as input and shown."""

    name: ClassVar[str]  # "picture": what vocabulary entries say, and how a manifest marks an input of this kind
    count_input: ClassVar[str]  # the input that says how many to make for each prompt
    place: ClassVar[str]  # where a manifest says which one of the batch the file is
    formats: ClassVar[tuple[Format, ...]]  # the first one is the default
    options: ClassVar[tuple[str, ...]] = ()  # what `write` takes besides

    @abstractmethod
    def items(self, value: Any) -> list[Any]:
        """An output as a list of what goes into one file each."""

    @abstractmethod
    def frames(self, item: Any) -> Iterable[np.ndarray]:
        """The bytes of an item."""

    @abstractmethod
    def preview(self, item: Any) -> Image.Image:
        """One plain picture that shows it."""

    @abstractmethod
    def load(self, path: Path) -> Any:
        """A file as a pipeline's input."""

    @abstractmethod
    def describe_input(self, value: Any) -> dict[str, Any] | None:
        """How a manifest names an input of this kind: by its hash, and the file where one is known."""

    def carrying(self, value: Any, describe: Callable[[int], Describe]) -> Any:
        """An output whose items keep their manifest (`describe(index)`) when they are saved by their own means."""
        return value

    def options_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The options of `write` that follow from the values of a run."""
        return {}

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse what `write` does not take."""
        for option in options:
            if option not in self.options:
                others = ", ".join(self.options) or "nothing"
                raise InputError(
                    f"{option!r} has no meaning for a {self.name}, which takes {others} here: leave it out."
                )

    @property
    def default_name(self) -> str:
        """The name of a file for which nobody chose one: `picture.png`."""
        return f"{self.name}{self.formats[0].suffixes[0]}"

    @property
    def suffixes(self) -> list[str]:
        return [suffix for format in self.formats for suffix in format.suffixes]

    def format_for(self, path: Path) -> Format:
        """The format that a name asks for."""
        suffix = path.suffix.lower()
        suffix = "" if path.is_dir() and suffix not in self.suffixes else suffix
        found = next((format for format in self.formats if suffix in format.suffixes), None)
        if found is None:
            known = ", ".join(suffix or "a folder" for suffix in self.suffixes)
            raise InputError(f"A {self.name} is written as {known}, which carry the manifest; got {path.name!r}.")
        return found

    def format_of(self, path: Path) -> Format:
        """The format that a file is in."""
        return self.format_for(path)

    def target_for(self, output: Path, index: int, total: int) -> Path:
        """Where number `index` goes: the path itself, a numbered neighbour, or a file in a folder."""
        suffix = output.suffix.lower()
        if suffix in self.suffixes and (suffix or not output.is_dir() or self.format_for(output).holds(output)):
            return output if total == 1 else output.with_stem(f"{output.stem}-{index}")
        if suffix and not output.is_dir():
            self.format_for(output)  # says which suffixes there are
        return output / f"{self.name}-{index}{self.formats[0].suffixes[0]}"

    def write(self, item: Any, path: Path, describe: Describe | None = None, **options: Any) -> Path:
        """Write one item in the format that the name asks for, with its manifest inside."""
        self.check_options(options)
        format = self.format_for(path)
        format.check_target(path)
        format.write(item, path, describe, **options)
        return path
