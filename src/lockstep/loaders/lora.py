"""LoRA files and their relatives, fitted to models: what each tensor changes, and what could not be applied and why."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from .. import files
from ..errors import FileFormatError, InputError, NotFoundError, UnknownNameError, WeightsError
from ..models.weights import DTYPES, open_weights, read_tensors
from . import operations
from .header import container_of
from .lora_algorithms import ALGORITHMS, COMPANIONS, Change, algorithm_of
from .lora_names import Absent, LayerNames, Piece, dialect_of, part_sizes, split_name, unread_reason

ARGUMENTS = ("adapter_name", "hotswap", "weight_name", "strength", "component", "load_into_transformer_2")
WITHOUT_MEANING = ("low_cpu_mem_usage", "use_safetensors", "proxies", "user_agent")  # of scripts, about how to load
WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
PEFT_NAMES = ("adapter_model.safetensors", "adapter_config.json")
METADATA = "lora_adapter_metadata"  # JSON of the training's settings, as peft files carry them
BY_HAND = "tensors given by hand"

Place = tuple[str, str]  # component, parameter
Tensors = dict[str, Tensor]
Layers = dict[str, Tensors]  # a file's layers, each with the parts that it has


@dataclass
class LoraReport:
    """How much of a file was applied, and why the rest was not."""

    source: str
    total: int = 0
    left: dict[str, list[str]] = field(default_factory=dict)  # reason -> tensors
    without_effect: list[str] = field(default_factory=list)  # layers that were applied and change nothing
    has_effect: bool = False  # any layer that changes something

    @property
    def applied(self) -> int:
        return self.total - sum(len(names) for names in self.left.values())

    def leave(self, reason: str, names: Iterable[str]) -> None:
        self.left.setdefault(reason, []).extend(names)

    def __str__(self) -> str:
        told = [f"{len(names)} because {reason}: {_some(names)}" for reason, names in self.left.items()]
        said = f"{self.source}: {self.applied} of {self.total} tensors applied"
        said += f"; not applied: {'; '.join(told)}." if told else "."
        if self.without_effect:
            said += f" {len(self.without_effect)} layers change nothing (an alpha or matrices of zero): "
            said += f"{_some(self.without_effect)}."
        return said


@dataclass
class Lora:
    """A LoRA file, fitted to models."""

    source: str
    sha256: str
    dialect: str
    report: LoraReport
    changes: dict[Place, list[Change]] = field(default_factory=dict)
    words: Tensors = field(default_factory=dict)  # of a textual inversion that came with it
    comes_with_adapter: bool = False  # it is a part of an IP-Adapter's file

    @property
    def components(self) -> list[str]:
        return list(dict.fromkeys(component for component, _ in self.changes))


def check_fetching(owner: str, arguments: Mapping[str, object]) -> None:
    """Refuse what says nothing about where a file comes from."""
    known = {*files.HUB_ARGUMENTS, "subfolder", *WITHOUT_MEANING}
    for unknown in arguments.keys() - known:
        raise UnknownNameError(f"argument of {owner}", unknown, [*ARGUMENTS, *known])


def find_lora(name_or_path: str | Path, weight_name: str | None = None, **hub: Unpack[files.HubArguments]) -> Path:
    """The file itself, or the one in a folder or on the hub."""
    if not isinstance(name_or_path, (str, os.PathLike)) or not str(name_or_path):
        raise InputError(f"A LoRA is named by a file, a folder or a hub id, got {name_or_path!r}.")
    where: Any = {key: value for key, value in hub.items() if key not in WITHOUT_MEANING}
    path = Path(name_or_path)
    if path.is_file():
        return path
    if path.is_dir() and weight_name is None and not (path / WEIGHTS_NAME).is_file():
        there = sorted(path.glob("*.safetensors"))
        if len(there) != 1:
            names = ", ".join(found.name for found in there) or "none"
            raise NotFoundError(f"{path} has no {WEIGHTS_NAME!r}; safetensors there: {names}. Pass weight_name=….")
        return there[0]
    if path.suffix and not path.is_dir() and not files.looks_like_hub_id(str(name_or_path)):
        raise NotFoundError(f"There is no LoRA file {path}.")
    return files.resolve_file(name_or_path, weight_name or WEIGHTS_NAME, **where)


# ---- reading ----


@dataclass
class LoraFile:
    """The tensors of a LoRA by layer, whatever model they are for, and the settings that came with them."""

    source: str
    sha256: str
    layers: Layers
    names: dict[tuple[str, str], str]  # layer and part -> the tensor's own name
    settings: Settings
    words: Tensors
    foreign: list[str]

    @property
    def total(self) -> int:
        return len(self.names) + len(self.words) + len(self.foreign)

    def names_of(self, layer: str) -> list[str]:
        return [name for (owner, _), name in self.names.items() if owner == layer]

    def alpha(self, layer: str, component: str, called: str) -> float | None:
        """The alpha of a layer, as its tensor or the settings say it."""
        tensor = self.layers[layer].get("alpha")
        if tensor is None:
            return self.settings.alpha(component, called)
        if tensor.numel() != 1:
            raise WeightsError(f"{self.source}: the alpha of {layer!r} has to be one number, got {list(tensor.shape)}.")
        return float(tensor.item())

    @property
    def dialect(self) -> str:
        return dialect_of([*self.names.values(), *self.foreign])


@dataclass
class Settings:
    """What a trainer noted: alphas by component, or by layer where they differ, and rsLoRA."""

    values: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Settings:
        """Of the header, or of the config that peft writes beside the file."""
        text = files.read_safetensors_header(path)[1].get(METADATA, "{}")
        beside = path.with_name(PEFT_NAMES[1])
        try:
            values = json.loads(text)
        except json.JSONDecodeError as problem:
            raise FileFormatError(f"{path}: its {METADATA!r} is not valid JSON: {problem}.") from None
        if not values and path.name == PEFT_NAMES[0] and beside.is_file():
            values = files.read_json(beside)
        if not isinstance(values, dict):
            raise FileFormatError(f"{path}: its {METADATA!r} has to hold settings by name, got {values!r}.")
        for key, value in values.items():
            if key.rpartition(".")[2] == "lora_alpha" and not isinstance(value, (int, float)):
                raise FileFormatError(f"{path}: {key!r} in its settings has to be a number, got {value!r}.")
        return cls(values)

    def of(self, component: str, setting: str) -> Any:
        """A setting of a component, or of the only one that the file is for."""
        return self.values.get(f"{component}.{setting}", self.values.get(setting))

    def alpha(self, component: str, layer: str) -> float | None:
        """The alpha of a layer; peft's patterns are the ends of names, matched by whole parts."""
        patterns = self.of(component, "alpha_pattern") or {}
        for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
            if re.fullmatch(rf"(.*\.)?({pattern.removeprefix('^')})", layer):
                return float(value)
        value = self.of(component, "lora_alpha")
        return None if value is None else float(value)


def open_lora(source: Path | Mapping[str, Tensor]) -> LoraFile:
    """The layers of a file, or of tensors by name."""
    if isinstance(source, Mapping):
        tensors, settings, name = dict(source), Settings(), BY_HAND
        digest = hashlib.sha256()
        for key, tensor in sorted(tensors.items()):
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        sha256 = digest.hexdigest()
    else:
        if container_of(source) != "safetensors":
            raise FileFormatError(f"{source}: LoRA weights are read from safetensors only; convert the file first.")
        stored = open_weights([source])
        dtypes = {key: DTYPES[tensor.info.dtype] for key, tensor in stored.items()}
        tensors = dict(read_tensors(stored, dtypes, torch.device("cpu")))
        settings, name = Settings.read(source), str(source)
        sha256 = hashlib.sha256(source.read_bytes()).hexdigest()
    file = LoraFile(name, sha256, {}, {}, settings, {}, [])
    for key, tensor in tensors.items():
        split = split_name(key)
        if key.startswith("<") and key.endswith(">"):
            file.words[key] = tensor
        elif key.startswith("bundle_emb.") and ".string_to_param." in key:
            file.words[key.removeprefix("bundle_emb.").partition(".string_to_param.")[0]] = tensor
        elif split is None or (split[1] == "ia3" and f"{split[0]}.on_input" not in tensors):
            file.foreign.append(key)
        elif (twice := file.names.get(split)) is not None:
            raise WeightsError(f"{name}: {twice!r} and {key!r} are the same part of one layer.")
        else:
            file.layers.setdefault(split[0], {})[split[1]] = tensor
            file.names[split] = key
    return file


# ---- fitting ----


def read_lora(
    source: Path | Mapping[str, Tensor],
    models: Mapping[str, nn.Module],
    denoiser: str | None = "unet",
    instead_of: str | None = None,
) -> Lora:
    """A file fitted to models: each layer checked against the one that it changes.

    Names without a component are the denoiser's, and so are those of the model that it is asked for `instead_of`. Only
    the models that the file changes are asked for. What has no place is in the report; a file of which nothing has one
    is refused, and so is one whose shapes do not fit.
    """
    file = open_lora(source)
    lora = Lora(file.source, file.sha256, file.dialect, LoraReport(file.source, file.total), words=file.words)
    for key in file.foreign:
        lora.report.leave(unread_reason(key), [key])
    names = LayerNames(models, denoiser, instead_of)
    found = {layer: names.find(layer) for layer in file.layers}
    for own, copies in _spelled_twice(found):
        for other in copies:
            lora.report.leave(f"{own!r} is the same layer", file.names_of(other))
            del found[other]
    for layer, pieces in found.items():
        if isinstance(pieces, Absent):
            lora.report.leave(pieces.reason, file.names_of(layer))
            continue
        for place, change in _fitted(file, layer, pieces, found, models):
            lora.changes.setdefault(place, []).append(change)
        if _changes_nothing(file.layers[layer]):
            lora.report.without_effect.append(layer)
        else:
            lora.report.has_effect = True
    if not lora.changes:
        raise WeightsError(f"{lora.report} Nothing of it fits: the LoRA was made for another model, or is none.")
    return lora


def _spelled_twice(found: Mapping[str, list[Piece] | Absent]) -> list[tuple[str, list[str]]]:
    """Layers that a file holds under several names: (the one that counts, the others); the model's own name counts."""
    spelled: dict[Place, list[str]] = {}
    for name, pieces in found.items():
        if isinstance(pieces, list) and len(pieces) == 1 and pieces[0].move is None:
            spelled.setdefault((pieces[0].component, pieces[0].layer), []).append(name)
    twice = []
    for (_, layer), names in spelled.items():
        own = next((name for name in names if name.endswith((layer, layer.replace(".", "_")))), names[0])
        twice += [(own, [name for name in names if name != own])] if len(names) > 1 else []
    return twice


def _fitted(
    file: LoraFile,
    layer: str,
    pieces: list[Piece],
    found: Mapping[str, list[Piece] | Absent],
    models: Mapping[str, nn.Module],
) -> Iterable[tuple[Place, Change]]:
    """The changes of one layer of a file, by the parameters that they change."""
    tensors = file.layers[layer]
    _require_sound(file.source, layer, tensors)
    first = pieces[0]
    alpha = file.alpha(layer, first.component, first.layer)
    weights = [models[piece.component].get_parameter(piece.parameter) for piece in pieces]
    try:
        _require_whole(tensors)
        shape, sizes, move = _layout(file, layer, pieces, found, [tuple(weight.shape) for weight in weights])
        for piece in pieces:
            parts = {part: t for part, t in tensors.items() if part not in ("alpha", "diff_b", "up_bias")}
            rooted = bool(file.settings.of(piece.component, "use_rslora"))
            way: dict[str, Any] = {"move": move, "source": piece.source, "target": piece.target, "sizes": sizes}
            algorithm = algorithm_of(parts)
            if algorithm is not None:
                change = Change(algorithm, parts, shape, alpha, rooted, **way)
                change.check()
                yield (piece.component, piece.parameter), change
                scale = change.scale
            bias = tensors.get("diff_b", scale * tensors["up_bias"].float() if "up_bias" in tensors else None)
            if bias is not None:
                if getattr(models[piece.component].get_submodule(piece.layer), "bias", None) is None:
                    raise WeightsError("it changes a bias, and the model's layer has none")
                added = Change(_FULL, {"diff": bias}, (shape[0],), **way)
                added.check()
                yield (piece.component, f"{piece.layer}.bias"), added
    except WeightsError as problem:
        shapes = " and ".join(str(list(weight.shape)) for weight in weights)
        raise WeightsError(
            f"{file.source}: the layer {layer!r} does not fit {first.component}.{first.layer} {shapes}: {problem}. "
            "The LoRA was made for another model, or is damaged."
        ) from None


def _require_sound(source: str, layer: str, tensors: Tensors) -> None:
    """Refuse values that mean nothing: NaN, integers without a scale, an alpha that is no number."""
    for part, tensor in tensors.items():
        if part not in ("alpha", "on_input") and not tensor.is_floating_point():
            raise WeightsError(
                f"{source}: {part!r} of {layer!r} is {str(tensor.dtype).removeprefix('torch.')}: numbers that are "
                "quantised without a scale. Take the file in fp16, bf16 or fp32."
            )
        if not torch.isfinite(tensor.float()).all():
            raise WeightsError(f"{source}: the layer {layer!r} holds NaN or Inf ({part}).")


def _changes_nothing(tensors: Tensors) -> bool:
    """Whether a layer of a file adds zeros: an alpha of zero, no rank, or a factor of zeros."""
    rest = {part: tensor for part, tensor in tensors.items() if part not in ("alpha", "on_input")}
    if any(part in rest for part in ("diff", "diff_b", "up_bias", "magnitude", "dora_scale")):
        return not any(tensor.any() for tensor in rest.values())
    alpha = tensors.get("alpha")
    return (alpha is not None and not alpha.any()) or any(not tensor.any() for tensor in rest.values())


_FULL = next(kind for kind in ALGORITHMS if kind.name == "full")


def _require_whole(tensors: Tensors) -> None:
    """Refuse half a layer."""
    if algorithm_of(tensors) is not None:
        return
    rest = set(tensors) - COMPANIONS - {"diff_b", "up_bias"}
    for kind in ALGORITHMS:
        needs = min(kind.needs, key=lambda needed: len(needed - rest))
        if needs & rest:
            missing = ", ".join(sorted(needs - set(tensors)))
            raise WeightsError(f"it is a {kind.name} and has no {missing!r} matrix" if missing else "it is two kinds")
    if not {"diff_b"} & set(tensors):
        raise WeightsError(f"it has only {', '.join(tensors)}")


def _layout(
    file: LoraFile,
    layer: str,
    pieces: list[Piece],
    found: Mapping[str, list[Piece] | Absent],
    shapes: list[tuple[int, ...]],
) -> tuple[tuple[int, ...], tuple[int, ...], Any]:
    """The shape of the file's layer, the rows of all the parts that it stands beside, and the way to the model's."""
    piece, move = pieces[0], pieces[0].move
    if move is None:
        return shapes[0], (), None
    if len(move.sources) == 1:
        theirs = replace(move, sources=move.targets, targets=move.sources, backwards=True)
        ours = [torch.empty(shape, device="meta") for shape in shapes]
        return tuple(theirs.apply(ours)[0].shape), (), move
    beside = {
        other[0].source: _rows(file.layers[name])
        for name, other in found.items()
        if isinstance(other, list) and other[0].layer == piece.layer and other[0].component == piece.component
    }
    sizes = part_sizes(piece, shapes[0][0], _rows(file.layers[layer]), beside)
    joined = replace(move, operations=operations.parse(f"join {' '.join(map(str, sizes))}"))
    return (sizes[piece.source], *shapes[0][1:]), sizes, joined


def _rows(tensors: Tensors) -> int:
    """How many rows the product of a layer's tensors has."""
    algorithm = algorithm_of(tensors)
    if algorithm is None:
        return 0
    meta = {part: torch.empty(tensor.shape, device="meta") for part, tensor in tensors.items()}
    return algorithm.product(meta).shape[0]


def _some(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
