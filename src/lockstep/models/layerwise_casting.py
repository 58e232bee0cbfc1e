"""Weights kept in a small dtype and computed in another: each layer is cast while it runs, and no longer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
SKIPPED = ("pos_embed", "patch_embed", "norm", r"^proj_in$", r"^proj_out$", r"\.lora_")  # small, or sensitive


def cast_layerwise(model: nn.Module, storage: torch.dtype, compute: torch.dtype, skipped: Iterable[str]) -> None:
    """Store the weights of every layer in `storage` whose path no pattern is found in; the rest is in `compute`."""
    patterns = [re.compile(pattern) for pattern in skipped]
    for path, layer in model.named_modules():
        if isinstance(layer, LAYERS) and not any(pattern.search(path) for pattern in patterns):
            _cast_around(layer, storage, compute)


def _cast_around(layer: nn.Module, storage: torch.dtype, compute: torch.dtype) -> None:
    def before(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        module.to(compute)
        return tuple(a.to(compute) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args)

    def after(module: nn.Module, *_: Any) -> None:
        module.to(storage)

    layer.to(storage)
    layer.register_forward_pre_hook(before)
    layer.register_forward_hook(after, always_call=True)
