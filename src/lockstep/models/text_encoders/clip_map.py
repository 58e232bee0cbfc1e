"""The names that CLIP's text transformer has in other files: rows of weight maps.

`clip_rows`: transformers' names, with or without `text_model.`, as SD 1.x and SDXL files carry their first encoder.
`open_clip_rows`: OpenCLIP's names, as SD 2.x, SDXL and the refiner carry theirs: query, key and value in one tensor,
and the projection transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..weights import Row

LAYER = {
    "ln_1.{}": "layer_norm1.{}",
    "ln_2.{}": "layer_norm2.{}",
    "mlp.c_fc.{}": "mlp.fc1.{}",
    "mlp.c_proj.{}": "mlp.fc2.{}",
    "attn.out_proj.{}": "self_attn.out_proj.{}",
}


def clip_rows(config: Mapping[str, Any], projection: bool) -> list[Row]:
    """All rows for a text model in transformers' names."""
    parts = ("embeddings", "encoder", "final_layer_norm")
    head = ("text_projection.weight", "text_projection.weight" if projection else (), "keep" if projection else "drop")
    return [
        *((f"text_model.{part}.{{*}}", f"text_model.{part}.{{*}}") for part in parts),
        *((f"{part}.{{*}}", f"text_model.{part}.{{*}}", "accept") for part in parts),
        # computed here; merged files hold damaged ones
        ("text_model.embeddings.position_ids", (), "drop"),
        ("embeddings.position_ids", (), "drop"),
        ("logit_scale", (), "drop"),
        head,
    ]


def open_clip_rows(config: Mapping[str, Any], projection: bool) -> list[Row]:
    """All rows for a text model in OpenCLIP's names; layers beyond the config's are not used and dropped."""
    theirs, ours = "transformer.resblocks.{i}", "text_model.encoder.layers.{i}"
    fused = tuple(f"{ours}.self_attn.{name}_proj.{{}}" for name in "qkv")
    head = ("text_projection.weight", "transpose") if projection else ((), "drop")
    return [
        ("token_embedding.weight", "text_model.embeddings.token_embedding.weight"),
        ("positional_embedding", "text_model.embeddings.position_embedding.weight"),
        *((f"{theirs}.{original}", f"{ours}.{name}") for original, name in LAYER.items()),
        (f"{theirs}.attn.in_proj_{{}}", fused, "split"),
        ("ln_final.{}", "text_model.final_layer_norm.{}"),
        ("text_projection", *head),
        (f"transformer.resblocks.{config['num_hidden_layers']}.{{*}}", (), "drop"),
        ("logit_scale", (), "drop"),
        ("attn_mask", (), "drop"),
    ]
