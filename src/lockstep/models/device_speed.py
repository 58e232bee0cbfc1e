"""Models on an accelerator (CUDA, XPU, MPS, …): blocks compiled where they repeat, channels last, products in fp8.

Nothing here asks for one kind of device: what a device cannot do is left out, and said. It was tested on the processor
and on `meta`, and has not been measured on an accelerator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..notes import say_once
from .accelerated import HIGH
from .examples import Call
from .fp8_layers import Fp8Linear, fp8_missing, make_fp8

Tensor = torch.Tensor
COMPILING = ("cuda", "xpu", "cpu")  # devices that torch's compiler writes kernels for
CHANNELS_LAST, PLAIN = torch.channels_last, torch.contiguous_format


@dataclass(frozen=True)
class DeviceSpeed:
    """What was done to a model on a device."""

    level: str
    device: str
    regions: int  # blocks that are compiled, by one kernel for all that are alike
    in_fp8: int  # linear layers whose products are in fp8
    error: float  # relative L2 of the whole model to what it was before; 0 where nothing was rounded
    bound: float

    @property
    def name(self) -> str:
        """What a manifest says of it."""
        return f"{self.level}={self.bound:g}" if self.in_fp8 else self.level

    def __str__(self) -> str:
        rounded = f", {self.in_fp8} layers multiply in fp8 (relative L2 of the whole model: {self.error:.1e})"
        blocks = f"{self.regions} blocks compiled, channels last"
        return f"{self.level} on {self.device}: {blocks}{rounded if self.in_fp8 else ''}"


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """Blocks of which there are several of a kind in a list: compiled once, they serve all. The outermost count."""
    listed = [block for part in model.modules() if isinstance(part, nn.ModuleList) for block in part]
    kinds = [type(block) for block in listed]
    several = [block for block in listed if kinds.count(type(block)) > 1 and any(True for _ in block.children())]
    inside = {id(part) for block in several for part in block.modules() if part is not block}
    return [block for block in several if id(block) not in inside]


def speed_up(model: Any, level: str, call: Call | None, bound: float, **compiler: Any) -> DeviceSpeed:
    """Let torch's compiler have the repeated blocks, and at "high" fp8 the linear layers, if the bound holds."""
    device = next(model.parameters()).device
    _lay_out(model, CHANNELS_LAST)
    in_fp8, error = _in_fp8(model, device, call, bound) if level == HIGH else (0, 0.0)
    blocks = repeated_blocks(model) if device.type in COMPILING else []
    for block in blocks:
        block.compile(**compiler)
    if not blocks and device.type not in COMPILING:
        say_once(f"torch's compiler writes nothing for {device.type}: the blocks run as they are.")
    return DeviceSpeed(level, device.type, len(blocks), in_fp8, error, bound)


def slow_down(model: nn.Module) -> None:
    """As it was."""
    for module in model.modules():
        module._compiled_call_impl = None
        if isinstance(module, Fp8Linear):
            module.restore()
    _lay_out(model, PLAIN)


def _lay_out(model: nn.Module, layout: torch.memory_format) -> None:
    """The weights of 2-d convolutions with their channels last, or not; the numbers stay where somebody reads them."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and not module.weight.is_contiguous(memory_format=layout):
            module.weight.data = module.weight.data.contiguous(memory_format=layout)


def _in_fp8(model: nn.Module, device: torch.device, call: Call | None, bound: float) -> tuple[int, float]:
    """How many layers multiply in fp8 now, and what that does to a call; none where it does more than the bound."""
    reason = fp8_missing(device)
    if reason is None and call is None:
        reason = "nothing to measure it by; give a call of the model: accelerate('high', example=lambda model: …)"
    if reason is not None or call is None:
        say_once(f"{type(model).__name__} stays as it is at 'high', without fp8: {reason}.")
        return 0, 0.0
    with torch.no_grad():
        exact = call(model)
        changed = make_fp8(model)
        error = float((call(model) - exact).norm() / exact.norm().clamp_min(1e-30))
    if error <= bound:
        return changed, error
    slow_down(model)
    _lay_out(model, CHANNELS_LAST)
    say_once(f"fp8 changes {type(model).__name__} by {error:.1e}, more than {bound:g}: it stays as it is.")
    return 0, 0.0
