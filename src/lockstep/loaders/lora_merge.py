"""LoRAs written into checkpoints for good, and out of them again: merged tensor by tensor, or extracted by SVD."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import files
from ..errors import InputError, LoadError, NotFoundError, WeightsError
from ..models.weights import MadeTensor, MappedFiles, StoredTensor, parse_size, save_tensors
from .convert import (
    MODELS,
    Conversion,
    check_target,
    component_names,
    file_to_file,
    folder_to_folder,
    model_of,
)
from .difference import by_component
from .lora import Lora, LoraReport, Place, find_lora, read_lora
from .lora_algorithms import Change, merged_weight
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
            lora: Lora = read_lora(path, models)
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
        like = torch.empty(tensor.info.shape, dtype=self.dtype(tensor), device="meta")
        return MadeTensor.of(tensor.path, like, lambda: merged_weight(self.opened.read(tensor), changes))

    @staticmethod
    def dtype(tensor: StoredTensor) -> torch.dtype:
        from ..models.weights import DTYPES

        return DTYPES[tensor.info.dtype]


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
    if not source.exists():
        raise NotFoundError(f"There is no file or folder {source} to merge into.")
    if not loras:
        raise InputError("Give at least one LoRA to merge: --lora style.safetensors:0.8.")
    check_target(source, target, "folder" if source.is_dir() else "single")
    found = [(find_lora(path), strength) for path, strength in loras]
    job = Conversion(source, target, dtype, parse_size(max_shard_size), report=report)
    if source.is_dir():
        return _merge_folder(job, found, variant)
    return _merge_file(job, found, SingleFile(source, family=family, allow_pickle=allow_pickle, opened=job_files()))


def job_files() -> MappedFiles:
    """Files that are read tensor by tensor, each into memory of its own."""
    return MappedFiles(copies=True)


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
    return next((name for name, known in CLASSES.items() if known == class_name), "unet")


def _merge_file(job: Conversion, loras: Sequence[tuple[Path, float]], file: SingleFile) -> list[LoraReport]:
    kinds = {name: MODELS[CLASSES[name]] for name in file.found.components if name in CLASSES}
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
            made = moved(move, sources, job_files())
            changed |= {part.prefix + key: tensor for key, tensor in made.items()}

    job.change = lambda component, stored: {key: changed.get(key, tensor) for key, tensor in stored.items()}
    file_to_file(job, file.allow_pickle)
    return merging.reports


# ---- extraction ----


@dataclass
class Extraction:
    """A LoRA that was read off the difference of two checkpoints, and what it leaves out."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)  # relative, of each layer
    left_out: list[str] = field(default_factory=list)  # tensors that differ and are no matrices
    squared: float = 0.0
    squared_left: float = 0.0

    @property
    def error(self) -> float:
        """The part of the whole difference that is left, relative L2."""
        return (self.squared_left / self.squared) ** 0.5 if self.squared else 0.0


def extract(
    base: str | Path,
    tuned: str | Path,
    target: str | Path,
    *,
    rank: int = 16,
    energy: float | None = None,
    dtype: torch.dtype = torch.float32,
    allow_pickle: bool = False,
    report: Progress = lambda done, total: None,
) -> Extraction:
    """The difference of two checkpoints as a LoRA: the best one of `rank`, or of the least rank that keeps `energy`.

    `energy` is the share of each layer's squared difference; `rank` then is the most that a layer may have.
    """
    base, tuned, target = Path(base), Path(tuned), Path(target)
    for path in (base, tuned):
        if not path.exists():
            raise NotFoundError(f"There is no file or folder {path} to compare.")
    if rank < 1 or (energy is not None and not 0 < energy <= 1):
        raise InputError(f"Wanted a rank of at least 1 and an energy between 0 and 1, got {rank} and {energy}.")
    if target.suffix != ".safetensors" or target.exists():
        raise InputError(f"A LoRA is written to a new .safetensors file, got {str(target)!r}.")
    one, other = by_component(base, allow_pickle), by_component(tuned, allow_pickle)
    names = [name for name in one if name in other and name.startswith(("unet/", "text_encoder"))]
    if not names:
        raise LoadError(f"{base} and {tuned} have no layer in common that a LoRA can change.")
    found, opened = Extraction(), MappedFiles(copies=True)
    for count, name in enumerate(names, 1):
        _extract_layer(found, name, opened.read(one[name]), opened.read(other[name]), rank, energy)
        report(count, len(names))
    if not found.tensors:
        raise LoadError(f"{base} and {tuned} are the same where a LoRA could differ: there is nothing to extract.")
    save_tensors({name: tensor.to(dtype) for name, tensor in found.tensors.items()}, target, {"format": "pt"})
    return found


def _extract_layer(found: Extraction, name: str, one: Tensor, other: Tensor, rank: int, energy: float | None) -> None:
    if one.shape != other.shape:
        raise WeightsError(f"{name} is {list(one.shape)} in one and {list(other.shape)} in the other: two families?")
    difference = other.double() - one.double()
    if not bool(difference.any()):
        return
    component, _, path = name.partition("/")
    layer, _, kind = path.rpartition(".")
    if kind != "weight" or difference.ndim < 2 or "embedding" in layer:
        found.left_out.append(name)
        return
    up, down, left = low_rank(difference.flatten(1), rank, energy)
    shape = (len(down), *difference.shape[1:])
    key = f"{component}.{layer}"
    found.tensors[f"{key}.lora_A.weight"] = down.reshape(shape).contiguous()
    found.tensors[f"{key}.lora_B.weight"] = up.reshape(*up.shape, *[1] * (difference.ndim - 2)).contiguous()
    whole = float(difference.square().sum())
    found.ranks[key], found.errors[key] = len(down), (left / whole) ** 0.5
    found.squared, found.squared_left = found.squared + whole, found.squared_left + left


def low_rank(matrix: Tensor, rank: int, energy: float | None) -> tuple[Tensor, Tensor, float]:
    """(up, down, squared error): the best product of this rank (Eckart and Young 1936), shared out evenly."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    squares = values.square()
    if energy is not None:
        kept = squares.cumsum(0) / squares.sum()
        rank = min(rank, int((kept < energy - 1e-12).sum()) + 1)
    rank = min(rank, int((squares > squares[0] * 1e-24).sum()))
    root = values[:rank].sqrt()
    return left[:, :rank] * root, root[:, None] * right[:rank], float(squares[rank:].sum())


# ---- inspection ----

CONTEXT_WIDTHS = {768: ("sd1", "Stable Diffusion 1.x"), 1024: ("sd2", "Stable Diffusion 2.x"), 2048: ("sdxl", "SDXL")}
FAMILY_MARKS = (
    ("flux", "FLUX.1", ("double_blocks", "single_blocks", "single_transformer_blocks")),
    ("sd3", "Stable Diffusion 3", ("joint_blocks",)),
    ("wan", "Wan", ("self_attn_q", ".self_attn.q.", "cross_attn")),
    ("qwen_image", "Qwen-Image", ("img_mod", "txt_mlp")),
    ("z_image", "Z-Image", ("attention.to_q", "layers_0_attention")),
)


def base_family(
    layers: Mapping[str, Mapping[str, Tensor]], metadata: Mapping[str, str]
) -> tuple[str | None, list[str]]:
    """The family that a LoRA was made for, and why; None where nothing tells."""
    hints = [f"its metadata says {key} {metadata[key]!r}" for key in METADATA_HINTS if key in metadata]
    for family, title, marks in FAMILY_MARKS:
        seen = [layer for layer in layers for mark in marks if mark in layer]
        if seen and not any("text_model" in layer for layer in seen[:1]):
            return family, [f"{title} calls layers so: {seen[0]!r}", *hints]
    widths: dict[int, str] = {}
    for layer, tensors in layers.items():
        thin = tensors.get("down", tensors.get("hada_w1_b"))
        if thin is not None and not layer.startswith(("lora_te", "text_encoder")):
            widths.setdefault(thin.shape[1], layer)
    for width, (family, title) in CONTEXT_WIDTHS.items():
        if width in widths:
            return family, [f"{title} reads a context of width {width}: {widths[width]!r}", *hints]
    second = next((layer for layer in layers if layer.startswith(("lora_te2_", "text_encoder_2."))), None)
    return ("sdxl", [f"it has a second text encoder: {second!r}", *hints]) if second else (None, hints)


METADATA_HINTS = ("modelspec.architecture", "ss_base_model_version", "ss_sd_model_name", "ss_network_module")


def inspect_lora(path: Path) -> dict[str, Any]:
    """What a LoRA file is: dialect, kinds, ranks, alphas, targets, base family, words, health."""
    from .lora import open_lora
    from .lora_algorithms import algorithm_of
    from .lora_names import LayerNames, unread_reason

    file = open_lora(path)
    metadata = {str(key): str(value) for key, value in files.read_safetensors_header(path)[1].items()}
    family, evidence = base_family(file.layers, metadata)
    names = LayerNames({"unet": nn.Module(), "text_encoder": nn.Module(), "text_encoder_2": nn.Module()})
    said: dict[str, Any] = {
        "file": str(path), "sha256": file.sha256, "dialect": file.dialect, "tensors": file.total,
        "layers": len(file.layers), "kinds": {}, "ranks": {}, "alphas": {}, "targets": {}, "family": family,
        "evidence": evidence, "words": {word: list(t.shape) for word, t in file.words.items()}, "health": [],
        "unread": {key: unread_reason(key) for key in file.foreign},
    }  # fmt: skip
    for layer, tensors in file.layers.items():
        kind = algorithm_of(tensors)
        title = "incomplete" if kind is None and "diff_b" not in tensors else kind.name if kind else "bias"
        title += " with DoRA" if {"dora_scale", "magnitude"} & set(tensors) else ""
        rank = None if kind is None else kind.rank(tensors)
        alpha = float(tensors["alpha"]) if "alpha" in tensors else file.settings.alpha("unet", layer)
        target = names.component_of(layer)[0]
        for key, value in (("kinds", title), ("ranks", rank), ("alphas", alpha), ("targets", target)):
            if value is not None:
                said[key][value] = said[key].get(value, 0) + 1
        for part, tensor in tensors.items():
            if not torch.isfinite(tensor.float()).all():
                said["health"].append(f"NaN or Inf in {file.names[layer, part]}")
            elif part in ("down", "hada_w1_b") and not bool(tensor.any()):
                said["health"].append(f"only zeros in {file.names[layer, part]}")
    return said
