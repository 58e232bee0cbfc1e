"""The models of a worker: loaded when a job needs them, the longest unused let go where memory is short."""

from __future__ import annotations

import contextlib
import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ... import files
from ...attention import available_backends
from ...blocks.params import public_class
from ...errors import LockstepError
from ...models.controlnets.controlnet import ControlNetModel
from ...pipelines.pipeline import DiffusionPipeline
from ...schedulers import exchanged
from .cards import describe_guiders, describe_model, describe_schedulers

WEIGHTS = (".safetensors", ".gguf", ".ckpt", ".bin")


class Models:
    """Pipelines and ControlNets by the names that the owner of the server gave them; nothing else can be loaded."""

    def __init__(
        self, models: Mapping[str, str], controlnets: Mapping[str, str], loras: Mapping[str, str], budget: int,
        device: str | None = None, dtype: str = "auto",
    ) -> None:  # fmt: skip
        self.models, self.controlnets, self.loras = dict(models), dict(controlnets), dict(loras)
        self.budget, self.device, self.dtype = budget, device, dtype
        self.changed: Callable[[], None] = lambda: None
        self._held: OrderedDict[tuple[str, str], Any] = OrderedDict()  # the longest unused first
        self._sizes: dict[tuple[str, str], int] = {}
        self._hashes: dict[tuple[Any, ...], dict[str, str]] = {}

    def cards(self) -> dict[str, dict[str, Any]]:
        """What there is to know of each model; no weights are read."""
        return {
            name: describe_model(name, DiffusionPipeline.from_pretrained(source, load=False))
            for name, source in self.models.items()
        }

    def introduction(self) -> dict[str, Any]:
        """What a worker says when it is ready."""
        return {
            "tell": "ready",
            "models": self.cards(),
            "schedulers": describe_schedulers(),
            "guiders": describe_guiders(),
            "attention": available_backends(),
        }

    def pipeline(self, name: str) -> Any:
        return self._get(("model", name))

    def loaded(self) -> dict[str, int]:
        """What is in memory, and how many bytes of weights it has."""
        return {name: self._sizes[kind, name] for kind, name in self._held}

    def _get(self, key: tuple[str, str]) -> Any:
        if key not in self._held:
            self._make_room(self._sizes.get(key) or weight_bytes(self._source(key)), key)
            self.changed()  # a sign of life before what may take long
            self._held[key] = self._load(key)
            self._sizes[key] = held_bytes(self._held[key])
            self._make_room(0, key)
            self.changed()
        self._held.move_to_end(key)
        return self._held[key]

    def _source(self, key: tuple[str, str]) -> str:
        kind, name = key
        return (self.models if kind == "model" else self.controlnets)[name]

    def _load(self, key: tuple[str, str]) -> Any:
        if key[0] == "controlnet":
            return ControlNetModel.from_pretrained(self._source(key), device=self.device, dtype=self.dtype)
        pipe = DiffusionPipeline.from_pretrained(self._source(key), device=self.device, dtype=self.dtype)
        pipe.load_components()
        pipe.set_progress_bar_config(disable=True)
        return pipe

    def _make_room(self, more: int, keep: tuple[str, str]) -> None:
        while sum(self._sizes[key] for key in self._held) + more > self.budget:
            unused = next((key for key in self._held if key != keep), None)
            if unused is None:
                return  # one model that is larger than the budget is for the machine to refuse
            del self._held[unused]
            self._hashes = {key: value for key, value in self._hashes.items() if unused[1] not in key}
            gc.collect()
            self.changed()

    @contextlib.contextmanager
    def dressed(self, request: Mapping[str, Any]) -> Iterator[Any]:
        """The pipeline of a request with its scheduler, guider, LoRAs and ControlNets; its own ones again after it."""
        pipe = self.pipeline(request["model"])
        before = {name: pipe.components[name] for name in ("scheduler", "guider") if name in pipe.components}
        nets = [self._get(("controlnet", name)) for name in request.get("controlnets") or ()]
        self.pipeline(request["model"])  # used last: a ControlNet must not push it out
        try:
            self._set_loras(pipe, request.get("loras") or [])
            if (wanted := request.get("scheduler")) is not None:
                kind = public_class(wanted["class"], "a scheduler")
                pipe.scheduler = exchanged(pipe.scheduler, kind, **wanted["settings"])
            if (guider := request.get("guider")) is not None:
                pipe.guider = public_class(guider["class"], "a guider")(**guider["settings"])
            if nets:
                pipe.controlnet = nets if len(nets) > 1 else nets[0]
            yield pipe
        finally:
            for name, component in before.items():
                setattr(pipe, name, component)
            if nets:
                pipe.controlnet = None

    def _set_loras(self, pipe: Any, wanted: Sequence[Mapping[str, Any]]) -> None:
        """Exactly these, at these strengths; what stays is not read again."""
        strengths = {entry["name"]: entry["strength"] for entry in wanted}
        there = {entry["name"]: entry["strength"] for entry in pipe.describe_adapters()}
        if strengths == there:
            return
        if gone := [name for name in there if name not in strengths]:
            pipe.delete_adapters(gone)
        for name in strengths:
            if name not in there:
                pipe.load_lora_weights(self.loras[name], adapter_name=name, strength=strengths[name])
        if strengths:
            pipe.set_adapters(list(strengths), list(strengths.values()))

    def hashes(self, request: Mapping[str, Any], manifest: Any) -> dict[str, str]:
        """The hashes of the weights that a run used, computed once for each combination of files."""
        loras = tuple((entry["name"], entry["strength"]) for entry in request.get("loras") or ())
        key = (
            request["model"],
            loras,
            tuple(request.get("controlnets") or ()),
            tuple(sorted(manifest.record["components"])),
        )
        if key not in self._hashes:
            self._hashes[key] = manifest.weights
        return self._hashes[key]

    def public_name(self, name: str) -> str:
        """How a manifest calls a model: an embedded one or a hub's by its name there, a folder by its name here."""
        source = self.models[name]
        return name if Path(source).exists() and source not in files.EMBEDDED else source


def held_bytes(held: Any) -> int:
    """The weights of a model, or of all models of a pipeline."""
    parts = [held] if isinstance(held, torch.nn.Module) else held.components.values()
    modules = [part for part in parts if isinstance(part, torch.nn.Module)]
    return sum(tensor.nbytes for module in modules for tensor in (*module.parameters(), *module.buffers()))


def weight_bytes(source: str) -> int:
    """What the files of a model weigh: an upper bound of what it takes, before it is loaded."""
    try:
        path = Path(source) if Path(source).is_file() else files.resolve_folder(source)
    except LockstepError:
        return 0  # a hub's model that is not here yet
    found = [path] if path.is_file() else [one for one in path.rglob("*") if one.suffix in WEIGHTS]
    return sum(one.stat().st_size for one in found)
