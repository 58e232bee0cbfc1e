"""Transformer blocks of the UNet whose residuals are added by the last projection of each part, while it writes."""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import nn

from .fast_layers import FastConvolution, FastLinear, watched
from .layers import FeedForward
from .modeling import checkpointed
from .unets.unet_2d_blocks import (
    Attention,
    AttnProcessor,
    BasicTransformerBlock,
    TextArguments,
    Transformer2DModel,
)

Tensor = torch.Tensor


def adds(residual: Tensor, last: nn.Module, *around: nn.Module) -> bool:
    """Can this projection add a residual, without anybody who watches it or what is around it noticing?"""
    fits = isinstance(last, (FastLinear, FastConvolution)) and last.takes(residual, last.weight)  # no adapter around it
    return fits and not any(watched(module) for module in (last, *around))


def attended(attn: Attention, hidden: Tensor, source: Tensor | None, mask: Tensor | None, residual: Tensor) -> Tensor:
    """The attention and a residual."""
    if type(attn.processor) is not AttnProcessor or not adds(residual, attn.to_out[0], attn):
        return residual + attn(hidden, source, mask)
    mixed = attn.processor.attend(attn, *attn.project(hidden, source), mask)
    return attn.to_out[0](mixed, residual)


def fed_forward(ff: FeedForward, hidden: Tensor, residual: Tensor) -> Tensor:
    """The feed-forward and a residual."""
    if not adds(residual, ff.net[2], ff):
        return residual + ff(hidden)
    return ff.net[2](ff.net[0](hidden), residual)


class FastBasicTransformerBlock(BasicTransformerBlock):
    """Self-attention, attention to the text, feed-forward; each adds what it was made of."""

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        cross_attention_kwargs: dict[str, Any] | None = None,
    ) -> Tensor:
        if cross_attention_kwargs:
            masks = attention_mask, encoder_attention_mask
            return super().forward(hidden_states, encoder_hidden_states, *masks, cross_attention_kwargs)
        first_source = encoder_hidden_states if self.only_cross_attention else None
        normed = self.norm1(hidden_states)
        hidden_states = attended(self.attn1, normed, first_source, attention_mask, hidden_states)
        normed = self.norm2(hidden_states)
        hidden_states = attended(self.attn2, normed, encoder_hidden_states, encoder_attention_mask, hidden_states)
        return fed_forward(self.ff, self.norm3(hidden_states), hidden_states)


class FastTransformer2DModel(Transformer2DModel):
    """A feature map as a sequence of pixels through transformer blocks; the projection back adds the map."""

    def forward(self, hidden_states: Tensor, **text: Unpack[TextArguments]) -> Tensor:
        if not adds(hidden_states, self.proj_out):
            return super().forward(hidden_states, **text)
        size, residual = hidden_states.shape[2:], hidden_states
        hidden_states = self.norm(hidden_states)
        if self.use_linear_projection:
            tokens = self.proj_in(hidden_states.flatten(2).transpose(1, 2))
        else:
            tokens = self.proj_in(hidden_states).flatten(2).transpose(1, 2)
        for block in self.transformer_blocks:
            tokens = checkpointed(self, block, tokens, **text)
        if self.use_linear_projection:
            tokens = self.proj_out(tokens, residual.flatten(2).transpose(1, 2))
            return tokens.transpose(1, 2).unflatten(2, size)
        return self.proj_out(tokens.transpose(1, 2).unflatten(2, size), None, residual)
