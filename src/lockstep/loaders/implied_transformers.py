"""The configs that the shapes of transformers imply, in the layouts of their makers and in the published one."""

from __future__ import annotations

import math
import re
from typing import Any

from .implied import Shapes, numbers

# what tells a value: the names in the makers' layout, and in the published one
FLUX_NAMES = {
    "original": {
        "x": "img_in.weight",
        "text": "txt_in.weight",
        "pooled": "vector_in.in_layer.weight",
        "out": "final_layer.linear.weight",
        "norm": "single_blocks.0.norm.query_norm.scale",
        "guidance": "guidance_in.in_layer.weight",
        "double": "double_blocks",
        "single": "single_blocks",
    },
    "published": {
        "x": "x_embedder.weight",
        "text": "context_embedder.weight",
        "out": "proj_out.weight",
        "pooled": "time_text_embed.text_embedder.linear_1.weight",
        "norm": "single_transformer_blocks.0.attn.norm_q.weight",
        "guidance": "time_text_embed.guidance_embedder.linear_1.weight",
        "double": "transformer_blocks",
        "single": "single_transformer_blocks",
    },
}
SD3_NAMES = {
    "original": {
        "x": "x_embedder.proj.weight",
        "text": "context_embedder.weight",
        "pooled": "y_embedder.mlp.0.weight",
        "out": "final_layer.linear.weight",
        "norm": "joint_blocks.0.x_block.attn.ln_q.weight",
        "positions": "pos_embed",
        "blocks": "joint_blocks",
        "dual": "x_block.attn2.qkv.weight",
    },
    "published": {
        "x": "pos_embed.proj.weight",
        "text": "context_embedder.weight",
        "out": "proj_out.weight",
        "pooled": "time_text_embed.text_embedder.linear_1.weight",
        "positions": "pos_embed.pos_embed",
        "norm": "transformer_blocks.0.attn.norm_q.weight",
        "blocks": "transformer_blocks",
        "dual": "attn2.to_q.weight",
    },
}
HEAD_WIDTH = 64  # of Stable Diffusion 3 before 3.5, whose heads have no norm that tells


def flux_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of a FLUX transformer."""
    names = FLUX_NAMES[layout]
    width, read = shapes[names["x"]]
    head, made = shapes[names["norm"]][0], shapes[names["out"]][0]
    return {
        "in_channels": read,
        "out_channels": None if made == read else made,
        "num_layers": len(numbers(shapes, rf"{names['double']}\.(\d+)\.")),
        "num_single_layers": len(numbers(shapes, rf"{names['single']}\.(\d+)\.")),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes[names["text"]][1],
        "pooled_projection_dim": shapes[names["pooled"]][1],
        "guidance_embeds": names["guidance"] in shapes,
    }


def sd3_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of a transformer of Stable Diffusion 3."""
    names = SD3_NAMES[layout]
    width, read, patch, _ = shapes[names["x"]]
    head = shapes.get(names["norm"], (HEAD_WIDTH,))[0]
    heads = {"attention_head_dim": head, "num_attention_heads": width // head} if width % head == 0 else {}
    blocks = numbers(shapes, rf"{names['blocks']}\.(\d+)\.")
    return {
        "patch_size": patch,
        "in_channels": read,
        "out_channels": shapes[names["out"]][0] // patch**2,
        "num_layers": len(blocks),
        **heads,
        "joint_attention_dim": shapes[names["text"]][1],
        "caption_projection_dim": width,
        "pooled_projection_dim": shapes[names["pooled"]][1],
        "pos_embed_max_size": math.isqrt(shapes[names["positions"]][1]),
        "dual_attention_layers": tuple(b for b in blocks if f"{names['blocks']}.{b}.{names['dual']}" in shapes),
        "qk_norm": "rms_norm" if names["norm"] in shapes else None,
    }


WAN_NAMES = {
    "original": {
        "text": "text_embedding.0.weight",
        "time": "time_embedding.0.weight",
        "ffn": "blocks.0.ffn.0.weight",
        "out": "head.head.weight",
        "image": "img_emb.proj.1.weight",
        "keys": "blocks.0.cross_attn.k_img.weight",
        "positions": "img_emb.emb_pos",
        "norm": "blocks.0.norm3.weight",
    },
    "published": {
        "text": "condition_embedder.text_embedder.linear_1.weight",
        "time": "condition_embedder.time_embedder.linear_1.weight",
        "ffn": "blocks.0.ffn.net.0.proj.weight",
        "out": "proj_out.weight",
        "image": "condition_embedder.image_embedder.ff.net.0.proj.weight",
        "keys": "blocks.0.attn2.add_k_proj.weight",
        "positions": "condition_embedder.image_embedder.pos_embed",
        "norm": "blocks.0.norm2.weight",
    },
}
WAN_HEAD_WIDTH = 128  # of every published one; no tensor tells


def wan_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of a Wan transformer."""
    names = WAN_NAMES[layout]
    width, read, *patch = shapes["patch_embedding.weight"]
    heads = {}
    if width % WAN_HEAD_WIDTH == 0:
        heads = {"attention_head_dim": WAN_HEAD_WIDTH, "num_attention_heads": width // WAN_HEAD_WIDTH}
    return {
        **heads,
        "in_channels": read,
        "out_channels": shapes[names["out"]][0] // math.prod(patch),
        "patch_size": tuple(patch),
        "text_dim": shapes[names["text"]][1],
        "freq_dim": shapes[names["time"]][1],
        "ffn_dim": shapes[names["ffn"]][0],
        "num_layers": len(numbers(shapes, r"blocks\.(\d+)\.")),
        "cross_attn_norm": names["norm"] in shapes,
        "image_dim": shapes[names["image"]][1] if names["image"] in shapes else None,
        "added_kv_proj_dim": shapes[names["keys"]][1] if names["keys"] in shapes else None,
        "pos_embed_seq_len": shapes[names["positions"]][1] if names["positions"] in shapes else None,
    }


def wan_autoencoder_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of Wan's autoencoder: stages end with a sampler, and those that halve time have a convolution for it."""
    original = layout == "original"
    inner, latents = ("conv1", "conv2") if original else ("conv_in", "post_quant_conv")
    out = shapes["decoder.head.2.weight" if original else "decoder.conv_out.weight"]
    start = "encoder.downsamples" if original else "encoder.down_blocks"
    convolution = "residual.2.weight" if original else "conv1.weight"
    residual = any(re.match(rf"{start}\.\d+\.(downsamples|resnets)\.", name) for name in shapes)
    stages = _grouped_stages(shapes, start) if residual else _counted_stages(shapes, start)
    base, pixels = shapes[f"encoder.{inner}.weight"][:2]
    widths = [next(shapes[f"{place}.{convolution}"][0] for place in stage) for stage, _ in stages]
    sizes: dict[str, Any] = {
        "base_dim": base,
        "z_dim": shapes[f"{latents}.weight"][0],
        "dim_mult": [width // base for width in widths],
        "num_res_blocks": len(stages[0][0]),
        "temperal_downsample": [in_time for _, in_time in stages[:-1]],
        "is_residual": residual,
        "in_channels": pixels,
        "out_channels": out[0],
    }
    if pixels != 3:
        sizes |= {"patch_size": math.isqrt(pixels // 3), "scale_factor_spatial": 8 * math.isqrt(pixels // 3)}
    return sizes | ({"decoder_base_dim": out[1]} if residual or out[1] != base else {})


Stage = tuple[list[str], bool]  # the places of its residual blocks, and whether its sampler halves time


def _counted_stages(shapes: Shapes, start: str) -> list[Stage]:
    stages: list[Stage] = [([], False)]
    for number in numbers(shapes, rf"{re.escape(start)}\.(\d+)\."):
        place = f"{start}.{number}"
        if f"{place}.resample.1.weight" in shapes:
            stages[-1] = (stages[-1][0], f"{place}.time_conv.weight" in shapes)
            stages.append(([], False))
        else:
            stages[-1][0].append(place)
    return stages


def _grouped_stages(shapes: Shapes, start: str) -> list[Stage]:
    stages: list[Stage] = []
    for number in numbers(shapes, rf"{re.escape(start)}\.(\d+)\."):
        inside = next(part for part in ("downsamples", "resnets") if _has(shapes, f"{start}.{number}.{part}."))
        layers = numbers(shapes, rf"{re.escape(start)}\.{number}\.{inside}\.(\d+)\.(?:residual|conv1|norm1)")
        in_time = any(name.startswith(f"{start}.{number}.") and ".time_conv." in name for name in shapes)
        stages.append(([f"{start}.{number}.{inside}.{layer}" for layer in layers], in_time))
    return stages


def _has(shapes: Shapes, start: str) -> bool:
    return any(name.startswith(start) for name in shapes)


T5_NAMES = {
    "published": {
        "words": ("shared.weight", "encoder.embed_tokens.weight"),
        "bias": "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "query": "encoder.block.0.layer.0.SelfAttention.q.weight",
        "gated": "encoder.block.0.layer.1.DenseReluDense.wi_0.weight",
        "plain": "encoder.block.0.layer.1.DenseReluDense.wi.weight",
        "layers": r"encoder\.block\.(\d+)\.",
    },
    "llama": {
        "words": ("token_embd.weight",),
        "bias": "enc.blk.0.attn_rel_b.weight",
        "query": "enc.blk.0.attn_q.weight",
        "gated": "enc.blk.0.ffn_gate.weight",
        "plain": "enc.blk.0.ffn_up.weight",
        "layers": r"enc\.blk\.(\d+)\.",
    },
}


def t5_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of a T5 or UMT5 encoder."""
    names: Any = T5_NAMES[layout]
    vocabulary, width = next(shapes[name] for name in names["words"] if name in shapes)
    buckets, heads = shapes[names["bias"]]
    gated = names["gated"] in shapes
    return {
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": shapes[names["query"]][0] // heads,
        "num_heads": heads,
        "relative_attention_num_buckets": buckets,
        "d_ff": shapes[names["gated" if gated else "plain"]][0],
        "num_layers": len(numbers(shapes, names["layers"])),
        "feed_forward_proj": "gated-gelu" if gated else "relu",
    }


Z_IMAGE_NAMES = {
    "original": {"x": "x_embedder.weight", "norm": "layers.0.attention.q_norm.weight"},
    "published": {"x": "all_x_embedder.2-1.weight", "norm": "layers.0.attention.norm_q.weight"},
}


def z_image_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of a Z-Image transformer, whose tokens are squares of two latents a side."""
    names = Z_IMAGE_NAMES[layout]
    width, square = shapes[names["x"]]
    head = shapes[names["norm"]][0]
    if "layers.0.adaLN_modulation.0.weight" not in shapes:
        raise KeyError("Lumina 2, its next of kin, has another layer there")
    return {
        "in_channels": square // 4,
        "dim": width,
        "n_layers": len(numbers(shapes, r"^layers\.(\d+)\.")),
        "n_refiner_layers": len(numbers(shapes, r"noise_refiner\.(\d+)\.")),
        "n_heads": width // head,
        "n_kv_heads": width // head,
        "cap_feat_dim": shapes["cap_embedder.1.weight"][1],
    }


QWEN3_NAMES = {
    "published": {
        "words": "embed_tokens.weight",
        "norm": "layers.0.self_attn.q_norm.weight",
        "query": "layers.0.self_attn.q_proj.weight",
        "key": "layers.0.self_attn.k_proj.weight",
        "gate": "layers.0.mlp.gate_proj.weight",
        "layers": r"layers\.(\d+)\.",
    },
    "llama": {
        "words": "token_embd.weight",
        "norm": "blk.0.attn_q_norm.weight",
        "query": "blk.0.attn_q.weight",
        "key": "blk.0.attn_k.weight",
        "gate": "blk.0.ffn_gate.weight",
        "layers": r"blk\.(\d+)\.",
    },
}
GEMMAS = ("post_feedforward_layernorm.weight", "post_ffw_norm.weight")  # which have a norm of queries, too


def qwen3_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of Qwen3; names may stand under `model.`, as in files of the whole model."""
    if any(name.endswith(GEMMAS) for name in shapes):
        raise KeyError("a relative")
    names, bare = QWEN3_NAMES[layout], {name.removeprefix("model."): shape for name, shape in shapes.items()}
    vocabulary, width = bare[names["words"]]
    head = bare[names["norm"]][0]
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": bare[names["gate"]][0],
        "num_hidden_layers": len(numbers(bare, names["layers"])),
        "num_attention_heads": bare[names["query"]][0] // head,
        "num_key_value_heads": bare[names["key"]][0] // head,
        "head_dim": head,
    }


def qwen_image_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of Qwen-Image's transformer, whose tokens are squares of two latents a side."""
    width, channels = shapes["img_in.weight"]
    head = shapes["transformer_blocks.0.attn.norm_q.weight"][0]
    return {
        "in_channels": channels,
        "out_channels": shapes["proj_out.weight"][0] // 4,
        "num_layers": len(numbers(shapes, r"transformer_blocks\.(\d+)\.")),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": shapes["txt_in.weight"][1],
        "zero_cond_t": "__index_timestep_zero__" in shapes,
    }


def qwen2_5_vl_config(shapes: Shapes, layout: str) -> dict[str, Any]:
    """Sizes of Qwen2.5-VL, by its older names or the newer ones; how many heads there are, no tensor tells."""
    bare = {re.sub(r"^model\.((language_model|visual)\.)?|^visual\.", _part_of_tower, name): shape
            for name, shape in shapes.items()}  # fmt: skip
    vocabulary, width = bare["embed_tokens.weight"]
    tower, channels, frames, side, _ = bare["visual.patch_embed.proj.weight"]
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": bare["layers.0.mlp.gate_proj.weight"][0],
        "num_hidden_layers": len(numbers(bare, r"^layers\.(\d+)\.")),
        "vision_config": {
            "hidden_size": tower,
            "in_channels": channels,
            "temporal_patch_size": frames,
            "patch_size": side,
            "depth": len(numbers(bare, r"^visual\.blocks\.(\d+)\.")),
            "intermediate_size": bare["visual.blocks.0.mlp.gate_proj.weight"][0],
            "out_hidden_size": bare["visual.merger.mlp.2.weight"][0],
            "spatial_merge_size": math.isqrt(bare["visual.merger.mlp.0.weight"][1] // tower),
        },
    }


def _part_of_tower(found: re.Match[str]) -> str:
    return "visual." if "visual" in found[0] else ""
