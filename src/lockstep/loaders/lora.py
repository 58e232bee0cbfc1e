"""LoRA files (arXiv:2106.09685): what they add to which weight, W + scale · up · down."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor, nn

from .. import files
from ..errors import FileFormatError, NotFoundError, WeightsError
from ..models.weights import DTYPES, open_weights, read_tensors
from .lora_names import LayerNames, linear_layers, refuse_other_kinds, split_name

WEIGHTS_NAME = "pytorch_lora_weights.safetensors"
METADATA = "lora_adapter_metadata"  # JSON of the training's settings, as peft files carry them

Place = tuple[str, str]  # component, layer


@dataclass
class LoraLayer:
    """What one layer gets: two thin matrices, and how much of their product."""

    down: Tensor
    up: Tensor
    alpha: float | None = None

    @property
    def scale(self) -> float:
        rank = self.down.shape[0]
        return 1.0 if self.alpha is None else self.alpha / rank

    def addition(self, like: Tensor) -> Tensor:
        """The product in the shape of the weight, fp32."""
        product = self.up.float().flatten(1) @ self.down.float().flatten(1)
        return (self.scale * product).reshape(like.shape).to(like.device)


@dataclass
class Lora:
    """A LoRA file, fitted to models."""

    source: str
    sha256: str
    layers: dict[Place, LoraLayer] = field(default_factory=dict)


def find_lora(name_or_path: str | Path, weight_name: str | None = None, **hub: Unpack[files.HubArguments]) -> Path:
    """The file itself, or the one in a folder or on the hub."""
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


def read_lora(path: Path, models: Mapping[str, nn.Module]) -> Lora:
    """The layers of a file, each checked against the layer of the models that it adds to."""
    if path.suffix not in (".safetensors", ""):
        raise FileFormatError(f"{path}: LoRA weights are read from safetensors only; convert the {path.suffix} first.")
    stored = open_weights([path])
    refuse_other_kinds(stored, str(path))
    dtypes = {name: DTYPES[tensor.info.dtype] for name, tensor in stored.items()}
    parts: dict[str, dict[str, Tensor]] = {}
    foreign = []
    for name, tensor in read_tensors(stored, dtypes, torch.device("cpu")):
        found = split_name(name)
        if name.startswith("<") and name.endswith(">"):
            warnings.warn(
                f"{path} also holds the word {name}, which is left out: only its layers are used.", stacklevel=4
            )
            continue
        if found is None:
            foreign.append(name)
        else:
            parts.setdefault(found[0], {})[found[1]] = tensor
    if foreign or not parts:
        what = f"tensor {foreign[0]!r} ({len(foreign)} such)" if foreign else "no LoRA layer"
        raise WeightsError(f"{path} holds {what}, which is no part of a LoRA; nothing was loaded.")
    names = LayerNames(models, layers_per_block(models.get("unet")))
    lora = Lora(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    alphas = metadata_alphas(path)
    modules = {component: linear_layers(model) for component, model in models.items()}
    for name, tensors in parts.items():
        place = names.find(name)
        if place is None:
            raise WeightsError(
                f"{path} adds to {name!r}, and no such layer is in {', '.join(models)}. "
                "The LoRA was made for another model."
            )
        lora.layers[place] = _layer(path, name, tensors, alphas.get(place[0]), modules[place[0]][place[1]].weight)
    return lora


def layers_per_block(unet: nn.Module | None) -> int:
    value = getattr(getattr(unet, "config", None), "layers_per_block", 2)
    return value if isinstance(value, int) else value[0]


def _layer(path: Path, name: str, tensors: Mapping[str, Tensor], alpha: float | None, weight: Tensor) -> LoraLayer:
    if "down" not in tensors or "up" not in tensors:
        missing = "down" if "down" not in tensors else "up"
        raise WeightsError(f"{path}: the layer {name!r} has no {missing!r} matrix.")
    down, up = tensors["down"], tensors["up"]
    if not (torch.isfinite(down).all() and torch.isfinite(up).all()):
        raise WeightsError(f"{path}: the layer {name!r} holds NaN or Inf.")
    inner = weight[0].numel()
    fits = up.shape[0] == weight.shape[0] and down[0].numel() == inner and up[0].numel() == down.shape[0]
    if not fits:
        raise WeightsError(
            f"{path}: the layer {name!r} wants up [{weight.shape[0]}, rank] and down [rank, {inner}] for a weight of "
            f"shape {list(weight.shape)}, got up {list(up.shape)} and down {list(down.shape)}. "
            "The LoRA was made for another model."
        )
    if "alpha" in tensors:
        alpha = float(tensors["alpha"].item())
    return LoraLayer(down, up, alpha)


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
