"""What attention processors written for the field's other libraries read and call on an attention module.

Axes: B batch, H heads, L tokens, S tokens that are attended to, D width of all heads, K = D / H. A processor made
elsewhere lays the heads beside the batch: BHLK there is (B * H, L, K).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..errors import UnsupportedError

Tensor = torch.Tensor
NORMS = ("spatial_norm", "group_norm", "norm_q", "norm_k", "norm_cross")


class PublishedAttention:
    """The helpers and settings of the published attention class, for processors that are written against them."""

    heads: int
    scale: float  # on the scores
    residual_connection: bool = False  # whether the processor adds its input to its result
    rescale_output_factor: float = 1.0
    upcast_attention: bool = False
    upcast_softmax: bool = False
    is_causal: bool = False
    only_cross_attention: bool = False

    def describe_widths(self, width: int, source_width: int, heads: int) -> None:
        """Note what processors ask of the sizes; norms that the module does not have are None."""
        self.heads = self.sliceable_head_dim = heads
        self.query_dim = self.inner_dim = self.inner_kv_dim = self.out_dim = width
        self.cross_attention_dim = source_width
        self.scale = (width // heads) ** -0.5
        for name in NORMS:
            if not hasattr(self, name):
                setattr(self, name, None)

    def head_to_batch_dim(self, tensor: Tensor, out_dim: int = 3) -> Tensor:
        """BLD to (B * H, L, K), or with `out_dim=4` to BHLK."""
        split = tensor.flatten(1, -2).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        return split.flatten(0, 1) if out_dim == 3 else split

    def batch_to_head_dim(self, tensor: Tensor) -> Tensor:
        """(B * H, L, K) to BLD."""
        return tensor.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2)

    def get_attention_scores(self, query: Tensor, key: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """How much of each token each token takes, (B * H, L, S); the mask is a bias on it."""
        dtype = query.dtype
        if self.upcast_attention:
            query, key = query.float(), key.float()
        scores = self.scale * (query @ key.transpose(-1, -2))
        scores = scores if attention_mask is None else scores + attention_mask
        return (scores.float() if self.upcast_softmax else scores).softmax(dim=-1).to(dtype)

    def prepare_attention_mask(
        self, attention_mask: Tensor | None, target_length: int, batch_size: int, out_dim: int = 3
    ) -> Tensor | None:
        """A bias (B, 1, S) for every head: (B * H, 1, S), or with `out_dim=4` (B, H, 1, S)."""
        if attention_mask is None:
            return None
        if attention_mask.shape[-1] != target_length:
            # As published: by the whole length, not by what is missing. A processor that relies on it gets the same.
            attention_mask = F.pad(attention_mask, (0, target_length))
        if out_dim == 4:
            return attention_mask[:, None].expand(-1, self.heads, -1, -1)
        if attention_mask.shape[0] < batch_size * self.heads:
            attention_mask = attention_mask.repeat_interleave(self.heads, dim=0)
        return attention_mask

    def norm_encoder_hidden_states(self, encoder_hidden_states: Tensor) -> Tensor:
        """The text on the norm of its own, where the module has one."""
        norm: Any = getattr(self, "norm_cross", None)
        if norm is None:
            raise UnsupportedError(f"{type(self).__name__} has no norm_cross; ask `attn.norm_cross` before.")
        if isinstance(norm, nn.GroupNorm):
            return norm(encoder_hidden_states.transpose(1, 2)).transpose(1, 2)
        return norm(encoder_hidden_states)
