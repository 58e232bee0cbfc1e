"""What a LoRA file is, told from its tensors alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import files
from ..errors import FileFormatError
from .detect import detect
from .header import read_header
from .lora import open_lora
from .lora_algorithms import algorithm_of
from .lora_names import LayerNames, unread_reason

METADATA_HINTS = ("modelspec.architecture", "ss_base_model_version", "ss_sd_model_name", "ss_network_module")
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
    hints = [f"(its metadata says {key} {metadata[key]!r})" for key in METADATA_HINTS if key in metadata]
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


def inspect_lora(path: Path) -> dict[str, Any]:
    """What a LoRA file is: dialect, kinds, ranks, alphas, targets, base family, words, health."""
    file = open_lora(path)
    if not file.layers and not file.words:
        found = detect(read_header(path))
        what = "it was not recognised" if found.kind == "unknown" else f"it is {found.title}"
        raise FileFormatError(f"{path} is no LoRA, {what}: `lockstep inspect` tells more about it.")
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
        alpha = file.alpha(layer, "unet", layer)
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
