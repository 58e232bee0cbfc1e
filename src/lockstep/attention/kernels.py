"""How each backend computes one attention.

Axes: B batch, S tokens, H heads, D head width. Query, key and value are BSHD, as in every model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

Tensor = torch.Tensor

CHUNK_BYTES = 16 * 2**20  # of the score matrix that `chunked` holds at a time; the softmax and a copy come on top


@dataclass(frozen=True)
class AttentionCall:
    """One attention as a model asks for it; `attn_mask` has four axes and broadcasts to (B, H, queries, keys)."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def heads_first(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value as BHSD, which torch's own kernels take."""
        return self.query.transpose(1, 2), self.key.transpose(1, 2), self.value.transpose(1, 2)

    def bias(self) -> Tensor | None:
        """The mask as what is added to the scores."""
        mask = self.attn_mask
        if mask is None or mask.dtype != torch.bool:
            return mask
        return torch.zeros_like(mask, dtype=self.query.dtype).masked_fill(~mask, float("-inf"))


def run_native(call: AttentionCall) -> Tensor:
    """torch's own choice of kernel."""
    mixed = scaled_dot_product_attention(
        *call.heads_first(),
        attn_mask=call.attn_mask,
        dropout_p=call.dropout_p,
        is_causal=call.is_causal,
        scale=call.scale,
        enable_gqa=call.enable_gqa,
    )
    return mixed.transpose(1, 2)


def run_math(call: AttentionCall) -> Tensor:
    """Scores, softmax, mean: the definition, with the whole score matrix in memory."""
    # The operator itself: `sdpa_kernel` would switch the kernels of every thread for the time of the call.
    mixed, _ = torch.ops.aten._scaled_dot_product_attention_math(
        *call.heads_first(),
        call.bias(),
        call.dropout_p,
        call.is_causal,
        None,
        scale=call.scale,
        enable_gqa=call.enable_gqa,
    )
    return mixed.transpose(1, 2)


def run_native_flash(call: AttentionCall) -> Tensor:
    """torch's flash kernel, the processor's or CUDA's (FlashAttention-2, arXiv:2307.08691)."""
    if call.query.device.type != "cpu":
        return run_torch_kernel(SDPBackend.FLASH_ATTENTION)(call)
    mixed, _ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        *call.heads_first(), call.dropout_p, call.is_causal, attn_mask=call.bias(), scale=call.scale
    )
    return mixed.transpose(1, 2)


def run_torch_kernel(kernel: SDPBackend) -> Callable[[AttentionCall], Tensor]:
    """One of torch's CUDA kernels and no other; torch switches them for the whole process during the call."""

    def run(call: AttentionCall) -> Tensor:
        with sdpa_kernel(kernel):
            return run_native(call)

    return run


def run_chunked(call: AttentionCall) -> Tensor:
    """The definition for some query rows at a time (arXiv:2112.05682), so that memory does not grow with their number.

    Where a gradient is recorded each part is computed again in the backward pass, so the bound holds there too.
    """
    batch, rows, heads, _ = call.query.shape
    row_bytes = batch * heads * call.key.shape[1] * 4
    step = max(1, CHUNK_BYTES // row_bytes)
    if step >= rows:
        return run_math(call)
    recorded = torch.is_grad_enabled() and (call.query.requires_grad or call.key.requires_grad)
    parts = []
    for start in range(0, rows, step):
        part = rows_of(call, start, min(start + step, rows))
        parts.append(checkpoint(run_math, part, use_reentrant=False) if recorded else run_math(part))
    return torch.cat(parts, dim=1)


def rows_of(call: AttentionCall, start: int, end: int) -> AttentionCall:
    """The same attention for some of the query rows."""
    mask = call.attn_mask
    if call.is_causal:
        rows = torch.arange(start, end, device=call.query.device)[:, None]
        mask = (rows >= torch.arange(call.key.shape[1], device=call.query.device))[None, None]
    elif mask is not None and mask.shape[2] != 1:
        mask = mask[:, :, start:end]
    return replace(call, query=call.query[:, start:end], attn_mask=mask, is_causal=False)


def run_flex(call: AttentionCall) -> Tensor:
    """torch's FlexAttention (arXiv:2412.05496), compiled for the shapes at hand."""
    query, key, value = (tensor.contiguous() for tensor in call.heads_first())
    mask, score_mod = call.attn_mask, None
    if mask is not None:
        mask_BHQK = mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        score_mod = masked_score(mask_BHQK)
    elif call.is_causal:
        score_mod = causal_score
    run = flex_attention if torch.compiler.is_compiling() else torch.compile(flex_attention)
    mixed = run(query, key, value, score_mod=score_mod, scale=call.scale, enable_gqa=call.enable_gqa)
    return mixed.transpose(1, 2)


def masked_score(mask_BHQK: Tensor) -> Callable[..., Tensor]:
    """A mask or bias in the form that FlexAttention takes."""

    def add(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return score + mask_BHQK[b, h, q, k]

    def keep(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return torch.where(mask_BHQK[b, h, q, k], score, float("-inf"))

    return keep if mask_BHQK.dtype == torch.bool else add


def causal_score(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(q >= k, score, float("-inf"))


def run_flash(call: AttentionCall) -> Tensor:
    """The flash-attn package (arXiv:2307.08691)."""
    from flash_attn import flash_attn_func

    return flash_attn_func(
        call.query,
        call.key,
        call.value,
        dropout_p=call.dropout_p,
        softmax_scale=call.scale,
        causal=call.is_causal,
    )


def run_sage(call: AttentionCall) -> Tensor:
    """The sageattention package: 8-bit scores (arXiv:2410.02367)."""
    from sageattention import sageattn

    return sageattn(
        call.query,
        call.key,
        call.value,
        tensor_layout="NHD",
        is_causal=call.is_causal,
        sm_scale=call.scale,
    )


def run_xformers(call: AttentionCall) -> Tensor:
    """The memory-efficient attention of the xformers package."""
    import xformers.ops as xops

    bias = xops.LowerTriangularMask() if call.is_causal else call.bias()
    if isinstance(bias, Tensor):
        batch, rows, heads, _ = call.query.shape
        columns = call.key.shape[1]
        # The kernel reads rows of the bias in eights: make room for them and show it the part that counts.
        room = bias.new_zeros(batch, heads, rows, -(-columns // 8) * 8)
        room[..., :columns] = bias
        bias = room[..., :columns]
    return xops.memory_efficient_attention(
        call.query, call.key, call.value, attn_bias=bias, p=call.dropout_p, scale=call.scale
    )
