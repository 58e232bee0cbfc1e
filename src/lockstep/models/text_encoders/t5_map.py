"""The names that llama.cpp gives to the tensors of T5's encoder, as GGUF files have them: rows of a weight map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..weights import Row

ATTENTION = {"attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_o": "o", "attn_rel_b": "relative_attention_bias"}
GATED = {"ffn_gate": "wi_0", "ffn_up": "wi_1", "ffn_down": "wo"}
PLAIN = {"ffn_up": "wi", "ffn_down": "wo"}


def llama_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for an encoder of this config."""
    theirs, ours = "enc.blk.{i}", "encoder.block.{i}.layer"
    feed_forward = GATED if str(config.get("feed_forward_proj", "")).startswith("gated") else PLAIN
    return [
        ("token_embd.weight", "shared.weight"),
        ("enc.output_norm.weight", "encoder.final_layer_norm.weight"),
        (f"{theirs}.attn_norm.weight", f"{ours}.0.layer_norm.weight"),
        (f"{theirs}.ffn_norm.weight", f"{ours}.1.layer_norm.weight"),
        *((f"{theirs}.{one}.weight", f"{ours}.0.SelfAttention.{name}.weight") for one, name in ATTENTION.items()),
        *((f"{theirs}.{one}.weight", f"{ours}.1.DenseReluDense.{name}.weight") for one, name in feed_forward.items()),
    ]
