"""Which arithmetic a run uses: bf16 autocast where the processor multiplies bf16 itself, fp32 elsewhere."""

from __future__ import annotations

import torch


def has_native_bf16() -> bool:
    """Whether the processor has bf16 dot products; emulated ones are several times slower than fp32."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def autocast(enabled: bool | None = None) -> torch.autocast:
    """The context of a training forward pass; `None` means "if the processor has it"."""
    return torch.autocast("cpu", torch.bfloat16, enabled=has_native_bf16() if enabled is None else enabled)
