"""What the usual rules say about the same two runs: every module's output by a fixed criterion,
the first that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

RULES: dict[str, Callable[[torch.Tensor, torch.Tensor], bool]] = {
    "max_diff < 1e-3": lambda a, b: float((a - b).abs().max()) < 1e-3,
    "cosine > 0.9999": lambda a, b: float(torch.cosine_similarity(a, b, dim=0)) > 0.9999,
    "mean of tensors": lambda a, b: abs(float(a.mean() - b.mean())) <= 1e-3 * max(abs(float(a.mean())), 1e-3),
    "50 % statistics": lambda a, b: all(
        abs(x - y) <= 0.5 * max(abs(x), 1e-12) for x, y in zip(_statistics(a), _statistics(b), strict=True)
    ),
    "L1 hash": lambda a, b: float(a.abs().sum()) == float(b.abs().sum()),
    "|d| < 1e-5": lambda a, b: float((a - b).norm()) < 1e-5,
}


def _statistics(x: torch.Tensor) -> tuple[float, float, float, float]:
    return float(x.max()), float(x.min()), float(x.mean()), float(x.norm())


def layer_outputs(target: Any, call: Callable[[], Any]) -> dict[str, list[torch.Tensor]]:
    """Outputs of every module, in the order of the calls."""
    roots = (
        {"model": target}
        if isinstance(target, nn.Module)
        else {k: v for k, v in vars(target).items() if isinstance(v, nn.Module)}
    )
    found: dict[str, list[torch.Tensor]] = {}
    handles = []

    def keep(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, result: Any) -> None:
            tensor = result[0] if isinstance(result, tuple) else result
            if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
                found.setdefault(path, []).append(tensor.detach().float().reshape(-1))

        return hook

    for root, module in roots.items():
        for path, child in module.named_modules():
            handles.append(child.register_forward_hook(keep(f"{root}.{path}" if path else root)))
    try:
        call()
    finally:
        for handle in handles:
            handle.remove()
    return found


def flagged(a: dict[str, list[torch.Tensor]], b: dict[str, list[torch.Tensor]]) -> dict[str, str | None]:
    """Per rule the first module whose output fails it; None if all pass."""
    return {name: _first(a, b, rule) for name, rule in RULES.items()}


def _first(a: dict[str, list[torch.Tensor]], b: dict[str, list[torch.Tensor]], rule: Any) -> str | None:
    for path, tensors in a.items():
        for left, right in zip(tensors, b.get(path, []), strict=False):
            if left.shape != right.shape or not rule(left, right):
                return path
    return None
