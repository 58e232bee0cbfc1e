"""The worker's side: a pipeline that is loaded once, and one row after the other to its file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .plan import PlannedRow
from .rows import Row


@dataclass(frozen=True)
class Setup:
    """All that a worker has to know before the first row."""

    load: Callable[[], Any]  # the pipeline; a function that can be sent to another process
    read: Callable[[Any, Row], dict[str, Any]]  # the inputs of a row, as the pipeline takes them
    folder: Path
    threads: int | None = None


class Maker:
    """A pipeline at work."""

    def __init__(self, setup: Setup) -> None:
        import torch

        if setup.threads is not None:
            torch.set_num_threads(setup.threads)
        self.setup = setup
        self.pipe = setup.load()
        self.pipe.set_progress_bar_config(disable=True)

    def shared(self) -> dict[str, Any]:
        """What decides the pixels of every row: versions, model, weights, settings; the same in every worker."""
        import torch

        from .. import __version__
        from ..blocks.manifest import encode, hash_weights

        parts = {name: part for name, part in self.pipe.all_components.items() if part is not None}
        models = {name: part for name, part in parts.items() if isinstance(part, torch.nn.Module)}
        configs = {name: encode(part.config) for name, part in parts.items() if hasattr(part, "fresh")}
        adapters = [{key: one[key] for key in ("sha256", "strength")} for one in self.pipe.describe_adapters()]
        words = [{key: one[key] for key in ("sha256", "tokens")} for one in self.pipe.describe_words()]
        found = {
            "lockstep": __version__,
            "pipeline": type(self.pipe).__name__,
            "dtype": sorted({str(model.dtype).removeprefix("torch.") for model in models.values()}),
            "weights": {name: hash_weights(model) for name, model in models.items()},
            "settings": {**configs, "adapters": adapters, "embeddings": words, **encode(self.pipe.describe_switches())},
            "accelerated": self.pipe.accelerated(),
        }
        plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
        return plain

    def make(self, row: PlannedRow) -> dict[str, Any]:
        """The file of a row, written at once; the hash of its pixels, and how long it took."""
        began = time.perf_counter()
        part, pixels = self.made(row)
        part.write(self.setup.folder / row.file)
        return {"key": row.key, "pixels": pixels, "seconds": round(time.perf_counter() - began, 4)}

    def made(self, row: PlannedRow) -> tuple[Any, str]:
        """The result of a row, with the hash of its pixels."""
        from ..media.pixels import PixelHash

        given = self.setup.read(self.pipe, row.inputs)
        (part,) = self.pipe(**given).parts()
        return part, PixelHash(part.kind.frames(part.item)).text


def hash_file(path: Path) -> str:
    """What is in a file that goes into a run."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
