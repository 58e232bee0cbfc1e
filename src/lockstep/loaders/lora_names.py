"""The dialects of LoRA files as data: what a tensor's ending means, what its beginning means, and whose names it has.

A tensor's name is `beginning` + `layer` + `ending`. The ending says which part of which algorithm it is, the beginning
which model it belongs to, and the layer is called as the model calls it (with dots, or underscores in their place), as
the original files call it (by the model's weight map), or by a number in the order of the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..errors import WeightsError
from ..models.controlnets.controlnet_map import controlnet_rows
from ..models.text_encoders.clip_map import open_clip_rows
from ..models.transformers.transformer_flux_map import flux_rows
from ..models.transformers.transformer_ltx_video_map import ltx_rows
from ..models.transformers.transformer_sd3_map import sd3_rows
from ..models.transformers.transformer_wan_map import wan_rows
from ..models.transformers.transformer_z_image_map import z_image_rows
from ..models.unets.unet_2d_condition_map import unet_rows
from . import operations
from .weight_map import Move, WeightMap

# (ending as a regex, part of an algorithm or None for what the regex itself caught); the first that fits counts
ENDINGS: tuple[tuple[re.Pattern[str], dict[str, str]], ...] = tuple(
    (re.compile(rf"(?P<layer>.+){pattern}"), parts)
    for pattern, parts in (
        (r"\.lora_(?P<part>A|B)(?:\.[^.]+)?\.weight", {"A": "down", "B": "up"}),
        (r"\.lora_(?P<part>B)(?:\.[^.]+)?\.bias", {"B": "up_bias"}),
        (r"\.lora_(?P<part>down|up|mid)\.weight", {}),
        (r"\.lora(?:_linear_layer)?\.(?P<part>down|up)\.weight", {}),
        (r"(?<=_lora)\.(?P<part>down|up)\.weight", {}),  # `to_q_lora`: the layer's own name ends so
        (r"(?<=_lora[12])\.(?P<part>down|up)\.weight", {}),  # `qkv_lora1`, of the picture, and `qkv_lora2`, of the text
        (r":(?P<part>down|up)", {}),
        (r"\.(?P<part>hada_w[12]_[ab]|hada_t[12])", {}),
        (r"\.(?P<part>lokr_w[12](?:_[ab])?|lokr_t2)", {}),
        (r"\.(?P<part>diff|diff_b|alpha|dora_scale|on_input)", {}),
        (r"\.(?P<part>w_norm|b_norm)", {"w_norm": "diff", "b_norm": "diff_b"}),
        (r"\.diff_m(?P<part>)", {"": "diff"}),  # of a block's modulation, see `split_name`
        (r"\.lora_(?P<part>magnitude)_vector(?:\.[^.]+)?(?:\.weight)?", {}),
        (r"(?<=\w)\.(?P<part>weight)", {"weight": "ia3"}),  # beside an `on_input` only
    )
)
UNREAD = {  # relatives that are told by name
    "oft_blocks": "OFT and BOFT turn weights instead of adding to them, and are not read",
    "oft_diag": "OFT and BOFT turn weights instead of adding to them, and are not read",
    ".a1.": "GLoRA is not read",
    ".b1.": "GLoRA is not read",
    ".a2.": "GLoRA is not read",
    ".b2.": "GLoRA is not read",
    "reshape_weight": "layers that grow are not read",
    "set_weight": "layers that are replaced are not read",
}
DENOISER = "denoiser"
# beginning of a name -> component; an underscore at its end says that underscores stand for dots
BEGINNINGS = {
    **dict.fromkeys(("unet.", "transformer.", "diffusion_model.", "model.diffusion_model."), DENOISER),
    **dict.fromkeys(("lora_unet_", "lora_transformer_", "lycoris_unet_", "lycoris_"), DENOISER),
    **dict.fromkeys(("lora_te_", "lora_te1_", "text_encoders.clip_l.transformer.", "lycoris_te_"), "text_encoder"),
    **dict.fromkeys(("lora_te2_", "text_encoders.clip_g.transformer."), "text_encoder_2"),
    **dict.fromkeys(("lora_te3_", "text_encoders.t5xxl.transformer."), "text_encoder_3"),
}
# what is told of a file, by the first name that fits
DIALECTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("cloneofsimo", r"(unet|text_encoder):\d+:(up|down)"),
        ("LyCORIS", r"lycoris_.+"),
        ("LyCORIS in kohya's names", r"lora_.+\.(hada_|lokr_|diff|w_norm|b_norm|on_input|oft_|dora_scale).*"),
        ("OneTrainer", r"lora_transformer_.+|bundle_emb\..+"),
        ("kohya", r"lora_(unet|te\d?)_.+\.(lora_(down|up|mid)\.weight|alpha)"),
        ("XLabs", r".*_blocks\.\d+\.processor\.(qkv|proj)_lora[12]?\.(down|up)\.weight"),
        ("diffusers before peft", r".+(_lora|\.lora(_linear_layer)?)\.(down|up)\.weight"),
        ("ComfyUI", r"(model\.)?diffusion_model\..+|text_encoders\..+"),
        ("peft", r"base_model\.model\..+|.+\.lora_[AB]\.\w+\.weight"),
        ("diffusers with peft", r"(unet|transformer|text_encoder(_\d)?)\..+\.lora_[AB]\.weight"),
        ("peft without a component", r".+\.lora_[AB]\.weight"),
        ("dotted names with kohya's endings", r".+\.lora_(down|up)\.weight"),
    )
)
# class of a model -> the rows of its weight map: the names that the original files have
ORIGINAL_ROWS: dict[str, Any] = {
    "UNet2DConditionModel": unet_rows,
    "ControlNetModel": controlnet_rows,
    "CLIPTextModel": lambda config: open_clip_rows(config, False),
    "CLIPTextModelWithProjection": lambda config: open_clip_rows(config, True),
    "FluxTransformer2DModel": flux_rows,
    "SD3Transformer2DModel": sd3_rows,
    "WanTransformer3DModel": wan_rows,
    "ZImageTransformer2DModel": z_image_rows,
    "LTXVideoTransformer3DModel": ltx_rows,
}
OLDER = (  # names from the time when attention processors held the LoRA; the first four are XLabs's for FLUX
    (r"double_blocks\.(\d+)\.processor\.(qkv|proj)_lora1$", r"double_blocks.\1.img_attn.\2"),
    (r"double_blocks\.(\d+)\.processor\.(qkv|proj)_lora2$", r"double_blocks.\1.txt_attn.\2"),
    (r"single_blocks\.(\d+)\.processor\.qkv_lora$", r"single_transformer_blocks.\1.attn.to_qkv"),
    (r"single_blocks\.(\d+)\.processor\.proj_lora$", r"single_blocks.\1.linear2"),
    (r"\.self_attn\.to_([qkv]|out)_lora$", r".self_attn.\1_proj"),
    (r"\.processor\.(to_\w+)_lora$", r".\1"),
    (r"\.(to_[qkv]|to_out)_lora$", r".\1"),
    (r"\.to_out$", ".to_out.0"),
)
COUNTED_DENOISER = (
    *[f"attn1.{part}" for part in ("to_q", "to_k", "to_v", "to_out.0")],
    "ff.net.0.proj",
    *[f"attn2.{part}" for part in ("to_q", "to_k", "to_v", "to_out.0")],
)
COUNTED_TEXT = ("k_proj", "v_proj", "q_proj", "out_proj")


def split_name(name: str) -> tuple[str, str] | None:
    """`…to_q.lora_A.weight` -> (`…to_q`, "down"); None for a tensor that belongs to no layer."""
    for pattern, parts in ENDINGS:
        match = pattern.fullmatch(name)
        if match:
            own = f"{match['layer']}.modulation" if name.endswith(".diff_m") else match["layer"]
            return own, parts.get(match["part"], match["part"])
    return None


def dialect_of(names: Iterable[str]) -> str:
    """What a file's way of naming is called."""
    known = list(names)
    return next((name for name, fits in DIALECTS if any(fits.fullmatch(one) for one in known)), "unknown")


@dataclass(frozen=True)
class Piece:
    """A layer of a model that a file's layer changes, and the way from the file's layout to the model's."""

    component: str
    layer: str
    move: Move | None = None
    source: int = 0
    target: int = 0
    is_parameter: bool = False  # no layer with a weight, but a parameter by itself: the modulation of a block

    @property
    def parameter(self) -> str:
        return self.layer if self.is_parameter else f"{self.layer}.weight"


@dataclass(frozen=True)
class Absent:
    """Why a name means nothing here."""

    reason: str


class LayerNames:
    """Finds the layers that a file's name means among the layers of the models."""

    def __init__(
        self, models: Mapping[str, nn.Module], denoiser: str | None = "unet", instead_of: str | None = None
    ) -> None:
        self.models, self.denoiser = models, denoiser
        known = {begin: self._component(name) for begin, name in BEGINNINGS.items()}
        meant = {name: denoiser if denoiser and name == instead_of else name for name in models}
        known |= {f"{name}.": to for name, to in meant.items()} | {f"lora_{name}_": to for name, to in meant.items()}
        self.beginnings = dict(sorted(known.items(), key=lambda pair: -len(pair[0])))
        self._aliases: dict[str, dict[str, list[Piece]]] = {}

    def _component(self, name: str) -> str:
        if name == DENOISER:
            return self.denoiser or DENOISER
        encoders = [one for one in self.models if one.startswith("text_encoder")]
        if name == "text_encoder" and name not in encoders and len(encoders) == 1:
            return encoders[0]  # the only one that there is, as the XL refiner's
        if name == "text_encoder_3" and name not in encoders and "text_encoder_2" in encoders:
            return "text_encoder_2"  # FLUX has T5 second, and trainers call it the third all the same
        return name

    def component_of(self, name: str) -> tuple[str, str]:
        """(component, rest of the name)."""
        name = name.removeprefix("base_model.model.")
        owner, colon, _ = name.partition(":")
        if colon:
            return self._component(DENOISER if owner == "unet" else owner), name
        for begin, component in self.beginnings.items():
            if name.startswith(begin):
                return component, name.removeprefix(begin).removeprefix("base_model.model.")
        return self._component(DENOISER), name

    def find(self, name: str) -> list[Piece] | Absent:
        """The layers of models that a name means, or why it means none."""
        component, rest = self.component_of(name)
        if component not in self.models:
            return Absent(f"this pipeline has no {component}")
        if ":" in name:
            number, counted = int(rest.partition(":")[2]), self._counted(component)
            if number < len(counted):
                return [Piece(component, counted[number])]
        else:
            aliases = self.aliases(component)
            for spelled in (rest, older_name(rest)):
                if spelled in aliases:
                    return aliases[spelled]
        return Absent(f"{component} has no such layer")

    def aliases(self, component: str) -> dict[str, list[Piece]]:
        """Every name that a layer of a model goes by -> the layers that it means."""
        if component not in self._aliases:
            model = self.models[component]
            layers = changeable_layers(model)
            found = {layer: [Piece(component, layer)] for layer in layers}
            found |= {name: [Piece(component, name, is_parameter=True)] for name in lone_parameters(model)}
            for theirs, pieces in (*_fused(component, model, layers), *_original(component, model, layers)):
                found.setdefault(theirs, pieces)
            for layer in layers:  # transformers 5 writes a CLIP text encoder without its outer module
                found.setdefault(layer.removeprefix("text_model."), [Piece(component, layer)])
            flat = {name.replace(".", "_"): pieces for name, pieces in reversed(found.items())}
            self._aliases[component] = {**flat, **found}
        return self._aliases[component]

    def _counted(self, component: str) -> list[str]:
        kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
        layers = [name for name, layer in self.models[component].named_modules() if isinstance(layer, kinds)]
        return counted_layers(layers, component == self.denoiser)


def changeable_layers(model: nn.Module) -> list[str]:
    """The layers that have a weight: matrices, convolutions, norms."""
    return [name for name, layer in model.named_modules() if isinstance(getattr(layer, "weight", None), nn.Parameter)]


def lone_parameters(model: nn.Module) -> list[str]:
    """The parameters that are no layer's weight or bias."""
    return [name for name, _ in model.named_parameters() if not name.endswith((".weight", ".bias"))]


def older_name(name: str) -> str:
    """A name from before peft as it is now."""
    for pattern, now in OLDER:
        name = re.sub(pattern, now, name)
    return name


def counted_layers(layers: Iterable[str], of_denoiser: bool) -> list[str]:
    """The order in which cloneofsimo's files count: the UNet's middle comes last, and gates before cross-attention."""
    ends = COUNTED_DENOISER if of_denoiser else COUNTED_TEXT
    wanted = [name for name in layers if name.endswith(tuple(f".{end}" for end in ends))]
    if not of_denoiser:
        return _ordered([name for name in wanted if ".self_attn." in name], ends)
    outer = [name for name in wanted if not name.startswith("mid_block")]
    return _ordered(outer, ends) + _ordered([name for name in wanted if name.startswith("mid_block")], ends)


def _ordered(names: list[str], ends: tuple[str, ...]) -> list[str]:
    """Blocks in the order of the model, and within each its layers in the order of `ends`."""
    places: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        rank = next(rank for rank, end in enumerate(ends) if name.endswith(f".{end}"))
        places.setdefault(name.removesuffix(ends[rank]), []).append((rank, name))
    return [name for block in places.values() for _, name in sorted(block)]


# ---- names that other layouts have ----


def _original(component: str, model: nn.Module, layers: Iterable[str]) -> Iterator[tuple[str, list[Piece]]]:
    """The names of the original files, by the weight map read backwards."""
    rows = next((ORIGINAL_ROWS[base.__name__] for base in type(model).__mro__ if base.__name__ in ORIGINAL_ROWS), None)
    if rows is None:
        return
    table = WeightMap(rows(getattr(model, "config", {})), type(model).__name__)
    for name in lone_parameters(model):
        alone = table.find(name, backwards=True)
        if alone is not None and not alone.operations:
            yield alone.targets[0], [Piece(component, name, is_parameter=True)]
    there = set(layers)
    for layer in layers:
        back = table.find(f"{layer}.weight", backwards=True)
        if back is None or not {_layer(name) for name in back.sources} <= there:
            continue
        forth = Move(back.targets, back.sources, back.operations) if back.operations else None
        for source, theirs in enumerate(back.targets):
            yield (
                _layer(theirs),
                [Piece(component, _layer(ours), forth, source, target) for target, ours in enumerate(back.sources)],
            )


def _layer(parameter: str) -> str:
    return parameter.removesuffix("weight").rstrip("._")


def _fused(component: str, model: nn.Module, layers: Iterable[str]) -> Iterator[tuple[str, list[Piece]]]:
    """Layers that other files keep as one, or in parts, as the model says in `fused_layers`."""
    there = set(layers)
    for whole, parts in getattr(model, "fused_layers", ()):
        inside = {filled for layer in there for one in (whole, *parts) if (filled := _filling(one, layer)) is not None}
        for text in sorted(inside):
            one, several = whole.replace("{}", text), tuple(part.replace("{}", text) for part in parts)
            if one in there:
                join = Move(several, (one,), operations.parse("join"))
                yield from ((part, [Piece(component, one, join, k)]) for k, part in enumerate(several))
            elif set(several) <= there:
                rows = (str(model.get_parameter(f"{part}.weight").shape[0]) for part in several)
                split = Move((one,), several, operations.parse(f"split {' '.join(rows)}"))
                yield one, [Piece(component, part, split, 0, k) for k, part in enumerate(several)]


def _filling(pattern: str, name: str) -> str | None:
    """What `{}` stands for in a pattern that a name fits."""
    before, _, after = pattern.partition("{}")
    fits = name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after)
    return name[len(before) : len(name) - len(after)] if fits else None


def unread_reason(name: str) -> str:
    """Why a tensor is no part of anything that is read."""
    if name.startswith(("<", "bundle_emb.")):
        return "a word of a textual inversion"
    return next((reason for mark, reason in UNREAD.items() if mark in name), "no part of a LoRA")


def part_sizes(piece: Piece, total: int, mine: int, beside: Mapping[int, int]) -> tuple[int, ...]:
    """How many rows each part has of a layer that the model has as one: equal ones, or as the file's parts say."""
    assert piece.move is not None
    count = len(piece.move.sources)
    if mine * count == total:
        return (mine,) * count
    if set(range(piece.source)) <= set(beside):
        known = [beside.get(k, 0) for k in range(count)]
        missing = [k for k in range(count) if k not in beside]
        if len(missing) == 1:
            known[missing[0]] = total - sum(known)
        if sum(known) == total and all(size > 0 for size in known):
            return tuple(known)
    raise WeightsError(
        f"it is part {piece.source + 1} of {count} of {piece.layer!r}, and where it begins follows from the other "
        "parts, which the file does not have"
    )
