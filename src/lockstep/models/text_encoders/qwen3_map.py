"""The names that llama.cpp gives to Qwen3's tensors, as GGUF files have them: rows of a weight map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..weights import Row

ATTENTION = {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj",
             "attn_q_norm": "q_norm", "attn_k_norm": "k_norm"}  # fmt: skip
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}  # fmt: skip


def qwen3_llama_rows(config: Mapping[str, Any]) -> list[Row]:
    """All rows for an encoder of this config."""
    inside = {**{theirs: f"self_attn.{ours}" for theirs, ours in ATTENTION.items()}, **LAYER}
    return [
        ("token_embd.weight", "embed_tokens.weight"),
        ("output_norm.weight", "norm.weight"),
        ("output.weight", (), "drop"),  # the head, which an encoder has not
        *((f"blk.{{i}}.{theirs}.{{}}", f"layers.{{i}}.{ours}.{{}}") for theirs, ours in inside.items()),
    ]
