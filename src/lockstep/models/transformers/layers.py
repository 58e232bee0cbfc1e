"""What transformers with text and picture streams share: modulated norms, joint attention, the vector of conditions.

Axes: B batch, L tokens, D width, H heads, K = D / H. A token sequence is BLD, a vector of conditions BD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...attention import AttentionModuleMixin, FusedLinear, PublishedAttention
from ...errors import InputError
from ...outputs import Output
from ..inputs import check_shape
from ..layers import FeedForward, TimestepEmbedding, Timesteps
from ..modeling import ModelMixin

Tensor = torch.Tensor
HALF_MAX = 65504  # the largest number of fp16, which large models overflow (huggingface/diffusers#9097)


@dataclass
class Transformer2DModelOutput(Output):
    """The prediction: the direction of the flow."""

    sample: Tensor


def modulate(normed: Tensor, shift_BD: Tensor, scale_BD: Tensor) -> Tensor:
    """Scale and shift of every token by the conditions."""
    return normed * (1 + scale_BD[:, None]) + shift_BD[:, None]


def finite_in_half(x: Tensor) -> Tensor:
    """Within the range of fp16, where that is the dtype."""
    return x.clip(-HALF_MAX, HALF_MAX) if x.dtype == torch.float16 else x


class AdaLayerNormZero(nn.Module):
    """A norm that the conditions scale and shift, and the gates, scales and shifts of what follows (arXiv:2212.09748).

    `parts` are 3 (shift, scale, gate) where one layer follows and 6 where the feed-forward has its own three.
    """

    def __init__(self, width: int, parts: int = 6) -> None:
        super().__init__()
        self.parts = parts
        self.silu = nn.SiLU()
        self.linear = nn.Linear(width, parts * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)

    def forward(self, x: Tensor, emb_BD: Tensor) -> tuple[Tensor, ...]:
        shift, scale, *rest = self.linear(self.silu(emb_BD)).chunk(self.parts, dim=1)
        return modulate(self.norm(x), shift, scale), *rest


class AdaLayerNormContinuous(nn.Module):
    """A norm that the conditions scale and shift; in the published files the scale comes first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.silu = nn.SiLU()
        self.linear = nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)

    def forward(self, x: Tensor, emb_BD: Tensor) -> Tensor:
        scale, shift = self.linear(self.silu(emb_BD).to(x.dtype)).chunk(2, dim=1)
        return modulate(self.norm(x), shift, scale)


class TextProjection(nn.Module):
    """Two linear layers on a text."""

    def __init__(self, text_width: int, width: int, bend: Callable[[Tensor], Tensor] = F.silu) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(text_width, width)
        self.linear_2 = nn.Linear(width, width)
        self.bend = bend

    def forward(self, text: Tensor) -> Tensor:
        return self.linear_2(self.bend(self.linear_1(text)))


class TimeTextEmbedding(nn.Module):
    """Time, pooled text and, where the model was taught it, the guidance scale as one vector of conditions."""

    def __init__(self, width: int, pooled_width: int, guided: bool = False) -> None:
        super().__init__()
        self.time_proj = Timesteps(256, flip_sin_to_cos=True, downscale_freq_shift=0)
        self.timestep_embedder = TimestepEmbedding(256, width)
        self.guidance_embedder = TimestepEmbedding(256, width) if guided else None
        self.text_embedder = TextProjection(pooled_width, width)

    def forward(self, timestep_B: Tensor, pooled_BD: Tensor, guidance_B: Tensor | None = None) -> Tensor:
        vector = self.timestep_embedder(self.time_proj(timestep_B).to(pooled_BD.dtype))
        if self.guidance_embedder is not None and guidance_B is not None:
            vector = vector + self.guidance_embedder(self.time_proj(guidance_B).to(pooled_BD.dtype))
        return vector + self.text_embedder(pooled_BD)


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
    ) -> None:
        super().__init__()
        inner = heads * head_width
        self.head_dim, self.context_pre_only = head_width, not text_out
        self.to_q = nn.Linear(width, inner)
        self.to_k = nn.Linear(width, inner)
        self.to_v = nn.Linear(width, inner)
        self.norm_q = nn.RMSNorm(head_width, eps=1e-6) if qk_norm else None
        self.norm_k = nn.RMSNorm(head_width, eps=1e-6) if qk_norm else None
        if out:
            self.to_out = nn.ModuleList([nn.Linear(inner, width), nn.Identity()])
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


class TokenModel(ModelMixin):
    """What the models of these blocks have in common: they can be checkpointed, and what they are told is checked."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False

    def check_conditions(
        self, batch: int, text: Tensor | None, pooled: Tensor, timestep: Tensor, kwargs: dict[str, Any] | None
    ) -> None:
        """Refuse a text, a time or arguments of processors that the weights cannot take."""
        owner, config = type(self).__name__, self.config
        if text is not None:
            axes = {"batch": batch, "tokens": None, "width": config["joint_attention_dim"]}
            check_shape(owner, "encoder_hidden_states", text, axes, self.dtype)
        axes = {"batch": batch, "width": config["pooled_projection_dim"]}
        check_shape(owner, "pooled_projections", pooled, axes, self.dtype)
        if timestep.numel() not in (1, batch):
            raise InputError(f"{owner}: timestep has {timestep.numel()} values for {batch} samples; give 1 or {batch}.")
        self.check_processor_kwargs("joint_attention_kwargs", kwargs)
