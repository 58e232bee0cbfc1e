"""Transformer blocks of the UNet whose residuals are added by the last projection of each part, while it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import nn

from ..kernels import calls, found, operators
from .fast import Fast, Keeping, facts, trained, watched
from .fast_layers import FastConvolution, FastLinear, again
from .layers import FeedForward
from .modeling import checkpointed
from .unets.unet_2d_blocks import (
    Attention,
    AttnProcessor,
    BasicTransformerBlock,
    CrossAttnUpBlock2D,
    TextArguments,
    Transformer2DModel,
    UpBlock2D,
)

Tensor = torch.Tensor


@dataclass(frozen=True)
class Text:
    """A text's keys and values, and what they were made of."""

    state: tuple[Any, ...]  # of the projections, and what they had prepared
    source: Tensor
    key: Tensor
    value: Tensor


class FastAttention(Keeping, Attention):
    """Attention that keeps the keys and values of a text until another one comes: every step of a run has the same."""

    made = ("_text",)
    _text: Text | None = None  # replaced as a whole, so that threads do not mix two texts

    def project(self, hidden_states: Tensor, encoder_hidden_states: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        source = encoder_hidden_states
        if source is None or self.norm_cross is not None or not self._keeps(source):
            self._text = None
            return super().project(hidden_states, source)
        kept, state = self._text, (torch.is_inference_mode_enabled(), *_state(self.to_k), *_state(self.to_v))
        alike = kept is not None and is_same_state(kept.state, state) and kept.source.shape == source.shape
        if kept is None or not alike or not calls.same(found(), kept.source, source.contiguous()):
            kept = Text(state, source.contiguous().clone(), self.to_k(source), self.to_v(source))
            self._text = kept
        return self.to_q(hidden_states), kept.key, kept.value

    def _keeps(self, source: Tensor) -> bool:
        if self.fused_projections or torch.compiler.is_compiling():
            return False
        layers = self.to_k, self.to_v
        return not watched(*layers) and all(
            isinstance(layer, FastLinear)
            and type(layer) is FastLinear  # no adapter around it
            and layer.takes(source, layer.bias)
            and not trained((layer.bias,))
            for layer in layers
        )


def _state(layer: nn.Linear) -> tuple[Any, Any]:
    """What the layer has prepared, made now if its weights are new, and the facts of its bias."""
    assert isinstance(layer, FastLinear)
    bias: Tensor | None = layer.bias
    return layer.prepared(), None if bias is None else facts(bias)


def is_same_state(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """The same tensors and equal facts?"""
    return all(a is b or (not isinstance(a, Tensor) and a == b) for a, b in zip(one, other, strict=True))


def adds(residual: Tensor, last: nn.Module, *around: nn.Module) -> bool:
    """Can this projection add a residual, without anybody who watches it or what is around it noticing?"""
    fits = isinstance(last, (FastLinear, FastConvolution)) and operators.takes(residual)  # no adapter around it
    return fits and not watched(last, *around)


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
        if self.only_cross_attention:
            normed = self.norm1(hidden_states)
            hidden_states = attended(self.attn1, normed, encoder_hidden_states, attention_mask, hidden_states)
        else:
            hidden_states = self.self_attended(hidden_states, attention_mask)
        normed = self.norm2(hidden_states)
        hidden_states = attended(self.attn2, normed, encoder_hidden_states, encoder_attention_mask, hidden_states)
        return fed_forward(self.ff, self.norm3(hidden_states), hidden_states)

    def self_attended(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """The first attention and its residual; of samples that come again, once."""
        attn: Any = self.attn1
        parts = attn.to_q, attn.to_k, attn.to_v, attn.to_out[0]
        own = type(attn.processor) is AttnProcessor and all(type(one) is FastLinear for one in parts)
        seen = mask is not None or not own or watched(self.norm1, attn, *parts)
        times = 1 if seen else again(hidden)
        first = hidden if times == 1 else hidden[: len(hidden) // times]
        result = attended(attn, self.norm1(first), None, mask, first)
        return result if times == 1 else torch.cat([result] * times)


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


class FastUpBlock2D(Fast, UpBlock2D):
    """A block of the way up, whose skips are joined by a kernel."""

    def joined(self, hidden_states: Tensor, skip: Tensor) -> Tensor:
        alike = hidden_states.shape[0] == skip.shape[0] and hidden_states.shape[2:] == skip.shape[2:]
        if not alike or not self.takes(hidden_states, skip):
            return super().joined(hidden_states, skip)
        return operators.join(hidden_states, skip)


class FastCrossAttnUpBlock2D(FastUpBlock2D, CrossAttnUpBlock2D):
    """The same with a text transformer after each resnet."""
