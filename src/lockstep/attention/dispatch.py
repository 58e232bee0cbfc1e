"""`dispatch_attention_fn`: check the call, choose a backend, run it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from ..errors import BackendError, InputError
from .backends import AttentionBackend, get_backend
from .kernels import AttentionCall
from .parallel import SequenceParallel, attend

Tensor = torch.Tensor


class _Chosen(threading.local):
    """What the context managers below chose in this thread (a thread-local, as torch.compile can guard on it)."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.replacement: Callable[[AttentionCall], Tensor | None] | None = None


_CHOSEN = _Chosen()


@contextmanager
def attention_backend(name: str) -> Iterator[None]:
    """Within the block and this thread, attention that has no backend of its own runs on this one."""
    get_backend(name)
    before, _CHOSEN.name = _CHOSEN.name, name
    try:
        yield
    finally:
        _CHOSEN.name = before


@contextmanager
def attention_replaced_by(replacement: Callable[[AttentionCall], Tensor | None]) -> Iterator[None]:
    """Within the block and this thread, `replacement(call)` stands in for attention wherever it gives a tensor."""
    before, _CHOSEN.replacement = _CHOSEN.replacement, replacement
    try:
        yield
    finally:
        _CHOSEN.replacement = before


def dispatch_attention_fn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    backend: str | None = None,
    parallel_config: SequenceParallel | None = None,
) -> Tensor:
    """Scaled dot-product attention of (batch, tokens, heads, head width) tensors, by the backend that applies here."""
    check_tensors(query, key, value, enable_gqa)
    if not 0.0 <= dropout_p < 1.0:
        raise InputError(f"Attention wants dropout_p from 0 up to but not 1, got {dropout_p}.")
    if attn_mask is not None:
        check_mask(attn_mask, query, key, is_causal, whole=parallel_config is None)
        attn_mask = attn_mask[(None,) * (4 - attn_mask.ndim)]
        if attn_mask.is_floating_point():  # under autocast a model's bias may be wider than its projections
            attn_mask = attn_mask.to(query.dtype)
    call = AttentionCall(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if _CHOSEN.replacement is not None:
        replaced = _CHOSEN.replacement(call)
        if replaced is not None:
            return replaced
    chosen = get_backend(backend or _CHOSEN.name or "native")
    if parallel_config is None:
        return run_checked(chosen, call)
    if not isinstance(parallel_config, SequenceParallel):
        raise BackendError(
            f"parallel_config is a SequenceParallel, which enable_parallelism sets on processors, got "
            f"{type(parallel_config).__name__}."
        )
    return attend(call, parallel_config, partial(run_checked, chosen), chosen.run_with_lse)


def run_checked(chosen: AttentionBackend, call: AttentionCall) -> Tensor:
    """The call by this backend, unless it cannot do it."""
    reason = chosen.unsuited(call)
    if reason is not None:
        raise BackendError(f"Attention backend {chosen.name!r} cannot do this call: {reason}. Choose another backend.")
    return chosen.run(call)


def check_tensors(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    """Refuse tensors that do not fit together, before anything is computed."""
    kinds = [type(one).__name__ for one in (query, key, value) if not isinstance(one, Tensor)]
    if kinds or not query.is_floating_point():
        raise InputError(f"Attention wants floating-point tensors, got {kinds[0] if kinds else query.dtype}.")
    if not query.ndim == key.ndim == value.ndim == 4:
        raise InputError(
            "Attention wants query, key and value as (batch, tokens, heads, head width), "
            f"got {tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}."
        )
    if key.shape[:3] != value.shape[:3] or query.shape[0] != key.shape[0] or query.shape[3] != key.shape[3]:
        raise InputError(
            "Attention wants one batch size, as many values as keys and one head width for query and key, "
            f"got query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}."
        )
    heads, key_heads = query.shape[2], key.shape[2]
    if heads != key_heads and not (enable_gqa and key_heads and heads % key_heads == 0):
        raise InputError(
            f"Attention got {heads} query heads and {key_heads} key heads. They have to be equal, or with "
            "enable_gqa=True the first a multiple of the second."
        )
    if not query.dtype == key.dtype == value.dtype:
        raise InputError(f"Attention wants one dtype, got {query.dtype}, {key.dtype} and {value.dtype}.")
    if not query.device == key.device == value.device:
        raise InputError(f"Attention wants one device, got {query.device}, {key.device} and {value.device}.")


def check_mask(mask: Tensor, query: Tensor, key: Tensor, is_causal: bool, *, whole: bool = True) -> None:
    """A mask is bool (true: keep) or a bias, and broadcasts to (batch, heads, query tokens, key tokens).

    Where tokens are shared out among ranks (`whole` off), their numbers are checked by who knows all of them.
    """
    if is_causal:
        raise InputError("Attention takes a mask or is_causal=True, not both. Put the causal part into the mask.")
    if not isinstance(mask, Tensor) or mask.device != query.device:
        got = f"one on {mask.device}" if isinstance(mask, Tensor) else type(mask).__name__
        raise InputError(f"Attention wants a mask that is a tensor on {query.device}, got {got}.")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise InputError(f"Attention wants a mask of bool or floating point, got {mask.dtype}. Use mask.bool().")
    wanted, sizes = (query.shape[0], query.shape[2], query.shape[1], key.shape[1]), tuple(mask.shape)
    offset = 4 - len(sizes)
    checked = range(4 if whole else 2)
    if offset < 0 or any(
        size not in (1, wanted[offset + axis]) for axis, size in enumerate(sizes) if offset + axis in checked
    ):
        raise InputError(
            f"Attention wants a mask that broadcasts to {wanted} (batch, heads, query tokens, key tokens), got {sizes}."
        )
