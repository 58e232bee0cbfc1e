"""The names of Stability AI's own files for the tensors of Stable Diffusion 3: rows of a weight map.

There queries, keys and values are one matrix, and modulations that have no gates the shift before the scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row

PICTURE, TEXT = ("to_q", "to_k", "to_v"), ("add_q_proj", "add_k_proj", "add_v_proj")


def sd3_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a transformer of this config."""
    last = config["num_layers"] - 1
    blocks = [row for index in range(last + 1) for row in block(index, index == last)]
    return [*ends(), *blocks]


def ends() -> Iterator[Row]:
    yield "pos_embed", "pos_embed.pos_embed"
    yield "x_embedder.proj.{}", "pos_embed.proj.{}"
    for theirs, ours in (("t_embedder", "timestep_embedder"), ("y_embedder", "text_embedder")):
        yield f"{theirs}.mlp.0.{{}}", f"time_text_embed.{ours}.linear_1.{{}}"
        yield f"{theirs}.mlp.2.{{}}", f"time_text_embed.{ours}.linear_2.{{}}"
    yield "context_embedder.{}", "context_embedder.{}"
    yield "final_layer.adaLN_modulation.1.{}", "norm_out.linear.{}", "swap_scale_shift"
    yield "final_layer.linear.{}", "proj_out.{}"


def block(index: int, last: bool) -> Iterator[Row]:
    """The text of the last block is only read: its modulation has a scale and a shift, and nothing follows."""
    theirs, ours = f"joint_blocks.{index}", f"transformer_blocks.{index}"
    yield f"{theirs}.x_block.adaLN_modulation.1.{{}}", f"{ours}.norm1.linear.{{}}"
    yield from attention(f"{theirs}.x_block.attn", f"{ours}.attn", PICTURE, ("norm_q", "norm_k"), "to_out.0")
    yield from attention(f"{theirs}.x_block.attn2", f"{ours}.attn2", PICTURE, ("norm_q", "norm_k"), "to_out.0")
    yield from feed_forward(f"{theirs}.x_block", f"{ours}.ff")
    order = "swap_scale_shift" if last else "keep"
    yield f"{theirs}.context_block.adaLN_modulation.1.{{}}", f"{ours}.norm1_context.linear.{{}}", order
    norms = ("norm_added_q", "norm_added_k")
    yield from attention(f"{theirs}.context_block.attn", f"{ours}.attn", TEXT, norms, "to_add_out")
    yield from feed_forward(f"{theirs}.context_block", f"{ours}.ff_context")


def attention(theirs: str, ours: str, projections: tuple[str, ...], norms: tuple[str, str], out: str) -> Iterator[Row]:
    yield f"{theirs}.qkv.{{}}", tuple(f"{ours}.{name}.{{}}" for name in projections), "split"
    for original, name in zip(("ln_q", "ln_k"), norms, strict=True):
        yield f"{theirs}.{original}.{{}}", f"{ours}.{name}.{{}}"
    yield f"{theirs}.proj.{{}}", f"{ours}.{out}.{{}}"


def feed_forward(theirs: str, ours: str) -> Iterator[Row]:
    yield f"{theirs}.mlp.fc1.{{}}", f"{ours}.net.0.proj.{{}}"
    yield f"{theirs}.mlp.fc2.{{}}", f"{ours}.net.2.{{}}"
