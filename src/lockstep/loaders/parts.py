"""The parts of a checkpoint file: which names belong to a UNet, a VAE, a text encoder, under whatever prefix they
stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import implied, implied_ltx_video, implied_transformers
from .tell_tales import BUFFERS, EMA, OTHER_PARTS

Shapes = Mapping[str, tuple[int, ...]]
ReadConfig = Callable[[Shapes, str], dict[str, Any]]


@dataclass(frozen=True)
class PartKind:
    """A part that files are searched for: the name that gives it away, and how its config is read off the shapes."""

    kind: str
    layout: str
    anchor: str
    config: ReadConfig
    outside: str = ""  # a prefix that ends so (a pattern) belongs to something else
    stem: str = ""  # what of the anchor's own path still belongs to the prefix where it is there


def either(kind: str, original: str, published: str, config: ReadConfig) -> tuple[PartKind, PartKind]:
    """A model in the layout of its makers and in the published one, each with the name that gives it away."""
    return PartKind(kind, "original", original, config), PartKind(kind, "published", published, config)


T5_BLOCK = "encoder.block.{}.layer.0.SelfAttention"
KINDS = (
    *either(
        "t2i_adapter",
        "body.0.body.0.block1.weight",
        "adapter.body.0.resnets.0.block1.weight",
        implied.t2i_adapter_config,
    ),
    PartKind("t2i_adapter", "original", "body.0.block1.weight", implied.t2i_adapter_config, r"body\.\d+\.$"),
    *either(
        "controlnet", "input_hint_block.0.weight", "controlnet_cond_embedding.conv_in.weight", implied.controlnet_config
    ),
    *either("unet", "input_blocks.0.0.weight", "down_blocks.0.resnets.0.time_emb_proj.weight", implied.unet_config),
    *either(
        "flux",
        "double_blocks.0.img_attn.norm.key_norm.scale",
        "single_transformer_blocks.0.proj_mlp.weight",
        implied_transformers.flux_config,
    ),
    *either(
        "sd3", "joint_blocks.0.context_block.attn.qkv.weight", "pos_embed.pos_embed", implied_transformers.sd3_config
    ),
    *either(
        "wan",
        "blocks.0.self_attn.norm_q.weight",
        "condition_embedder.time_proj.weight",
        implied_transformers.wan_config,
    ),
    *either(
        "z_image",
        "layers.0.attention.qkv.weight",
        "layers.0.attention.to_q.weight",
        implied_transformers.z_image_config,
    ),
    PartKind(
        "qwen_image", "published", "transformer_blocks.0.img_mod.1.weight", implied_transformers.qwen_image_config
    ),
    *either("ltx", "patchify_proj.weight", "transformer_blocks.0.attn1.norm_q.weight", implied_ltx_video.ltx_config),
    *either(
        "ltx_vae",
        "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight",
        "decoder.mid_block.resnets.0.conv1.conv.weight",
        implied_ltx_video.ltx_autoencoder_config,
    ),
    *either(
        "wan_vae",
        "decoder.middle.0.residual.0.gamma",
        "decoder.mid_block.resnets.0.norm1.gamma",
        implied_transformers.wan_autoencoder_config,
    ),
    PartKind(
        "umt5", "published", f"{T5_BLOCK.format(1)}.relative_attention_bias.weight", implied_transformers.t5_config
    ),
    PartKind("t5", "published", f"{T5_BLOCK.format(0)}.q.weight", implied_transformers.t5_config),
    PartKind("umt5", "llama", "enc.blk.1.attn_rel_b.weight", implied_transformers.t5_config),
    PartKind("t5", "llama", "enc.blk.0.attn_q.weight", implied_transformers.t5_config),
    PartKind(
        "qwen3",
        "published",
        "layers.0.self_attn.q_norm.weight",
        implied_transformers.qwen3_config,
        outside=r"language_model\.$",
        stem="model.",
    ),
    PartKind("qwen3", "llama", "blk.0.attn_q_norm.weight", implied_transformers.qwen3_config),
    PartKind("qwen2_5_vl", "published", "model.visual.patch_embed.proj.weight", implied_transformers.qwen2_5_vl_config),
    PartKind(
        "qwen2_5_vl",
        "original",
        "visual.patch_embed.proj.weight",
        implied_transformers.qwen2_5_vl_config,
        outside=r"model\.$",
    ),
    *either(
        "vae",
        "decoder.mid.block_1.conv1.weight",
        "decoder.mid_block.resnets.0.conv1.weight",
        implied.autoencoder_config,
    ),
    PartKind("text", "open_clip", "transformer.resblocks.0.attn.in_proj_weight", implied.text_config),
    PartKind("text", "clip", "embeddings.token_embedding.weight", implied.text_config, stem="text_model."),
)
TITLES = {
    "unet": "UNet",
    "controlnet": "ControlNet",
    "vae": "VAE",
    "text": "text encoder",
    "tiny": "tiny autoencoder",
    "t2i_adapter": "T2I-Adapter",
    "flux": "FLUX transformer",
    "sd3": "Stable Diffusion 3 transformer",
    "wan": "Wan transformer",
    "wan_vae": "Wan autoencoder",
    "t5": "T5 text encoder",
    "umt5": "UMT5 text encoder",
    "z_image": "Z-Image transformer",
    "qwen3": "Qwen3 text encoder",
    "ltx": "LTX-Video transformer",
    "ltx_vae": "LTX-Video autoencoder",
    "qwen_image": "Qwen-Image transformer",
    "qwen2_5_vl": "Qwen2.5-VL text encoder",
}
ROLES = {  # what a pipeline calls a part; itself where nothing stands here
    **dict.fromkeys(("flux", "sd3", "wan", "z_image", "ltx", "qwen_image"), "transformer"),
    **dict.fromkeys(("wan_vae", "ltx_vae"), "vae"),
    **dict.fromkeys(("text", "t5", "umt5", "qwen3", "qwen2_5_vl"), "text_encoder"),
}
DENOISERS = ("unet", "transformer")
# parts whose names are told by clues that other families have, too: what the shapes do not bear out is none of them
TRANSFORMERS = (
    *("flux", "sd3", "wan", "z_image", "ltx", "qwen_image"),
    *("wan_vae", "ltx_vae", "t5", "umt5", "qwen3", "qwen2_5_vl"),
)


@dataclass
class Part:
    """One model inside a file."""

    kind: str
    layout: str
    prefix: str
    shapes: dict[str, tuple[int, ...]]  # under the names that it has without the prefix
    config: dict[str, Any] = field(default_factory=dict)
    gaps: list[str] = field(default_factory=list)  # what a whole one would have

    @property
    def role(self) -> str:
        """What a pipeline calls it, without a number."""
        return ROLES.get(self.kind, self.kind)

    @property
    def title(self) -> str:
        where = f" under {self.prefix!r}" if self.prefix else ""
        return f"{TITLES[self.kind]} in the {self.layout.replace('_', '')} layout{where}"

    def names(self) -> dict[str, str]:
        """Name without the prefix -> name in the file."""
        return {name: self.prefix + name for name in self.shapes}


def find_parts(shapes: Shapes) -> list[Part]:
    """Every part of a file, and each name in one part at most."""
    found: dict[str, PartKind] = {}
    for kind in KINDS:
        for name in (name for name in shapes if name.endswith(kind.anchor)):
            prefix = name[: len(name) - len(kind.anchor)]
            if prefix and (not prefix.endswith(".") or (kind.outside and re.search(kind.outside, prefix))):
                continue
            prefix = prefix.removesuffix(kind.stem) if kind.stem else prefix
            if "visual." not in prefix and "vision_model." not in prefix:
                found.setdefault(prefix, kind)
    owners = {name: _owner(name, found) for name in shapes}
    parts = []
    for prefix, kind in found.items():
        own = {name.removeprefix(prefix): shapes[name] for name, owner in owners.items() if owner == prefix}
        part = Part(kind.kind, kind.layout, prefix, own)
        try:
            part.config = kind.config(own, kind.layout)
        except (KeyError, ValueError, IndexError):
            if kind.kind not in TRANSFORMERS:
                raise
            continue  # a relative that has the same name for one tensor
        part.gaps = find_gaps(part)
        parts.append(part)
    return parts + find_tiny(shapes)


def _owner(name: str, prefixes: Mapping[str, PartKind]) -> str | None:
    """The longest prefix of a part that a name has; what is known to belong to no part goes to none of bare names."""
    best = max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default=None)
    if best == "" and (name in BUFFERS or name.startswith((EMA, *OTHER_PARTS))):
        return None
    return best


def find_gaps(part: Part) -> list[str]:
    """What a whole part would have and this one has not."""
    shapes = part.shapes
    wanted: list[str] = []
    if part.layout == "original" and part.kind in ("unet", "controlnet"):
        count = (implied.numbers(shapes, r"input_blocks\.(\d+)\.") or [0])[-1] + 1
        wanted = ["time_embed.0.", "time_embed.2.", "middle_block.0.", "middle_block.2."]
        wanted += [f"input_blocks.{number}." for number in range(count)]
        if part.kind == "unet":
            wanted += [*(f"output_blocks.{number}." for number in range(count)), "out.0.", "out.2."]
        else:
            wanted += [*(f"zero_convs.{number}." for number in range(count)), "middle_block_out."]
    elif part.kind in ("unet", "controlnet"):
        levels = len(part.config.get("block_out_channels", ()))
        wanted = ["conv_in.", "time_embedding.linear_1.", "mid_block.resnets.0.", "mid_block.resnets.1."]
        if part.kind == "unet":
            wanted += [*(f"up_blocks.{level}." for level in range(levels)), "conv_out."]
    elif part.kind == "t2i_adapter":
        start = "adapter." if part.layout == "published" else ""
        light = part.config["adapter_type"] == "light_adapter"
        wanted = [] if light else [f"{start}conv_in."]
    elif part.kind == "vae":
        wanted = ["encoder.conv_in.", "encoder.conv_out.", "decoder.conv_in.", "decoder.conv_out."]
    elif part.layout == "open_clip":
        wanted = ["token_embedding.", "positional_embedding", "ln_final."]
    elif part.kind == "text":
        start = "text_model." if any(name.startswith("text_model.") for name in shapes) else ""
        wanted = [f"{start}embeddings.position_embedding.", f"{start}encoder.layers.0.", f"{start}final_layer_norm."]
    return [name for name in wanted if not any(one.startswith(name) for one in shapes)]


def find_tiny(shapes: Shapes) -> list[Part]:
    """The tiny autoencoder: published layout, ComfyUI's two prefixes in one file, or one standalone half."""
    for encoder, decoder in (("taesd_encoder.", "taesd_decoder."), ("encoder.layers.", "decoder.layers.")):
        halves = [{n.removeprefix(p): s for n, s in shapes.items() if n.startswith(p)} for p in (encoder, decoder)]
        if all(_is_tiny(half) for half in halves):
            layout = "published" if encoder == "encoder.layers." else "original"
            both = {name: shape for name, shape in shapes.items() if name.startswith((encoder, decoder))}
            return [Part("tiny", layout, "", both, implied.tiny_config(*halves))]
    if _is_tiny(shapes):
        first = min(implied.tiny_layers(shapes))
        half = "decoder" if first == 0 else "encoder"
        return [Part("tiny", "original", "", dict(shapes), {}, [f"{half} (that is a file of its own)"])]
    return []


def _is_tiny(shapes: Shapes) -> bool:
    numbered = all(name.split(".")[0].isdigit() for name in shapes)
    if not shapes or not numbered:
        return False
    first = shapes.get(f"{min(implied.tiny_layers(shapes))}.weight", ())
    return len(first) == 4 and first[2:] == (3, 3) and any(".conv.4." in name for name in shapes)
