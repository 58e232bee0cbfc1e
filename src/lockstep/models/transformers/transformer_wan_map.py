"""The names of Wan's own files for the tensors of its transformer: rows of a weight map. Nothing but names differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row

PROJECTIONS = {"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out.0", "norm_q": "norm_q", "norm_k": "norm_k"}
IMAGE_PROJECTIONS = {"k_img": "add_k_proj", "v_img": "add_v_proj", "norm_k_img": "norm_added_k"}
CONDITIONS = {
    "time_embedding.0": "time_embedder.linear_1",
    "time_embedding.2": "time_embedder.linear_2",
    "time_projection.1": "time_proj",
    "text_embedding.0": "text_embedder.linear_1",
    "text_embedding.2": "text_embedder.linear_2",
}
IMAGE = {"0": "norm1", "1": "ff.net.0.proj", "3": "ff.net.2", "4": "norm2"}


def wan_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a transformer of this config."""
    blocks = [row for index in range(config["num_layers"]) for row in block(index, config)]
    return [*ends(config), *blocks]


def ends(config: Mapping[str, Any]) -> Iterator[Row]:
    yield "patch_embedding.{}", "patch_embedding.{}"
    for theirs, ours in CONDITIONS.items():
        yield f"{theirs}.{{}}", f"condition_embedder.{ours}.{{}}"
    if config.get("image_dim") is not None:
        for theirs, ours in IMAGE.items():
            yield f"img_emb.proj.{theirs}.{{}}", f"condition_embedder.image_embedder.{ours}.{{}}"
    if config.get("pos_embed_seq_len") is not None:
        yield "img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"
    yield "head.modulation", "scale_shift_table"
    yield "head.head.{}", "proj_out.{}"


def block(index: int, config: Mapping[str, Any]) -> Iterator[Row]:
    at = f"blocks.{index}"
    yield f"{at}.modulation", f"{at}.scale_shift_table"
    if config.get("cross_attn_norm", True):
        yield f"{at}.norm3.{{}}", f"{at}.norm2.{{}}"  # the norms are numbered otherwise; only this one has weights
    yield f"{at}.ffn.0.{{}}", f"{at}.ffn.net.0.proj.{{}}"
    yield f"{at}.ffn.2.{{}}", f"{at}.ffn.net.2.{{}}"
    sees = config.get("added_kv_proj_dim") is not None
    for theirs, ours, names in (
        ("self_attn", "attn1", PROJECTIONS),
        ("cross_attn", "attn2", PROJECTIONS | (IMAGE_PROJECTIONS if sees else {})),
    ):
        for original, name in names.items():
            yield f"{at}.{theirs}.{original}.{{}}", f"{at}.{ours}.{name}.{{}}"
