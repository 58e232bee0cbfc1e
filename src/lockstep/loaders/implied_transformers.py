"""The configs that the shapes of transformers imply, in the layouts of their makers and in the published one."""

from __future__ import annotations

import math
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
