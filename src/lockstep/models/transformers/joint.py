"""Text and picture as one sequence of tokens (the MMDiT family, arXiv:2403.03206): attention and its block.

Axes: B batch, L tokens, D width, H heads, K = D / H. A token sequence is BLD, a vector of conditions BD.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import nn

from ...attention import (
    AttentionModuleMixin,
    FusedLinear,
    ProcessorMixin,
    PublishedAttention,
    dispatch_attention_fn,
)
from ..layers import FeedForward
from .layers import AdaLayerNormContinuous, AdaLayerNormZero, finite_in_half, modulate

Tensor = torch.Tensor


class JointProcessor(ProcessorMixin):
    """What the attention of text and picture as one sequence has in common; a model says which of them comes first."""

    text_first: ClassVar[bool]

    def join(self, attn: JointAttention, picture: Tensor, text: Tensor | None) -> tuple[Tensor, ...]:
        """Query, key and value of both, or of the picture alone, BLHK."""
        of_picture = attn.project(picture)
        if text is None:
            return of_picture
        of_text = attn.project_text(text)
        pairs = zip(of_text, of_picture, strict=True) if self.text_first else zip(of_picture, of_text, strict=True)
        return tuple(torch.cat(pair, dim=1) for pair in pairs)

    def mix(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """Every query's mix of the values, BLD, in the query's dtype."""
        mixed_BLHK = dispatch_attention_fn(
            query, key, value, attn_mask=mask, backend=self._attention_backend, parallel_config=self._parallel_config
        )
        return mixed_BLHK.flatten(2).to(query.dtype)

    def part(self, attn: JointAttention, mixed: Tensor, text_length: int) -> tuple[Tensor, Tensor]:
        """Picture and text, each through its last layer; the text of a last block has none."""
        lengths = [text_length, mixed.shape[1] - text_length]
        if self.text_first:
            text, picture = mixed.split(lengths, dim=1)
        else:
            picture, text = mixed.split(lengths[::-1], dim=1)
        return attn.to_out[0](picture), text if attn.to_add_out is None else attn.to_add_out(text)


class JointAttention(nn.Module, AttentionModuleMixin, PublishedAttention):
    """Attention of picture tokens, and of the text's beside them where the text has projections of its own.

    `text_out` and `out` say whether what the text and the picture get is projected once more.
    """

    passes_through = ("hidden_states", "encoder_hidden_states")  # what comes out, by the names of what goes in
    to_qkv: FusedLinear  # takes the place of the separate projections by `fuse_projections`

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int,
        *,
        with_text: bool = True,
        text_out: bool = True,
        out: bool = True,
        qk_norm: bool = True,
        bias: bool = True,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        inner = heads * head_width
        self.head_dim, self.context_pre_only = head_width, not text_out
        self.to_q = nn.Linear(width, inner, bias=bias)
        self.to_k = nn.Linear(width, inner, bias=bias)
        self.to_v = nn.Linear(width, inner, bias=bias)
        self.norm_q = nn.RMSNorm(head_width, eps=eps) if qk_norm else None
        self.norm_k = nn.RMSNorm(head_width, eps=eps) if qk_norm else None
        if out:
            self.to_out = nn.ModuleList([nn.Linear(inner, width, bias=bias), nn.Identity()])
        self.to_add_out: nn.Module | None = None
        self.added_kv_proj_dim = width if with_text else None
        self.norm_added_q = self.norm_added_k = None
        if with_text:
            self.add_q_proj = nn.Linear(width, inner)
            self.add_k_proj = nn.Linear(width, inner)
            self.add_v_proj = nn.Linear(width, inner)
            self.norm_added_q = nn.RMSNorm(head_width, eps=1e-6) if qk_norm else None
            self.norm_added_k = nn.RMSNorm(head_width, eps=1e-6) if qk_norm else None
            self.to_add_out = nn.Linear(inner, width) if text_out else None
        self.describe_widths(width, width, heads)
        self.set_processor()

    def project(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of the picture, BLHK; query and key on their norms."""
        if self.fused_projections:
            parts = self.to_qkv(picture)
        else:
            parts = self.to_q(picture), self.to_k(picture), self.to_v(picture)
        query, key, value = (part.unflatten(-1, (-1, self.head_dim)) for part in parts)
        return normed(self.norm_q, query), normed(self.norm_k, key), value

    def project_text(self, text: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same for the text, by its own layers."""
        parts = self.add_q_proj(text), self.add_k_proj(text), self.add_v_proj(text)
        query, key, value = (part.unflatten(-1, (-1, self.head_dim)) for part in parts)
        return normed(self.norm_added_q, query), normed(self.norm_added_k, key), value

    def forward(self, hidden_states: Tensor, encoder_hidden_states: Tensor | None = None, **more: Any) -> Any:
        return self.processor(self, hidden_states, encoder_hidden_states, **more)


def normed(norm: nn.Module | None, x: Tensor) -> Tensor:
    return x if norm is None else norm(x)


class AdaLayerNormZeroTwice(AdaLayerNormZero):
    """The same norm modulated twice, for two attentions: nine parts, of which the last three are the second's."""

    def __init__(self, width: int) -> None:
        super().__init__(width, parts=9)

    def forward(self, x: Tensor, emb_BD: Tensor) -> tuple[Tensor, ...]:
        shift, scale, *rest, shift_2, scale_2, gate_2 = self.linear(self.silu(emb_BD)).chunk(self.parts, dim=1)
        normed = self.norm(x)
        return modulate(normed, shift, scale), *rest, modulate(normed, shift_2, scale_2), gate_2


class JointTransformerBlock(nn.Module):
    """Text and picture attend to each other as one sequence, then each goes on separately (arXiv:2403.03206).

    With a second attention the picture attends once more, to itself. Where the text is only read (`text_out` of the
    attention), as in a last block, nothing of it comes out.
    """

    passes_through = ("encoder_hidden_states", "hidden_states")  # what comes out, by the names of what goes in

    def __init__(self, width: int, attn: JointAttention, attn2: JointAttention | None = None) -> None:
        super().__init__()
        self.context_pre_only = attn.context_pre_only
        self.norm1 = AdaLayerNormZero(width) if attn2 is None else AdaLayerNormZeroTwice(width)
        self.norm1_context = AdaLayerNormContinuous(width) if self.context_pre_only else AdaLayerNormZero(width)
        self.attn, self.attn2 = attn, attn2
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.ff = FeedForward(width, gated=False)
        self.norm2_context = self.ff_context = None
        if not self.context_pre_only:
            self.norm2_context = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
            self.ff_context = FeedForward(width, gated=False)

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor,
        temb: Tensor,
        joint_attention_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        picture, text, kwargs = hidden_states, encoder_hidden_states, joint_attention_kwargs or {}
        normed, gate, shift_ff, scale_ff, gate_ff, *second = self.norm1(picture, temb)
        if self.context_pre_only:
            normed_text, text_parts = self.norm1_context(text, temb), []
        else:
            normed_text, *text_parts = self.norm1_context(text, temb)
        mixed, mixed_text = self.attn(normed, normed_text, **kwargs)

        picture = picture + gate[:, None] * mixed
        if self.attn2 is not None:
            normed_2, gate_2 = second
            picture = picture + gate_2[:, None] * self.attn2(normed_2, **kwargs)
        picture = picture + gate_ff[:, None] * self.ff(modulate(self.norm2(picture), shift_ff, scale_ff))

        if self.norm2_context is None or self.ff_context is None:
            return None, picture
        text_gate, text_shift_ff, text_scale_ff, text_gate_ff = text_parts
        text = text + text_gate[:, None] * mixed_text
        normed_text = modulate(self.norm2_context(text), text_shift_ff, text_scale_ff)
        text = text + text_gate_ff[:, None] * self.ff_context(normed_text)
        return finite_in_half(text), picture


def residual_of(block: int, depth: int, residuals: int, repeat: bool = False) -> int:
    """Which residual of a ControlNet a block gets: each serves several neighbours, or (XLabs's) they go round."""
    return block % residuals if repeat else block // math.ceil(depth / residuals)
