"""What transformers with text and picture streams share: modulated norms, the vector of conditions, checks.

Axes: B batch, L tokens, D width, H heads, K = D / H. A token sequence is BLD, a vector of conditions BD.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...errors import InputError
from ...outputs import Output
from ..inputs import check_shape
from ..layers import TimestepEmbedding, Timesteps
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


class TokenModel(ModelMixin):
    """What the models of these blocks have in common: they can be checkpointed, and what they are told is checked."""

    _supports_gradient_checkpointing = True
    gradient_checkpointing = False

    @property
    def condition_widths(self) -> dict[str, int | None]:
        """Channels of what is read beside the latents."""
        return {
            "prompt_embeds": self.config["joint_attention_dim"],
            "pooled_prompt_embeds": self.config["pooled_projection_dim"],
        }

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
