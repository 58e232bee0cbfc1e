"""Layers of token sequences by our own kernels: norms with what modulates them, projections with their GELU."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..kernels import calls, found, operators
from .fast import Fast, Prepared, watched
from .fast_layers import FastLinear
from .layers import TanhGELU
from .transformers.layers import AdaLayerNormContinuous, AdaLayerNormZero, finite_in_half, modulate
from .transformers.rotary import Table
from .transformers.transformer_flux import FluxSingleTransformerBlock
from .transformers.transformer_wan import FP32LayerNorm, WanTransformerBlock

Tensor = torch.Tensor


class FastLayerNorm(Fast, nn.LayerNorm):
    """A norm of tokens; scaled and shifted for each sample where asked for."""

    def forward(self, input: Tensor, changes: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """`changes` are a shift and a scale, (batch, width) each."""
        fits = self.normalized_shape == input.shape[-1:] and self.takes(input, self.weight, self.bias, *(changes or ()))
        if not fits or self.normalized_shape[0] % found().lanes:
            result = super().forward(input)
            return result if changes is None else modulate(result, *changes)
        if changes is None or self.weight is not None:
            result = operators.row_norm(input, self.weight, self.bias, self.eps, True)
            return result if changes is None else modulate(result, *changes)
        shift, scale = changes
        return operators.row_norm(input, 1 + scale, shift, self.eps, True)


class FastFP32LayerNorm(FastLayerNorm, FP32LayerNorm):
    """The same for the norm that is computed in fp32 always."""


class FastRMSNorm(Fast, nn.RMSNorm):
    """A norm of tokens or heads by their size alone."""

    def forward(self, x: Tensor) -> Tensor:
        plain = self.normalized_shape == x.shape[-1:] and self.eps is not None
        if not plain or not self.takes(x, self.weight) or self.normalized_shape[0] % found().lanes:
            return super().forward(x)
        return operators.row_norm(x, self.weight, None, self.eps, False)


def modulates(norm: nn.Module) -> bool:
    """Can a norm be modulated while it is written, without anybody who watches it noticing?"""
    return isinstance(norm, FastLayerNorm) and not watched(norm)


class FastAdaLayerNormZero(AdaLayerNormZero):
    """A norm that is modulated while it is written."""

    def forward(self, x: Tensor, emb_BD: Tensor) -> tuple[Tensor, ...]:
        if not modulates(self.norm):
            return super().forward(x, emb_BD)
        shift, scale, *rest = self.linear(self.silu(emb_BD)).chunk(self.parts, dim=1)
        return self.norm(x, (shift, scale)), *rest


class FastAdaLayerNormContinuous(AdaLayerNormContinuous):
    """The same, where the scale comes first."""

    def forward(self, x: Tensor, emb_BD: Tensor) -> Tensor:
        if not modulates(self.norm):
            return super().forward(x, emb_BD)
        scale, shift = self.linear(self.silu(emb_BD).to(x.dtype)).chunk(2, dim=1)
        return self.norm(x, (shift, scale))


class FastTanhGELU(Prepared, TanhGELU):
    """A projection that is bent before anything is written."""

    def sources(self) -> tuple[Tensor, ...]:
        return (self.proj.weight,)

    def has_own(self) -> bool:
        return type(self.proj) is nn.Linear  # and no adapter around it

    def prepare(self) -> Any:
        return calls.pack_linear(found(), self.proj.weight, self.in_bf16)

    def forward(self, hidden_states: Tensor) -> Tensor:
        proj = self.proj
        if watched(proj) or not self.takes(hidden_states, proj.bias) or hidden_states.shape[-1] != proj.in_features:
            return super().forward(hidden_states)
        packed, layer = self.current()
        return operators.linear(hidden_states, packed, proj.bias, None, proj.out_features, True, layer)


class FastFluxSingleTransformerBlock(FluxSingleTransformerBlock):
    """A block of one stream whose projection is bent before it is written."""

    def forward(
        self, hidden_states: Tensor, encoder_hidden_states: Tensor, temb: Tensor, image_rotary_emb: Any,
        joint_attention_kwargs: dict[str, Any] | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        tokens = torch.cat([encoder_hidden_states, hidden_states], dim=1)
        normed, gate = self.norm(tokens, temb)
        mixed = self.attn(normed, image_rotary_emb=image_rotary_emb, **(joint_attention_kwargs or {}))
        if isinstance(self.proj_mlp, FastLinear) and not watched(self.proj_mlp):
            wide = self.proj_mlp(normed, gelu=True)
        else:  # an adapter is around it, or somebody who watches it
            wide = F.gelu(self.proj_mlp(normed), approximate="tanh")
        tokens = tokens + gate[:, None] * self.proj_out(torch.cat([mixed, wide], dim=2))
        text, picture = finite_in_half(tokens).split([encoder_hidden_states.shape[1], hidden_states.shape[1]], dim=1)
        return text, picture


class FastWanTransformerBlock(WanTransformerBlock):
    """A block of a video whose norms are modulated while they are written, where one time is for all tokens."""

    def forward(
        self, video: Tensor, conditions: Tensor, temb_BS6D: Tensor, rotary_emb: Table, kwargs: dict[str, Any]
    ) -> Tensor:
        norms = self.norm1, self.norm3
        fused = all(modulates(norm) for norm in norms) and video.dtype == torch.float32
        if not fused or temb_BS6D.shape[1] != 1:
            return super().forward(video, conditions, temb_BS6D, rotary_emb, kwargs)
        modulation = (self.scale_shift_table + temb_BS6D.float())[:, 0].unbind(1)
        shift, scale, gate, ffn_shift, ffn_scale, ffn_gate = modulation
        mixed = self.attn1(self.norm1(video, (shift, scale)), rotary_emb=rotary_emb, **kwargs)
        video = torch.addcmul(video, mixed, gate[:, None])
        video = video + self.attn2(self.norm2(video), conditions, **kwargs)
        wide = self.ffn(self.norm3(video, (ffn_shift, ffn_scale)))
        return torch.addcmul(video, wide, ffn_gate[:, None])
