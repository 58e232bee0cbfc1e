"""Qwen3 (arXiv:2505.09388) as a text encoder: what Z-Image reads its prompts with.

Axes: B batch, L tokens, D width. A tensor without suffix is BLD. Tensor names are the published ones.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...configuration import register_to_config
from ...outputs import output_or_tuple
from ..modeling import checkpointed
from .decoder import DecoderLayer, HiddenStates, base_of, check_decoder, half_turns, initialize
from .encoder import RMSNorm, TextEncoder, causal_mask, embedding

Tensor = torch.Tensor


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
        owner, rotations = type(self).__name__, rope_parameters or rope_scaling or {}
        self.register_to_config(num_key_value_heads=num_key_value_heads or num_attention_heads)
        self.register_to_config(rope_theta=base_of(owner, rope_theta, rotations))
        check_decoder(owner, self.config)
        self.embed_tokens = embedding(vocab_size, hidden_size)
        self.layers = nn.ModuleList(
            DecoderLayer(self.config, bias=attention_bias, out_bias=attention_bias, normed=True)
            for _ in range(num_hidden_layers)
        )
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
    ) -> HiddenStates | tuple[Tensor | tuple[Tensor, ...], ...]:
        """Hidden states of every token."""
        self.check_tokens(input_ids, attention_mask, self.config["max_position_embeddings"])
        states = [self.embed_tokens(input_ids)]
        mask, places = causal_mask(attention_mask), torch.arange(input_ids.shape[1], device=input_ids.device)
        table = half_turns(places, self.config["head_dim"], self.config["rope_theta"], states[0])
        for layer in self.layers:
            states.append(checkpointed(self, layer, states[-1], table, mask))
        states[-1] = self.norm(states[-1])
        output = HiddenStates(states[-1], tuple(states) if output_hidden_states else None)
        return output if return_dict else output.to_tuple()
