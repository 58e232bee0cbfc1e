"""The dialects of LoRA files: which layer of which component each tensor belongs to.

| dialect | a name in the file |
|---|---|
| peft, diffusers | `unet.down_blocks.0.….to_q.lora_A.weight` |
| diffusers before peft | `down_blocks.0.….attn1.processor.to_q_lora.down.weight`, `….to_q.lora.down.weight` |
| kohya | `lora_unet_down_blocks_0_…_to_q.lora_down.weight`, with `alpha`; SDXL's blocks by their original numbers |
| cloneofsimo | `unet:17:up`: the 17th linear layer of the attentions and gated layers |
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from ..errors import WeightsError

COMPONENTS = {
    "unet": ("unet.", "lora_unet_"),
    "text_encoder_2": ("text_encoder_2.", "lora_te2_"),
    "text_encoder": ("text_encoder.", "lora_te1_", "lora_te_"),
}
# Each gives the name of the layer, and the part that a tensor plays in it.
PARTS = [
    (re.compile(r"(.+)\.lora_(A|B)(?:\.[^.]+)?\.weight"), {"A": "down", "B": "up"}),
    (re.compile(r"(.+)\.lora_(down|up)\.weight"), {"down": "down", "up": "up"}),
    (re.compile(r"(.+)\.lora(?:_linear_layer)?\.(down|up)\.weight"), {"down": "down", "up": "up"}),
    (re.compile(r"(.+_lora)\.(down|up)\.weight"), {"down": "down", "up": "up"}),
    (re.compile(r"((?:unet|text_encoder):\d+):(down|up)"), {"down": "down", "up": "up"}),
    (re.compile(r"(.+)\.(alpha)"), {"alpha": "alpha"}),
]
OTHER_KINDS = {"dora_scale": "DoRA", "hada_": "LoHa", "lokr_": "LoKr", "lora_mid": "LoCon with a middle factor"}


def split_name(name: str) -> tuple[str, str] | None:
    """`…to_q.lora_A.weight` -> (`…to_q`, "down"); None for a tensor that belongs to no LoRA layer."""
    for pattern, parts in PARTS:
        match = pattern.fullmatch(name)
        if match:
            return match[1], parts[match[2]]
    return None


def refuse_other_kinds(names: Iterable[str], source: str) -> None:
    """Relatives of LoRA that compute something else."""
    for name in names:
        kind = next((kind for mark, kind in OTHER_KINDS.items() if mark in name), None)
        if kind:
            raise WeightsError(f"{source} is a {kind} file (tensor {name!r}); only plain LoRA layers can be loaded.")


class LayerNames:
    """Finds the layer that a file's name means among the layers of the models."""

    def __init__(self, models: Mapping[str, nn.Module], unet_layers: int = 2) -> None:
        self.layers = {name: linear_layers(model) for name, model in models.items()}
        self.flat = {name: {layer.replace(".", "_"): layer for layer in layers} for name, layers in self.layers.items()}
        self.numbered = {name: numbered_layers(layers, name) for name, layers in self.layers.items()}
        self.unet_layers = unet_layers

    def find(self, name: str) -> tuple[str, str] | None:
        """(component, layer), or None when no model has it."""
        component, rest, kohya = component_of(name)
        layers = self.layers.get(component, {})
        if ":" in name:
            number, known = int(name.partition(":")[2]), self.numbered.get(component, [])
            return (component, known[number]) if number < len(known) else None
        if kohya:
            flat = self.flat.get(component, {})
            found = flat.get(rest) or flat.get(original_to_published(rest, self.unet_layers))
            return (component, found) if found else None
        plain = plain_name(rest)
        return (component, plain) if plain in layers else None


def component_of(name: str) -> tuple[str, str, bool]:
    """(component, rest of the name, whether dots were written as underscores)."""
    for component, prefixes in COMPONENTS.items():
        for prefix in prefixes:
            if name.startswith(prefix):
                return component, name.removeprefix(prefix), prefix.endswith("_")
    return name.partition(":")[0] if ":" in name else "unet", name, False


def plain_name(name: str) -> str:
    """Names from the time when attention processors held the LoRA."""
    name = re.sub(r"\.self_attn\.to_([qkv]|out)_lora$", r".self_attn.\1_proj", name)
    name = re.sub(r"\.processor\.(to_\w+)_lora$", r".\1", name)
    name = re.sub(r"\.(to_[qkv]|to_out)_lora$", r".\1", name)
    return re.sub(r"\.to_out$", ".to_out.0", name)


def linear_layers(model: nn.Module) -> dict[str, Any]:
    """The layers that a LoRA can add to."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, (nn.Linear, nn.Conv2d))}


def numbered_layers(layers: Mapping[str, Any], component: str) -> list[str]:
    """The order in which cloneofsimo's files count: the UNet's middle comes last, and gates before cross-attention."""
    if component != "unet":
        order = ["k_proj", "v_proj", "q_proj", "out_proj"]
        return _ordered([name for name in layers if name.rpartition(".")[2] in order and ".self_attn." in name], order)
    order = [f"attn1.{part}" for part in ("to_q", "to_k", "to_v", "to_out.0")]
    order += ["ff.net.0.proj", *(name.replace("attn1", "attn2") for name in order)]
    wanted = [name for name in layers if name.endswith(tuple(f".{end}" for end in order))]
    outer = [name for name in wanted if not name.startswith("mid_block")]
    return _ordered(outer, order) + _ordered([name for name in wanted if name.startswith("mid_block")], order)


def _ordered(names: list[str], ends: list[str]) -> list[str]:
    """Blocks in the order of the model, and within each its layers in the order of `ends`."""
    places: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        rank = next(rank for rank, end in enumerate(ends) if name.endswith(f".{end}"))
        places.setdefault(name.removesuffix(ends[rank]), []).append((rank, name))
    return [name for block in places.values() for _, name in sorted(block)]


def original_to_published(name: str, layers: int) -> str:
    """`input_blocks_4_1_…` of the original UNet -> `down_blocks_1_attentions_0_…`, with `layers` per block."""
    match = re.match(r"(input|output)_blocks_(\d+)_(\d+)_|middle_block_(\d+)_", name)
    if not match:
        return name
    rest = name[match.end() :]
    if match[4] is not None:
        place = {"0": "mid_block_resnets_0_", "1": "mid_block_attentions_0_", "2": "mid_block_resnets_1_"}
        return place.get(match[4], "mid_block_") + _resnet_part(rest)
    number, part = int(match[2]), int(match[3])
    per = layers + 1  # down: the layers and a downsampler; up: one layer more, each with the upsampler behind it
    if match[1] == "input":
        block, place_in_block = divmod(number - 1, per)
        if place_in_block == layers:
            return f"down_blocks_{block}_downsamplers_0_" + rest.replace("op", "conv", 1)
        kind = "attentions" if part == 1 else "resnets"
        return f"down_blocks_{block}_{kind}_{place_in_block}_" + _resnet_part(rest)
    block, place_in_block = divmod(number, per)
    if rest.startswith("conv"):
        return f"up_blocks_{block}_upsamplers_0_{rest}"
    kind = "attentions" if part == 1 else "resnets"
    return f"up_blocks_{block}_{kind}_{place_in_block}_" + _resnet_part(rest)


def _resnet_part(rest: str) -> str:
    names = {
        "in_layers_2": "conv1",
        "out_layers_3": "conv2",
        "emb_layers_1": "time_emb_proj",
        "skip_connection": "conv_shortcut",
    }
    return names.get(rest, rest)
