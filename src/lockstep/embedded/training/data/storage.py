"""Reading and writing the files of a work folder: a file is there whole, or not at all."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .... import files
from ....errors import FileFormatError, NotFoundError


def write_json(path: Path, content: Any, *, indent: int | None = None) -> None:
    files.write_text(path, json.dumps(content, ensure_ascii=False, indent=indent) + "\n")


def read_json(path: Path, *, made_by: str) -> Any:
    """The content of a JSON file; `made_by` is the stage to run when it is not there."""
    try:
        return files.read_json(path)
    except NotFoundError:
        raise NotFoundError(f"Wanted the file {path}, and it is not there. Run the stage `{made_by}` first.") from None
    except FileFormatError as problem:
        raise FileFormatError(f"{problem} Delete it and run the stage `{made_by}` again.") from None


def hash_of(*parts: Any) -> str:
    """A stable name for a set of inputs: equal inputs, equal hash."""
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True, ensure_ascii=False).encode()
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()
