"""The worker's side: a pipeline that is loaded once, and one row after the other to its file."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from ..errors import InputError, MachineError
from .plan import PlannedRow
from .rows import Row


@dataclass(frozen=True)
class Setup:
    """All that a worker has to know before the first row."""

    load: Callable[[], Any]  # the pipeline; a function that can be sent to another process
    read: Callable[[Any, Row], dict[str, Any]]  # the inputs of a row, as the pipeline takes them
    folder: Path
    threads: int | None = None
    trial: Mapping[int, Row] = field(default_factory=dict)  # one row of each kind, by number: looked at before any


class Maker:
    """A pipeline at work: while one file goes to the disk, the next row is computed."""

    def __init__(self, setup: Setup) -> None:
        import torch

        if setup.threads is not None:
            torch.set_num_threads(setup.threads)
        self.setup = setup
        self.pipe = setup.load()
        self.pipe.set_progress_bar_config(disable=True)
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="disk")

    def begun(self, inputs: Mapping[str, Any]) -> Any:
        """A run that is checked, and not started."""
        return self.pipe.run(**inputs)

    def check(self) -> None:
        """Refuse rows that no run can begin with; nothing is computed."""
        for number, row in self.setup.trial.items():
            try:
                self.begun(self.setup.read(self.pipe, row))
            except MachineError:
                pass  # too large for this machine: that row fails alone, and the others are made
            except InputError as problem:
                raise InputError(f"{problem} (row {number + 1})") from None

    @cached_property
    def weights(self) -> dict[str, str]:
        """Model -> hash, computed once: no row changes a weight."""
        from ..blocks.manifest import hash_weights

        return {name: hash_weights(model) for name, model in self._models().items()}

    def _models(self) -> dict[str, Any]:
        import torch

        parts = self.pipe.all_components
        return {name: part for name, part in parts.items() if isinstance(part, torch.nn.Module)}

    def shared(self) -> dict[str, Any]:
        """What decides the pixels of every row: versions, model, weights, settings; the same in every worker."""
        from ..blocks.manifest import encode

        adapters = [{key: one[key] for key in ("sha256", "strength")} for one in self.pipe.describe_adapters()]
        words = [{key: one[key] for key in ("sha256", "tokens")} for one in self.pipe.describe_words()]
        known = known_early(self.pipe)
        found = {
            **known,
            "dtype": sorted({str(model.dtype).removeprefix("torch.") for model in self._models().values()}),
            "weights": self.weights,
            "settings": {
                **known["settings"],
                "adapters": adapters,
                "embeddings": words,
                **encode(self.pipe.describe_switches()),
            },
            "accelerated": self.pipe.accelerated(),
        }
        return plain(found)

    def make(self, row: PlannedRow) -> Future[dict[str, Any]]:
        """A row computed here, and its file written on a thread: the hash of its pixels, and how long each took."""
        began = time.perf_counter()
        output = self.pipe(**self.setup.read(self.pipe, row.inputs))
        output.manifest.know_weights(self.hashes_of(output.manifest))
        return self.finish(row, output, time.perf_counter() - began)

    def finish(self, row: PlannedRow, output: Any, seconds: float) -> Future[dict[str, Any]]:
        """The file of a row, written while the next row is computed."""
        part, pixels = self.result_of(output)
        return self._disk.submit(
            self._write, part, row, {"key": row.key, "pixels": pixels, "seconds": round(seconds, 4)}
        )

    def _write(self, part: Any, row: PlannedRow, told: dict[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        path = self.setup.folder / row.file
        part.write(path)
        data = {"bytes": path.stat().st_size, "sha256": hash_file(path)}
        return {**told, **data, "writing": round(time.perf_counter() - began, 4)}

    def made(self, row: PlannedRow) -> str:
        """The hash of the pixels of a row, which is written nowhere."""
        return self.result_of(self.pipe(**self.setup.read(self.pipe, row.inputs)))[1]

    def hashes_of(self, manifest: Any) -> dict[str, str]:
        """The hashes of the models that a run has used."""
        return {name: self.weights[name] for name in manifest.record["components"] if name in self.weights}

    @staticmethod
    def result_of(output: Any) -> tuple[Any, str]:
        """What goes into the file of a row, with the hash of its pixels."""
        from ..media.pixels import PixelHash

        (part,) = output.parts()
        return part, PixelHash(part.kind.frames(part.item)).text


def known_early(pipe: Any) -> dict[str, Any]:
    """What of `Maker.shared` no weights have to be loaded for: versions, and what schedulers and guiders are set to."""
    from .. import __version__
    from ..blocks.manifest import encode

    load_settled(pipe)
    held = {name: part for name, part in pipe.all_components.items() if hasattr(part, "fresh")}
    settings = {name: {"class": type(part).__name__, **encode(part.config)} for name, part in held.items()}
    return plain({"lockstep": __version__, "pipeline": type(pipe).__name__, "settings": settings})


def is_settled(hint: Any) -> bool:
    """Whether components of this type are settings and no weights, as schedulers and guiders are."""
    return any(hasattr(kind, "fresh") for kind in get_args(hint) or (hint,))


def load_settled(pipe: Any) -> None:
    """Have the settings of a pipeline: its schedulers and guiders, and none of its models."""
    pipe.load_components([spec.name for spec in pipe.component_specs.values() if is_settled(spec.type_hint)])


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As it will be read from a file."""
    read: dict[str, Any] = json.loads(json.dumps(values, default=str))
    return read


def hash_file(path: Path) -> str:
    """What is in a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
