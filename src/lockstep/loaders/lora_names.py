"""The dialects of LoRA files: which layer of which component each tensor belongs to.

| dialect | a name in the file |
|---|---|
| peft, diffusers | `unet.down_blocks.0.….to_q.lora_A.weight` |
| diffusers before peft | `down_blocks.0.….attn1.processor.to_q_lora.down.weight`, `….to_q.lora.down.weight` |
| kohya | `lora_unet_down_blocks_0_…_to_q.lora_down.weight`, with `alpha`; SDXL's blocks by their original numbers |
| cloneofsimo | `unet:17:up`: the 17th linear layer of the attentions and gated layers |

Which components there are, and which of them is the denoiser, the pipeline says. A model says in `fused_layers` which
of its layers other files keep as one, or the other way round.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ..errors import WeightsError

DENOISER_PREFIXES = ("unet.", "transformer.", "diffusion_model.", "lora_unet_", "lora_transformer_")
TEXT_ENCODER_PREFIXES = {
    "lora_te_": "text_encoder",
    "lora_te1_": "text_encoder",
    "lora_te2_": "text_encoder_2",
    "lora_te3_": "text_encoder_3",
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


@dataclass(frozen=True)
class Piece:
    """A layer of a model that a layer of a file adds to: which of the file's parts, and to which of its own rows.

    `part` counts the model's layers that share one layer of the file; `share` the file's layers that share this one.
    """

    component: str
    layer: str
    part: tuple[int, int] = (0, 1)
    share: tuple[int, int] = (0, 1)


class LayerNames:
    """Finds the layers that a file's name means among the layers of the models."""

    def __init__(self, models: Mapping[str, nn.Module], denoiser: str | None = "unet") -> None:
        self.models, self.denoiser = models, denoiser
        self.prefixes = prefixes(models, denoiser)
        self._layers: dict[str, dict[str, Any]] = {}

    def layers(self, component: str) -> dict[str, Any]:
        """The layers of a model, looked up once."""
        if component not in self._layers:
            self._layers[component] = linear_layers(self.models[component])
        return self._layers[component]

    def component_of(self, name: str) -> tuple[str | None, str, bool]:
        """(component, rest of the name, whether dots were written as underscores)."""
        if ":" in name:
            owner = name.partition(":")[0]
            return (self.denoiser if owner == "unet" else owner), name, False
        for prefix, component in self.prefixes.items():
            if name.startswith(prefix):
                return component, name.removeprefix(prefix), prefix.endswith("_")
        return self.denoiser, name, False

    def find(self, name: str) -> list[Piece]:
        """The pieces of models that a name means; none when no model has it."""
        component, rest, kohya = self.component_of(name)
        if component is None or component not in self.models:
            return []
        layers = self.layers(component)
        if ":" in name:
            number, known = int(name.partition(":")[2]), numbered_layers(layers, component == self.denoiser)
            return [Piece(component, known[number])] if number < len(known) else []
        if not kohya:
            return self._pieces(component, plain_name(rest), layers)
        flat = {layer.replace(".", "_"): layer for layer in layers}
        published = original_to_published(rest, layers_per_block(self.models[component]))
        found = self._pieces(component, rest, flat) or self._pieces(component, published, flat)
        return [replace(piece, layer=flat[piece.layer]) for piece in found]

    def _pieces(self, component: str, name: str, layers: Mapping[str, Any]) -> list[Piece]:
        """The layer itself, the parts that the model has in its place, or the layer that it is a part of."""
        if name in layers:
            return [Piece(component, name)]
        flat = "." not in name
        for whole, parts in getattr(self.models[component], "fused_layers", ()):
            whole, parts = (whole, parts) if not flat else (_flat(whole), tuple(map(_flat, parts)))
            inside = _filling(whole, name)
            if inside is not None and all(part.replace("{}", inside) in layers for part in parts):
                return [
                    Piece(component, part.replace("{}", inside), part=(k, len(parts))) for k, part in enumerate(parts)
                ]
            for k, part in enumerate(parts):
                inside = _filling(part, name)
                if inside is not None and whole.replace("{}", inside) in layers:
                    return [Piece(component, whole.replace("{}", inside), share=(k, len(parts)))]
        return []


def prefixes(components: Iterable[str], denoiser: str | None) -> dict[str, str]:
    """Beginning of a name in a file -> component, the longest first."""
    known = list(components)
    found = {} if denoiser is None else dict.fromkeys(DENOISER_PREFIXES, denoiser)
    found |= {prefix: component for prefix, component in TEXT_ENCODER_PREFIXES.items() if component in known}
    found |= {f"{component}.": component for component in known}
    found |= {f"lora_{component}_": component for component in known}
    return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def layers_per_block(model: nn.Module) -> int:
    """How many layers a block of a UNet has; what has no such number has no original names by it either."""
    value = getattr(getattr(model, "config", None), "layers_per_block", 2)
    return value if isinstance(value, int) else value[0]


def _filling(pattern: str, name: str) -> str | None:
    """What `{}` stands for in a pattern that a name fits."""
    before, _, after = pattern.partition("{}")
    fits = name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after)
    return name[len(before) : len(name) - len(after)] if fits else None


def _flat(pattern: str) -> str:
    return pattern.replace(".", "_")


def plain_name(name: str) -> str:
    """Names from the time when attention processors held the LoRA."""
    name = re.sub(r"\.self_attn\.to_([qkv]|out)_lora$", r".self_attn.\1_proj", name)
    name = re.sub(r"\.processor\.(to_\w+)_lora$", r".\1", name)
    name = re.sub(r"\.(to_[qkv]|to_out)_lora$", r".\1", name)
    return re.sub(r"\.to_out$", ".to_out.0", name)


def linear_layers(model: nn.Module) -> dict[str, Any]:
    """The layers that a LoRA can add to: matrices, and convolutions along any number of axes."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, kinds)}


def numbered_layers(layers: Mapping[str, Any], of_denoiser: bool) -> list[str]:
    """The order in which cloneofsimo's files count: the UNet's middle comes last, and gates before cross-attention."""
    if not of_denoiser:
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
