"""Qwen3 (arXiv:2505.09388) as a text encoder: what Z-Image reads its prompts with.

Axes: B batch, L tokens, D width, H heads, K head width (H * K need not be D); keys and values have fewer heads than
queries. A tensor without suffix is BLD; any other shape is in the name. Tensor names are the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...attention import AttentionModuleMixin
from ...configuration import register_to_config
from ...errors import ConfigError
from ...outputs import Output, output_or_tuple
from ..modeling import check_divisible, check_sizes, checkpointed
from .encoder import RMSNorm, TextAttnProcessor, TextEncoder, activation, causal_mask, embedding

Tensor = torch.Tensor
Table = tuple[Tensor, Tensor]
SIZES = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings",
)  # fmt: skip


@dataclass
class Qwen3Output(Output):
    """`hidden_states` are the embeddings and each layer's output, the last one after the final norm."""

    last_hidden_state: Tensor
    hidden_states: tuple[Tensor, ...] | None = None


def half_turns(length: int, head_width: int, theta: float, like: Tensor) -> Table:
    """Cosines and sines of the places of a text, LK each: number k of a head is turned with number k + K / 2."""
    speeds = 1.0 / theta ** (torch.arange(0, head_width, 2, dtype=torch.float32, device=like.device) / head_width)
    angles = torch.outer(torch.arange(length, dtype=torch.float32, device=like.device), speeds).repeat(1, 2)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def turned(x_BLHK: Tensor, table: Table) -> Tensor:
    """Each head's halves turned against each other by the place of its token."""
    cos, sin = (part.unsqueeze(1) for part in table)
    first, second = x_BLHK.chunk(2, dim=-1)
    return x_BLHK * cos + torch.cat([-second, first], dim=-1) * sin


class Qwen3AttnProcessor(TextAttnProcessor):
    """Causal attention of normed, turned queries and keys; several queries share a key."""

    def __call__(self, attn: Qwen3Attention, x: Tensor, table: Table, mask_B1LL: Tensor | None) -> Tensor:
        qkv = attn.to_qkv(x) if attn.fused_projections else (attn.q_proj(x), attn.k_proj(x), attn.v_proj(x))
        query, key, value = (part.unflatten(-1, (-1, attn.head_dim)) for part in qkv)
        query, key = turned(attn.q_norm(query), table), turned(attn.k_norm(key), table)
        shared = query.shape[2] != key.shape[2]
        mixed = self.attend(attn, query, key, value, mask_B1LL, is_causal=mask_B1LL is None, enable_gqa=shared)
        return attn.o_proj(mixed)


class Qwen3Attention(nn.Module, AttentionModuleMixin):
    """Causal self-attention with positions as rotations."""

    _default_processor_cls = Qwen3AttnProcessor
    _available_processors = (Qwen3AttnProcessor,)
    _projection_names = ("q_proj", "k_proj", "v_proj")
    to_qkv: nn.Module  # the three in one, while they are fused

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, bias, eps = config["hidden_size"], config["attention_bias"], config["rms_norm_eps"]
        self.heads, self.head_dim = config["num_attention_heads"], config["head_dim"]
        self.dropout = config["attention_dropout"]
        queries, keys = self.heads * self.head_dim, config["num_key_value_heads"] * self.head_dim
        self.q_proj = nn.Linear(width, queries, bias=bias)
        self.k_proj = nn.Linear(width, keys, bias=bias)
        self.v_proj = nn.Linear(width, keys, bias=bias)
        self.o_proj = nn.Linear(queries, width, bias=bias)
        self.q_norm = RMSNorm(self.head_dim, eps)
        self.k_norm = RMSNorm(self.head_dim, eps)
        self.set_processor(Qwen3AttnProcessor())

    def forward(self, x: Tensor, table: Table, mask_B1LL: Tensor | None) -> Tensor:
        return self.processor(self, x, table, mask_B1LL)


class Qwen3MLP(nn.Module):
    """Gated feed forward (arXiv:2002.05202)."""

    def __init__(self, width: int, hidden: int, hidden_act: str) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)
        self.act = activation(hidden_act, "hidden_act")

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act(self.gate_proj(x)) * self.up_proj(x))


class Qwen3DecoderLayer(nn.Module):
    """Attention and feed forward, each after its norm and added to what came in."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        width, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = Qwen3Attention(config)
        self.mlp = Qwen3MLP(width, config["intermediate_size"], config["hidden_act"])
        self.input_layernorm = RMSNorm(width, eps)
        self.post_attention_layernorm = RMSNorm(width, eps)

    def forward(self, x: Tensor, table: Table, mask_B1LL: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), table, mask_B1LL)
        return x + self.mlp(self.post_attention_layernorm(x))


class Qwen3Model(TextEncoder):
    """Qwen3 without its head: the hidden states of a text, each seeing what stands before it."""

    model_type = "qwen3"
    gradient_checkpointing = False
    _supports_gradient_checkpointing = True
    ignored_tensors = (r"^lm_head\.",)  # files of the whole model serve too
    tensor_renames = ((r"^model\.", ""),)

    @register_to_config
    def __init__(
        self, *, vocab_size: int = 151936, hidden_size: int = 4096, intermediate_size: int = 22016,
        num_hidden_layers: int = 32, num_attention_heads: int = 32, num_key_value_heads: int | None = 32,
        head_dim: int = 128, hidden_act: str = "silu", max_position_embeddings: int = 32768,
        initializer_range: float = 0.02, rms_norm_eps: float = 1e-6, attention_bias: bool = False,
        attention_dropout: float = 0.0, rope_theta: float = 10_000.0, rope_scaling: dict[str, Any] | None = None,
        rope_parameters: dict[str, Any] | None = None, use_sliding_window: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.register_to_config(num_key_value_heads=num_key_value_heads or num_attention_heads)
        self.register_to_config(rope_theta=base_of(rope_theta, rope_parameters or rope_scaling or {}))
        owner, config = type(self).__name__, self.config
        check_sizes(owner, config, *SIZES)
        keys = ("num_key_value_heads", config["num_key_value_heads"])
        check_divisible(owner, "num_attention_heads", num_attention_heads, *keys)
        check_divisible(owner, "head_dim", head_dim, "2", 2)
        if use_sliding_window:
            raise ConfigError(f"{owner}: use_sliding_window is not known here; the published text encoders have none.")
        self.embed_tokens = embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(Qwen3DecoderLayer(config) for _ in range(num_hidden_layers))
        self.norm = RMSNorm(hidden_size, rms_norm_eps)
        initialize(self, initializer_range)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embed_tokens

    @output_or_tuple
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> Qwen3Output | tuple[Tensor | tuple[Tensor, ...], ...]:
        """Hidden states of every token."""
        self.check_tokens(input_ids, attention_mask, self.config["max_position_embeddings"])
        states = [self.embed_tokens(input_ids)]
        mask = causal_mask(attention_mask)
        table = half_turns(input_ids.shape[1], self.config["head_dim"], self.config["rope_theta"], states[0])
        for layer in self.layers:
            states.append(checkpointed(self, layer, states[-1], table, mask))
        states[-1] = self.norm(states[-1])
        output = Qwen3Output(states[-1], tuple(states) if output_hidden_states else None)
        return output if return_dict else output.to_tuple()


def base_of(theta: float, parameters: Mapping[str, Any]) -> float:
    """The base of the rotations: newer files say it among others, older ones by itself; stretched ones are refused."""
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise ConfigError(
            f"Qwen3Model: rotations of the kind {kind!r} (rope_parameters) are not known; only 'default'."
        )
    return float(parameters.get("rope_theta", theta))


def initialize(model: Qwen3Model, spread: float) -> None:
    """The published initialisation."""
    if model.embed_tokens.weight.is_meta:
        return
    nn.init.normal_(model.embed_tokens.weight, std=spread)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=spread)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
