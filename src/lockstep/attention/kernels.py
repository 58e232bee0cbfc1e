"""How each backend computes one attention.

Axes: B batch, S tokens, H heads, D head width. Query, key and value are BSHD, as in every model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

from .. import kernels as own

Tensor = torch.Tensor

OWN, OWN_BF16 = "lockstep", "lockstep_bf16"  # backends by our own kernel
OWN_WIDTH = 256  # of a head, up to which our own kernel is faster than torch's
FEWEST_KEYS = 16  # below, torch's flash kernel for the processor makes zeros of a row whose scores are all NaN
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

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value."""
        return self.query, self.key, self.value

    def heads_first(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value as BHSD, which torch's own kernels take."""
        return self.query.transpose(1, 2), self.key.transpose(1, 2), self.value.transpose(1, 2)

    def bias(self) -> Tensor | None:
        """The mask as what is added to the scores."""
        mask = self.attn_mask
        if mask is None or mask.dtype != torch.bool:
            return mask
        return torch.zeros_like(mask, dtype=self.query.dtype).masked_fill(~mask, float("-inf"))


WithLse = Callable[[AttentionCall], tuple[Tensor, Tensor]]  # the mix, BSHD, and the log-sum-exp of the scores, BSH


def records_gradient(*tensors: Tensor | None) -> bool:
    """Whether autograd follows any of these."""
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def hides_nan(call: AttentionCall) -> bool:
    """Would torch's kernel for the processor hide NaN in these queries? It takes the maximum of too short a row."""
    return call.key.shape[1] < FEWEST_KEYS and call.query.device.type == "cpu"


def run_native(call: AttentionCall) -> Tensor:
    """torch's own choice of kernel."""
    if hides_nan(call):
        return run_math(call)
    mixed = scaled_dot_product_attention(
        *call.heads_first(),
        attn_mask=call.attn_mask,
        dropout_p=call.dropout_p,
        is_causal=call.is_causal,
        scale=call.scale,
        enable_gqa=call.enable_gqa,
    )
    return mixed.transpose(1, 2)


def why_not_own() -> str | None:
    """Why our own kernel cannot compute anything here, or None."""
    reason = own.why_not()
    return None if reason is None else f"there are no kernels of our own here: {reason}"


def why_not_own_bf16() -> str | None:
    """The same for products in bf16."""
    return why_not_own() or (None if own.found().bf16 else "the kernels here do not multiply bf16")


def run_own(call: AttentionCall, bf16: bool = False) -> Tensor:
    """Our own kernel where it can compute this, torch's elsewhere; its products in bf16, where asked for."""
    query, key, value = (
        one if one.stride(3) == 1 and one.stride(2) == one.shape[3] else one.contiguous() for one in call.tensors()
    )
    batch, _, heads, width = query.shape
    by_key = call.attn_mask is None or call.attn_mask.shape[1:3] == (1, 1)  # the same for all heads and queries
    fits = by_key and not (call.dropout_p or call.is_causal) and key.shape[2] == heads and value.shape[3] == width
    if not fits or width % 8 or width > OWN_WIDTH or not own.operators.takes(query, key, value, call.bias()):
        return run_native(call)
    bias = call.bias()
    if bias is not None:
        bias = bias.expand(batch, 1, 1, -1).reshape(batch, -1).contiguous()
    scale, bf16 = width**-0.5 if call.scale is None else call.scale, bf16 and own.found().bf16
    return own.operators.attention(query, key, value, bias, scale, bf16)


def run_own_in_bf16(call: AttentionCall) -> Tensor:
    """Our own kernel with products in bf16 where the processor has them; what goes in and out is fp32."""
    return run_own(call, bf16=True)


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


def math_with_lse(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """The definition in fp32, BSHD, and the log-sum-exp of the scores, BSH; a query that sees nothing gets zeros."""
    compute = torch.promote_types(call.query.dtype, torch.float32)
    query, key, value = (one.to(compute) for one in call.heads_first())
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    scale = query.shape[3] ** -0.5 if call.scale is None else call.scale
    with torch.autocast(query.device.type, enabled=False):
        scores = (query * scale) @ key.transpose(2, 3)
        bias = call.bias()
        scores = scores if bias is None else scores + bias
        mixed = torch.ops.aten._safe_softmax(scores, -1) @ value
        lse = scores.logsumexp(dim=-1)
    return mixed.transpose(1, 2), lse.transpose(1, 2)


def native_with_lse(call: AttentionCall) -> tuple[Tensor, Tensor]:
    """The same by torch's flash kernels where they compute it."""
    width, device = call.query.shape[3], call.query.device.type
    plain = call.attn_mask is None and not call.enable_gqa and call.value.shape[3] == width
    if plain and device == "cpu" and not hides_nan(call):
        mixed, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*call.heads_first(), scale=call.scale)
    elif plain and device == "cuda" and call.query.dtype in (torch.float16, torch.bfloat16):
        mixed, lse = torch.ops.aten._scaled_dot_product_flash_attention(*call.heads_first(), scale=call.scale)[:2]
    else:
        return math_with_lse(call)
    return mixed.transpose(1, 2).to(lse.dtype), lse.transpose(1, 2)


def run_native_flash(call: AttentionCall) -> Tensor:
    """torch's flash kernel, the processor's or CUDA's (FlashAttention-2, arXiv:2307.08691)."""
    if call.query.device.type != "cpu":
        return run_torch_kernel(SDPBackend.FLASH_ATTENTION)(call)
    if hides_nan(call):
        return run_math(call)
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
    query, key, value = call.heads_first()
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    scale = query.shape[3] ** -0.5 if call.scale is None else call.scale
    compute = torch.promote_types(query.dtype, torch.float32)  # scores of half precision would be too coarse
    key_BHDS, value = (key.to(compute) * scale).transpose(2, 3).contiguous(), value.to(compute).contiguous()
    batch, heads, rows, _ = query.shape
    step = max(1, CHUNK_BYTES // (batch * heads * key.shape[2] * 4))
    recorded = records_gradient(query, key, value, call.attn_mask)
    parts = []
    # One tensor for all parts: small ones between the large temporary ones would keep the allocator from reusing room.
    mixed = query.new_empty(0 if recorded else batch, rows, heads, value.shape[3])
    for start in range(0, rows, step):
        end = min(start + step, rows)
        part = (query[:, :, start:end].to(compute), key_BHDS, value, bias_of_rows(call, start, end), call.dropout_p)
        if recorded:
            parts.append(checkpoint(attend, *part, use_reentrant=False).to(query.dtype))
        else:
            mixed[:, start:end] = attend(*part)
    return torch.cat(parts, dim=1) if recorded else mixed


def attend(query: Tensor, key_BHDS: Tensor, value: Tensor, bias: Tensor | None, dropout_p: float) -> Tensor:
    """Scores, softmax, mean; a row that sees nothing gives zeros, as torch's own attention does."""
    with torch.autocast(query.device.type, enabled=False):  # it would take the scores back to half precision
        scores = query @ key_BHDS
        if bias is not None:
            scores = scores + bias
        weights = torch.ops.aten._safe_softmax(scores, -1)
        if dropout_p > 0.0:
            weights = dropout(weights, dropout_p)
        return (weights @ value).transpose(1, 2)


def bias_of_rows(call: AttentionCall, start: int, end: int) -> Tensor | None:
    """What is added to the scores of some of the query rows."""
    mask = call.attn_mask
    if call.is_causal:
        rows = torch.arange(start, end, device=call.query.device)[:, None]
        mask = (rows >= torch.arange(call.key.shape[1], device=call.query.device))[None, None]
    elif mask is not None and mask.shape[2] != 1:
        mask = mask[:, :, start:end]
    return replace(call, attn_mask=mask).bias()


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
