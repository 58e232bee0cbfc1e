"""LoRA files (arXiv:2106.09685): what they add to which weight, W + scale · up · down."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor, nn

from .. import files
from ..errors import FileFormatError, InputError, NotFoundError, WeightsError
from ..models.weights import DTYPES, open_weights, read_tensors
from .lora_names import LayerNames, Piece, refuse_other_kinds, split_name

WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
METADATA = "lora_adapter_metadata"  # JSON of the training's settings, as peft files carry them

Place = tuple[str, str]  # component, layer


@dataclass
class LoraLayer:
    """What one layer gets: two thin matrices, how much of their product, and on which of its rows (None: on all)."""

    down: Tensor
    up: Tensor
    alpha: float | None = None
    rows: slice | None = None

    @property
    def scale(self) -> float:
        rank = self.down.shape[0]
        return 1.0 if self.alpha is None else self.alpha / rank

    def addition(self, like: Tensor) -> Tensor:
        """The product in the shape of the weight, fp32; zeros on the rows that it leaves alone."""
        product = self.scale * (self.up.float().flatten(1) @ self.down.float().flatten(1))
        if self.rows is not None:
            whole = product.new_zeros(like.shape[0], product.shape[1])
            whole[self.rows] = product
            product = whole
        return product.reshape(like.shape).to(like.device)


@dataclass
class Lora:
    """A LoRA file, fitted to models."""

    source: str
    sha256: str
    layers: dict[Place, list[LoraLayer]] = field(default_factory=dict)


def find_lora(name_or_path: str | Path, weight_name: str | None = None, **hub: Unpack[files.HubArguments]) -> Path:
    """The file itself, or the one in a folder or on the hub."""
    if not isinstance(name_or_path, (str, os.PathLike)) or not str(name_or_path):
        raise InputError(f"A LoRA is named by a file, a folder or a hub id, got {name_or_path!r}.")
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
    return files.resolve_file(name_or_path, weight_name or WEIGHTS_NAME, **hub)


def read_lora(path: Path, models: Mapping[str, nn.Module], denoiser: str | None = "unet") -> Lora:
    """The layers of a file, each checked against the layers of the models that it adds to.

    Names without a component are the denoiser's. Only the models that the file adds to are asked for.
    """
    if path.suffix not in (".safetensors", ""):
        raise FileFormatError(f"{path}: LoRA weights are read from safetensors only; convert the {path.suffix} first.")
    stored = open_weights([path])
    refuse_other_kinds(stored, str(path))
    dtypes = {name: DTYPES[tensor.info.dtype] for name, tensor in stored.items()}
    parts: dict[str, dict[str, Tensor]] = {}
    foreign = []
    for name, tensor in read_tensors(stored, dtypes, torch.device("cpu")):
        split = split_name(name)
        if name.startswith("<") and name.endswith(">"):
            warnings.warn(
                f"{path} also holds the word {name}, which is left out: only its layers are used.", stacklevel=4
            )
            continue
        if split is None:
            foreign.append(name)
        else:
            parts.setdefault(split[0], {})[split[1]] = tensor
    if foreign or not parts:
        what = f"tensor {foreign[0]!r} ({len(foreign)} such)" if foreign else "no LoRA layer"
        raise WeightsError(f"{path} holds {what}, which is no part of a LoRA; nothing was loaded.")
    names = LayerNames(models, denoiser)
    lora = Lora(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    alphas = metadata_alphas(path)
    found = {name: names.find(name) for name in parts}
    for name, tensors in parts.items():
        if not found[name]:
            raise WeightsError(
                f"{path} adds to {name!r}, and no such layer is in {', '.join(models)}. "
                "The LoRA was made for another model."
            )
        weights = [models[piece.component].get_parameter(f"{piece.layer}.weight").data for piece in found[name]]
        layer = _layer(path, name, tensors, alphas.get(found[name][0].component))
        for piece, cut in zip(found[name], _cut(path, name, layer, found, parts, weights), strict=True):
            lora.layers.setdefault((piece.component, piece.layer), []).append(cut)
    return lora


def _layer(path: Path, name: str, tensors: Mapping[str, Tensor], alpha: float | None) -> LoraLayer:
    if "down" not in tensors or "up" not in tensors:
        missing = "down" if "down" not in tensors else "up"
        raise WeightsError(f"{path}: the layer {name!r} has no {missing!r} matrix.")
    down, up = tensors["down"], tensors["up"]
    if not (torch.isfinite(down).all() and torch.isfinite(up).all()):
        raise WeightsError(f"{path}: the layer {name!r} holds NaN or Inf.")
    return LoraLayer(down, up, float(tensors["alpha"].item()) if "alpha" in tensors else alpha)


def _cut(
    path: Path,
    name: str,
    layer: LoraLayer,
    found: Mapping[str, list[Piece]],
    parts: Mapping[str, Mapping[str, Tensor]],
    weights: list[Tensor],
) -> list[LoraLayer]:
    """A file's layer as each of the model's layers gets it: its rows shared out, or laid on a part of the rows."""
    first, (down, up) = found[name][0], (layer.down, layer.up)
    rows, inner = sum(len(weight) for weight in weights), weights[0][0].numel()
    begin = 0
    if first.share[1] > 1:
        rows = up.shape[0]
        begin = _rows_before(path, name, first, found, parts, len(weights[0]))
    fits = up.shape[0] == rows and begin + rows <= sum(len(w) for w in weights)
    fits = fits and up[0].numel() == down.shape[0] and all(w[0].numel() == down[0].numel() == inner for w in weights)
    if not fits:
        shapes = " and ".join(str(list(weight.shape)) for weight in weights)
        raise WeightsError(
            f"{path}: the layer {name!r} wants up [{rows}, rank] and down [rank, {inner}] for a weight of shape "
            f"{shapes}, got up {list(up.shape)} and down {list(down.shape)}. The LoRA was made for another model."
        )
    if first.share[1] > 1:
        return [replace(layer, rows=slice(begin, begin + rows))]
    return [replace(layer, up=part) for part in up.split([len(weight) for weight in weights])]


def _rows_before(
    path: Path,
    name: str,
    piece: Piece,
    found: Mapping[str, list[Piece]],
    parts: Mapping[str, Mapping[str, Tensor]],
    total: int,
) -> int:
    """Where the rows of a part begin in the layer that holds all parts."""
    number, count = piece.share
    mine = parts[name]["up"].shape[0]
    if mine * count == total:  # parts of one size: queries, keys and values
        return number * mine
    place = (piece.component, piece.layer)
    beside = {f[0].share[0]: parts[n]["up"].shape[0] for n, f in found.items() if (f[0].component, f[0].layer) == place}
    if not all(k in beside for k in range(number)):
        raise WeightsError(
            f"{path}: the layer {name!r} is part {number + 1} of {count} of {piece.layer!r}, and where it begins "
            "follows from the parts before it, which the file does not have."
        )
    return sum(beside[k] for k in range(number))


def metadata_alphas(path: Path) -> dict[str, float]:
    """The one alpha of a component that peft's files keep in their header."""
    _, metadata = files.read_safetensors_header(path)
    try:
        settings = json.loads(metadata.get(METADATA, "{}"))
    except json.JSONDecodeError as problem:
        raise FileFormatError(f"{path}: its {METADATA!r} is not valid JSON: {problem}.") from None
    found = {}
    for key, value in settings.items() if isinstance(settings, dict) else ():
        component, _, setting = str(key).rpartition(".")
        if setting == "lora_alpha" and isinstance(value, (int, float)):
            found[component] = float(value)
        elif setting in ("rank_pattern", "alpha_pattern", "use_dora", "use_rslora") and value:
            raise WeightsError(f"{path} was made with {setting}={value}, which is not supported.")
    return found


@torch.no_grad()
def merged_weight(original: Tensor, additions: list[tuple[LoraLayer, float]]) -> Tensor:
    """The weight with every layer's product on top, summed in fp32."""
    total = original.float()
    for layer, strength in additions:
        total = total + strength * layer.addition(original)
    return total.to(original.dtype)
