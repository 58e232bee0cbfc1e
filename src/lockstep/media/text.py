"""The manifest as the text that travels inside a file, and back: refused where it cannot be one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import FileFormatError, InputError
from ..files import json_object

Describe = Callable[[Path], Mapping[str, Any]]  # the manifest of a medium that is written into this folder
KEY = "lockstep"  # the name of the manifest where a file gives its texts names
MAX_LENGTH = 2**20  # what readers of PNG take for one text
MAX_DEPTH = 64


def to_text(record: Mapping[str, Any]) -> str:
    """Compact JSON in ASCII, which every container takes as it is."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"The manifest has {len(text)} characters; a file carries {MAX_LENGTH} at most. "
            "Shorten the inputs (the prompt?), or save the pictures as plain PIL images: image.convert('RGB').copy()."
        )
    return text


def from_text(text: str | None, path: Path) -> dict[str, Any]:
    """A manifest from the text inside a file."""
    if text is None:
        raise FileFormatError(
            f"{path} carries no Lockstep manifest. What `lockstep generate` or `output.save` writes does."
        )
    if len(text) > MAX_LENGTH:
        raise FileFormatError(
            f"The manifest in {path} has {len(text)} characters; {MAX_LENGTH} are the most it can have."
        )
    record = json_object(text, f"The manifest in {path} is damaged: it")
    _check_depth(record, path)
    return record


def _check_depth(record: Any, path: Path) -> None:
    """Without recursion, which is what a deep manifest would exhaust."""
    level = [record]
    for _ in range(MAX_DEPTH):
        inner = [
            value.values() if isinstance(value, dict) else value for value in level if isinstance(value, (dict, list))
        ]
        level = [one for values in inner for one in values]
        if not level:
            return
    raise FileFormatError(f"The manifest in {path} is damaged: it is nested more than {MAX_DEPTH} deep.")
