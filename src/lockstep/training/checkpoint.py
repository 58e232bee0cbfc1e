"""Checkpoints: every tensor of a run and the facts about it in one safetensors file, written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from .. import files
from ..errors import FileFormatError, NotFoundError

FORMAT = "lockstep-training-1"


def save_checkpoint(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write beside the old file, force it to disk, then rename: a kill at any moment leaves one whole checkpoint."""
    contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    with files.atomic(path) as temporary:
        save_file(contiguous, temporary, metadata={"format": FORMAT, "facts": json.dumps(facts)})
        with temporary.open("rb") as file:
            os.fsync(file.fileno())


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a checkpoint."""
    if not path.is_file():
        raise NotFoundError(f"There is no checkpoint {path}. Start a run first, or name one that has been started.")
    files.read_safetensors_header(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise FileFormatError(
                f"{path} is not a training checkpoint: wanted format {FORMAT!r}, got {metadata.get('format')!r}."
            )
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["facts"])  # noqa: SIM118
