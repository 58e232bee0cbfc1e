"""The names of Z-Image's tensors in files for ComfyUI: rows of a weight map.

There queries, keys and values are one matrix, and the layers of the only size of patches have no size in their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..weights import Row

STACKS = ("layers", "noise_refiner", "context_refiner")
NORMS = ("attention_norm1", "attention_norm2", "ffn_norm1", "ffn_norm2")


def z_image_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for a transformer of this config."""
    patch = f"{config['all_patch_size'][0]}-{config['all_f_patch_size'][0]}"
    return [
        ("x_embedder.{}", f"all_x_embedder.{patch}.{{}}"),
        ("final_layer.{*}", f"all_final_layer.{patch}.{{*}}"),
        *((name, name) for name in ("t_embedder.{*}", "cap_embedder.{*}", "x_pad_token", "cap_pad_token")),
        ("norm_final.weight", (), "drop"),  # of the model that this one was made from, and read by nobody
        *(row for stack in STACKS for row in block_rows(f"{stack}.{{i}}")),
    ]


def block_rows(block: str) -> Iterator[Row]:
    theirs = f"{block}.attention"
    yield f"{theirs}.qkv.{{}}", tuple(f"{theirs}.to_{name}.{{}}" for name in "qkv"), "split"
    yield f"{theirs}.out.{{}}", f"{theirs}.to_out.0.{{}}"
    yield f"{theirs}.q_norm.weight", f"{theirs}.norm_q.weight"
    yield f"{theirs}.k_norm.weight", f"{theirs}.norm_k.weight"
    for part in (*NORMS, "feed_forward", "adaLN_modulation"):
        yield f"{block}.{part}.{{*}}", f"{block}.{part}.{{*}}"
