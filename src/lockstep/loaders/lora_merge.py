"""LoRAs written into checkpoints for good, tensor by tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from torch import nn

from .. import files
from ..errors import InputError, WeightsError
from ..models.lora_layers import check_strength
from ..models.weights import DTYPES, MadeTensor, MappedFiles, StoredTensor, parse_size
from .convert import MODELS, Conversion, check_target, component_names, file_to_file, folder_to_folder, model_of
from .lora import LoraReport, Place, find_lora, read_lora
from .lora_algorithms import Change, merged_weight
from .parts import DENOISERS, ROLES
from .single_file import CLASSES, SingleFile, weight_map
from .weight_map import moved

Progress = Callable[[int, int], None]


class Merging:
    """The changes of several LoRAs by the parameters of a checkpoint's models."""

    def __init__(self, models: Mapping[str, nn.Module], loras: Sequence[tuple[Path, float]]) -> None:
        self.changes: dict[Place, list[tuple[Change, float]]] = {}
        self.reports: list[LoraReport] = []
        self.opened = MappedFiles(copies=True)
        for path, strength in loras:
            check_strength(strength)
            lora = read_lora(path, models, next((name for name in DENOISERS if name in models), "unet"))
            if lora.words:
                lora.report.leave("words belong to a tokenizer (load_textual_inversion)", list(lora.words))
            self.reports.append(lora.report)
            for place, changes in lora.changes.items():
                self.changes.setdefault(place, []).extend((change, strength) for change in changes)

    def merged(self, place: Place, tensor: StoredTensor) -> StoredTensor:
        """A tensor with its changes, made when it is written; itself where it has none."""
        changes = self.changes.get(place)
        if changes is None:
            return tensor
        like = torch.empty(tensor.info.shape, dtype=DTYPES[tensor.info.dtype], device="meta")
        return MadeTensor.of(tensor.path, like, lambda: merged_weight(self.opened.read(tensor), changes))


def merge(
    source: str | Path,
    target: str | Path,
    loras: Sequence[tuple[str | Path, float]],
    *,
    dtype: torch.dtype | None = None,
    max_shard_size: int | str = "10GB",
    variant: str | None = None,
    allow_pickle: bool = False,
    family: str | None = None,
    report: Progress = lambda done, total: None,
) -> list[LoraReport]:
    """Write a folder or a single file anew with LoRAs in its weights; nothing of it shows until all is written."""
    source, target = Path(source), Path(target)
    files.require_there(source)
    if not loras:
        raise InputError("Give at least one LoRA to merge: --lora style.safetensors:0.8.")
    check_target(source, target, "folder" if source.is_dir() else "single")
    found = [(find_lora(path), strength) for path, strength in loras]
    job = Conversion(source, target, dtype, parse_size(max_shard_size), report=report)
    if source.is_dir():
        return _merge_folder(job, found, variant)
    return _merge_file(
        job, found, SingleFile(source, family=family, allow_pickle=allow_pickle, opened=MappedFiles(copies=True))
    )


def _merge_folder(job: Conversion, loras: Sequence[tuple[Path, float]], variant: str | None) -> list[LoraReport]:
    index = job.source / "model_index.json"
    names = component_names(job.source, files.read_json(index)) if index.is_file() else [""]
    kinds = {name: model_of(job.source / name) for name in names}
    called = {name: name or _component(kinds[name][0].__name__) for name in names}
    merging = Merging({called[name]: kind.on_meta(config) for name, (kind, config) in kinds.items()}, loras)

    def change(name: str, stored: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
        kind = kinds[name][0]
        return {key: merging.merged((called[name], kind.renamed(key)), tensor) for key, tensor in stored.items()}

    job.change = change
    folder_to_folder(job, variant)
    return merging.reports


def _component(class_name: str) -> str:
    kind = next((kind for kind, known in CLASSES.items() if known == class_name), "unet")
    return ROLES.get(kind, kind)


def _merge_file(job: Conversion, loras: Sequence[tuple[Path, float]], file: SingleFile) -> list[LoraReport]:
    kinds = {name: MODELS[file.class_name(name)] for name in file.found.components}
    configs = {name: dict(kind.on_meta(file.config(name)).config) for name, kind in kinds.items()}
    merging = Merging({name: kind.on_meta(configs[name]) for name, kind in kinds.items()}, loras)
    changed: dict[str, StoredTensor] = {}
    for name in dict.fromkeys(component for component, _ in merging.changes):
        part, kind = file.part(name), kinds[name]
        ours = file.stored(name, kind, configs[name])
        paths = [path for component, path in merging.changes if component == name]
        if part.layout == "published":
            spelled = {kind.renamed(key): full for key, full in part.names().items()}
            changed |= {spelled[path]: merging.merged((name, path), ours[path]) for path in paths}
            continue
        table = weight_map(part, configs[name], kind.__name__.endswith("WithProjection"))
        for path in paths:
            move = table.find(path, backwards=True)
            if move is None:
                raise WeightsError(f"{file.path} has no place for {name}.{path}.")
            sources = [merging.merged((name, one), ours[one]) for one in move.sources]
            made = moved(move, sources, merging.opened)
            changed |= {part.prefix + key: tensor for key, tensor in made.items()}

    job.change = lambda component, stored: {key: changed.get(key, tensor) for key, tensor in stored.items()}
    file_to_file(job, file.allow_pickle)
    return merging.reports
