"""The small files of a model's folder (configs, tokenizer), as the header of a single file carries them.

A single file that Lockstep wrote remembers the folder that it came from, so that the way back needs nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from ..errors import FileFormatError
from ..files import json_object

FOLDER_KEY = "lockstep.folder"


def embedded_files(metadata: Mapping[str, Any]) -> dict[str, str]:
    """File name in the folder -> text; nothing for a file that another program wrote."""
    raw = metadata.get(FOLDER_KEY)
    if raw is None:
        return {}
    try:
        found = json.loads(raw)
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise FileFormatError(f"The metadata {FOLDER_KEY!r} has to hold a JSON object of file names and texts.")
    outside = [name for name in found if not is_inside(name)]
    if outside:
        raise FileFormatError(f"The metadata {FOLDER_KEY!r} names the file {outside[0]!r} outside of its folder.")
    return found


def embedded_json(metadata: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """One of those files as a JSON object; None where it is not there."""
    text = embedded_files(metadata).get(name)
    return None if text is None else json_object(text, f"The file {name!r} in the metadata {FOLDER_KEY!r}")


def is_inside(name: str) -> bool:
    """Whether a relative name stays in its folder: a file, or a file in one subfolder."""
    parts = name.split("/")
    plain = all(part and part not in (".", "..") and not set(part) & set("\\:\0") for part in parts)
    return plain and len(parts) <= 2 and not PurePosixPath(name).is_absolute()
