"""The layers of a language model that reads from left to right, as the generations of Qwen share them.

Axes: B batch, L tokens, D width, H heads, K head width (H * K need not be D); keys and values have fewer heads than
queries. A tensor without suffix is BLD; any other shape is in the name. Tensor names are the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...attention import AttentionModuleMixin
from ...errors import ConfigError
from ...outputs import Output
from ..modeling import check_divisible, check_sizes
from .encoder import RMSNorm, TextAttnProcessor, activation

Tensor = torch.Tensor
Table = tuple[Tensor, Tensor]
SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip


@dataclass
class HiddenStates(Output):
    """`hidden_states` are the embeddings and each layer's output, the last one after the final norm."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None = None


def half_turns(places: Tensor, head_width: int, theta: float, like: Tensor, sections: Sequence[int] = ()) -> Table:
    """Cosines and sines of places L, LK each: number k of a head is turned with number k + K / 2.

    Places on several axes (axes, B, L) take turns in a head's numbers: `sections` says how many each gets, BLK.
    """
    steps = torch.arange(0, head_width, 2, dtype=torch.float32, device=like.device)
    angles = places.to(like.device).float()[..., None] * (1.0 / theta ** (steps / head_width))
    if sections:
        parts = angles.split(list(sections), dim=-1)
        angles = torch.cat([part[axis % len(places)] for axis, part in enumerate(parts)], dim=-1)
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def turned(x_BLHK: Tensor, table: Table) -> Tensor:
    """Each head's halves turned against each other by the place of its token."""
    cos, sin = (part.unsqueeze(-2) for part in table)
    first, second = x_BLHK.chunk(2, dim=-1)
    return x_BLHK * cos + torch.cat([-second, first], dim=-1) * sin


class DecoderAttnProcessor(TextAttnProcessor):
    """Causal attention of turned queries and keys; several queries share a key."""

    def __call__(self, attn: DecoderAttention, x: Tensor, table: Table, mask_B1LL: Tensor | None) -> Tensor:
        qkv = attn.to_qkv(x) if attn.fused_projections else (attn.q_proj(x), attn.k_proj(x), attn.v_proj(x))
        query, key, value = (part.unflatten(-1, (-1, attn.head_dim)) for part in qkv)
        query, key = turned(attn.q_norm(query), table), turned(attn.k_norm(key), table)
        shared = query.shape[2] != key.shape[2]
        mixed = self.attend(attn, query, key, value, mask_B1LL, is_causal=mask_B1LL is None, enable_gqa=shared)
        return attn.o_proj(mixed)


class DecoderAttention(nn.Module, AttentionModuleMixin):
    """Causal self-attention with positions as rotations; some generations norm queries and keys."""

    _default_processor_cls = DecoderAttnProcessor
    _available_processors = (DecoderAttnProcessor,)
    _projection_names = ("q_proj", "k_proj", "v_proj")
    to_qkv: nn.Module  # the three in one, while they are fused

    def __init__(self, config: Mapping[str, Any], *, bias: bool, out_bias: bool, normed: bool) -> None:
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.heads, self.head_dim = config["num_attention_heads"], config["head_dim"]
        self.dropout = config["attention_dropout"]
        queries, keys = self.heads * self.head_dim, config["num_key_value_heads"] * self.head_dim
        self.q_proj = nn.Linear(width, queries, bias=bias)
        self.k_proj = nn.Linear(width, keys, bias=bias)
        self.v_proj = nn.Linear(width, keys, bias=bias)
        self.o_proj = nn.Linear(queries, width, bias=out_bias)
        self.q_norm = RMSNorm(self.head_dim, eps) if normed else nn.Identity()
        self.k_norm = RMSNorm(self.head_dim, eps) if normed else nn.Identity()
        self.set_processor(DecoderAttnProcessor())

    def forward(self, x: Tensor, table: Table, mask_B1LL: Tensor | None) -> Tensor:
        return self.processor(self, x, table, mask_B1LL)


class GatedMLP(nn.Module):
    """Gated feed forward (arXiv:2002.05202)."""

    def __init__(self, width: int, hidden: int, hidden_act: str, bias: bool = False) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=bias)
        self.up_proj = nn.Linear(width, hidden, bias=bias)
        self.down_proj = nn.Linear(hidden, width, bias=bias)
        self.act = activation(hidden_act, "hidden_act")

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention and feed forward, each after its norm and added to what came in."""

    def __init__(self, config: Mapping[str, Any], *, bias: bool, out_bias: bool, normed: bool) -> None:
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = DecoderAttention(config, bias=bias, out_bias=out_bias, normed=normed)
        self.mlp = GatedMLP(width, config["intermediate_size"], config["hidden_act"])
        self.input_layernorm = RMSNorm(width, eps)
        self.post_attention_layernorm = RMSNorm(width, eps)

    def forward(self, x: Tensor, table: Table, mask_B1LL: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), table, mask_B1LL)
        return x + self.mlp(self.post_attention_layernorm(x))


def check_decoder(owner: str, config: Mapping[str, Any]) -> None:
    """Refuse sizes that do not fit together, and attention to the last tokens alone."""
    check_sizes(owner, config, *SIZES)
    keys = ("num_key_value_heads", config["num_key_value_heads"])
    check_divisible(owner, "num_attention_heads", config["num_attention_heads"], *keys)
    check_divisible(owner, "head_dim", config["head_dim"], "2", 2)
    if config["use_sliding_window"]:
        raise ConfigError(f"{owner}: use_sliding_window is not known here; the published text encoders have none.")


def base_of(owner: str, theta: float, parameters: Mapping[str, Any]) -> float:
    """The base of the rotations: newer files say it among others, older ones by itself; stretched ones are refused."""
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind not in ("default", "mrope"):  # the second is an older word for sections
        raise ConfigError(f"{owner}: rotations of the kind {kind!r} (rope_parameters) are not known; only 'default'.")
    return float(parameters.get("rope_theta", theta))


def initialize(model: nn.Module, spread: float) -> None:
    """The published initialisation."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding, nn.Conv3d)) and not module.weight.is_meta:
            nn.init.normal_(module.weight, std=spread)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
