"""The names that follow from the one that a person gives: `Z-Image` is z_image, ZImage and "Z-Image"."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from ...errors import InputError

LONGEST = 24  # longer ones break lines that the templates keep short


@dataclass(frozen=True)
class FamilyNames:
    """One name as a module, as the start of classes, and as a title."""

    name: str
    camel: str
    title: str

    @classmethod
    def of(cls, given: str) -> FamilyNames:
        """Words may be divided by capitals, dashes, underscores or spaces."""
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]*", given)
        plain = re.sub(r"[-_ .]", "", given)
        name = "_".join(word.lower() for word in words)
        if "".join(words) != plain or not name.isidentifier():
            raise InputError(
                f"A name consists of words of letters and digits and begins with a letter, such as z_image or Z-Image; "
                f"got {given!r}."
            )
        if keyword.iskeyword(name):
            raise InputError(
                f"A name becomes the name of a module, and {name!r} is a word of Python itself. Choose another one, "
                f"such as {name}_model."
            )
        camel = "".join(word if word.isupper() else word[0].upper() + word[1:] for word in words)
        title = given if given != given.lower() else " ".join(word.capitalize() for word in words)
        return cls(name, camel, title)

    def refuse_too_long(self) -> None:
        """What is new has a short name; what is there already may have a longer one."""
        if len(self.name) > LONGEST:
            told = f"A name has at most {LONGEST} letters, got {len(self.name)}: {self.name!r}."
            raise InputError(f"{told} Choose a shorter one.")
