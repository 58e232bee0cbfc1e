"""The names of Black Forest Labs' own files for FLUX's tensors: rows of a weight map.

There queries, keys and values are one matrix, in the single blocks with the feed-forward's first one below them, and
the last modulation has the shift before the scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row

EMBEDDINGS = {"time_in": "timestep_embedder", "vector_in": "text_embedder", "guidance_in": "guidance_embedder"}
STREAMS = {  # of a double block: modulation, projections, their norms, output, feed-forward
    "img": ("norm1", ("to_q", "to_k", "to_v"), ("norm_q", "norm_k"), "to_out.0", "ff"),
    "txt": ("norm1_context", ("add_q_proj", "add_k_proj", "add_v_proj"), ("norm_added_q", "norm_added_k"),
            "to_add_out", "ff_context"),
}  # fmt: skip
NORMS = ("query_norm", "key_norm")


def flux_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a transformer of this config."""
    return [*ends(config), *double_blocks(), *single_blocks()]


def ends(config: Mapping[str, Any]) -> Iterator[Row]:
    yield "img_in.{}", "x_embedder.{}"
    yield "txt_in.{}", "context_embedder.{}"
    for theirs, ours in EMBEDDINGS.items():
        if theirs != "guidance_in" or config["guidance_embeds"]:
            yield f"{theirs}.in_layer.{{}}", f"time_text_embed.{ours}.linear_1.{{}}"
            yield f"{theirs}.out_layer.{{}}", f"time_text_embed.{ours}.linear_2.{{}}"
    yield "final_layer.adaLN_modulation.1.{}", "norm_out.linear.{}", "swap_scale_shift"
    yield "final_layer.linear.{}", "proj_out.{}"


def double_blocks() -> Iterator[Row]:
    for stream, (modulation, projections, norms, out, feed_forward) in STREAMS.items():
        theirs, ours = f"double_blocks.{{i}}.{stream}", "transformer_blocks.{i}"
        yield f"{theirs}_mod.lin.{{}}", f"{ours}.{modulation}.linear.{{}}"
        yield f"{theirs}_attn.qkv.{{}}", tuple(f"{ours}.attn.{name}.{{}}" for name in projections), "split"
        for original, name in zip(NORMS, norms, strict=True):
            yield f"{theirs}_attn.norm.{original}.scale", f"{ours}.attn.{name}.weight"
        yield f"{theirs}_attn.proj.{{}}", f"{ours}.attn.{out}.{{}}"
        yield f"{theirs}_mlp.0.{{}}", f"{ours}.{feed_forward}.net.0.proj.{{}}"
        yield f"{theirs}_mlp.2.{{}}", f"{ours}.{feed_forward}.net.2.{{}}"


def single_blocks() -> Iterator[Row]:
    theirs, ours = "single_blocks.{i}", "single_transformer_blocks.{i}"
    parts = ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")
    yield f"{theirs}.modulation.lin.{{}}", f"{ours}.norm.linear.{{}}"
    yield f"{theirs}.linear1.{{}}", tuple(f"{ours}.{part}.{{}}" for part in parts), "split 1 1 1 4"
    yield f"{theirs}.linear2.{{}}", f"{ours}.proj_out.{{}}"
    for original, name in zip(NORMS, ("norm_q", "norm_k"), strict=True):
        yield f"{theirs}.norm.{original}.scale", f"{ours}.attn.{name}.weight"
