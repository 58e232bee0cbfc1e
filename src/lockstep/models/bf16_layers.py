"""Which layers of an accelerated model multiply in bf16: chosen by what each of them does to the model's result.

One forward pass computes each layer a second time in bf16, beside itself, and keeps the difference; one backward pass
of a random sign for each number of the result says how much of a difference arrives there. Layers are taken in the
order of what they cost the result for each multiplication; how many may be is measured on the whole, by halves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..attention import AttentionModuleMixin
from ..attention.kernels import OWN, OWN_BF16
from ..errors import InputError
from . import fast_layers
from .examples import Call
from .fast import Prepared
from .fast_token_layers import FastTanhGELU

Tensor = torch.Tensor
BOUND = 0.02  # relative L2 of a whole model to itself in fp32; OpenVINO's bf16 has as much on a UNet of SD 1.5
ENOUGH = 0.9  # of the bound: no more layers are tried


@dataclass(frozen=True)
class Choice:
    """What was chosen, and what it does to the model."""

    in_bf16: tuple[str, ...]
    kept: tuple[str, ...]  # in fp32, because the result would feel it; the most sensitive first
    error: float  # relative L2 of the model's result to that in fp32
    bound: float  # what it may be


@dataclass
class Effect:
    """What a layer in bf16 does to the result (its squared relative L2), and the multiplications that it has."""

    module: nn.Module
    multiplications: float = 0.0
    squared: float = 0.0


def able(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that can multiply in bf16."""
    return {name: module for name, module in model.named_modules() if _is_able(module)}


def _is_able(module: nn.Module) -> bool:
    if isinstance(module, AttentionModuleMixin):
        return getattr(module.processor, "_attention_backend", "") in (OWN, OWN_BF16)
    if not isinstance(module, Prepared) or module.by_torch:
        return False
    return not isinstance(module, fast_layers.FastConvolution) or module.kind() != ""


def switch(module: nn.Module, to_bf16: bool) -> None:
    """Multiply in bf16 from now on, or no longer."""
    if isinstance(module, AttentionModuleMixin):
        module.set_attention_backend(OWN_BF16 if to_bf16 else OWN)
    else:
        module.in_bf16 = to_bf16  # type: ignore[assignment]


def choose(model: nn.Module, call: Call, bound: float) -> Choice:
    """Switch the layers that may be, and say what it does."""
    layers = able(model)
    for module in layers.values():
        switch(module, False)
    effects = measure(model, call, layers)
    order = _in_order(effects)
    with torch.no_grad():
        exact = call(model)

        def error_of(count: int) -> float:
            switch_to(layers, order[:count])
            return float((call(model) - exact).norm() / exact.norm().clamp_min(1e-30))

        count, error = most_within(error_of, len(order), bound)
    switch_to(layers, order[:count])
    return Choice(tuple(order[:count]), _kept(effects, order[:count]), error, bound)


def most_within(error_of: Callable[[int], float], most: int, bound: float) -> tuple[int, float]:
    """How many of the first `most` keep to the bound, and their error: measured by halves.

    Which number is measured next depends on what passed alone. So however the errors jump, a looser bound never ends
    with fewer than a tighter one.
    """
    count, error, above, tried = 0, 0.0, most + 1, most
    while count < tried:
        found = error_of(tried)
        if found <= bound:
            count, error = tried, found
            if count == most or error >= ENOUGH * bound:
                break
        else:
            above = tried
        tried = (count + above) // 2
    return count, error


def switch_to(layers: dict[str, nn.Module], names: Iterable[str]) -> None:
    """Let these layers multiply in bf16, and no others."""
    chosen = set(names)
    for name, module in layers.items():
        switch(module, name in chosen)


def _in_order(effects: dict[str, Effect]) -> list[str]:
    """The layers that were called, those that save most for what they cost first."""
    called = [name for name, effect in effects.items() if effect.multiplications > 0]  # the others were not measured
    return sorted(called, key=lambda name: effects[name].squared / effects[name].multiplications)


def _kept(effects: dict[str, Effect], names: Iterable[str]) -> tuple[str, ...]:
    rest = set(effects) - set(names)
    return tuple(sorted(rest, key=lambda name: -effects[name].squared))


@dataclass
class _Probe:
    """Hooks that compare each layer with itself in bf16, and weigh the difference when the gradient comes by."""

    effects: dict[str, Effect]
    anchor: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float32, requires_grad=True))
    comparing: bool = False

    def watch(self, name: str, module: nn.Module) -> Any:
        def hook(module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
            if self.comparing:
                return None
            several = isinstance(output, tuple)
            parts = output if several else (output,)
            lower = self.lower(module, given, named)
            watched = tuple(self.weighed(name, part, low) for part, low in zip(parts, lower, strict=True))
            self.effects[name].multiplications += multiplications(module, parts[0], given, named)
            return watched if several else watched[0]

        return module.register_forward_hook(hook, with_kwargs=True)

    def lower(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """What the layer gives in bf16."""
        self.comparing = True
        switch(module, True)
        try:
            with torch.no_grad():
                result = module(*given, **named)
        finally:
            switch(module, False)
            module.__dict__.pop("_prepared", None)
            self.comparing = False
        return result if isinstance(result, tuple) else (result,)

    def weighed(self, name: str, output: Any, lower: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        difference, effect = lower - output.detach(), self.effects[name]

        def arrive(gradient: Tensor) -> None:
            effect.squared += float((gradient * difference).square().sum(dtype=torch.float64))

        output = output + self.anchor
        output.register_hook(arrive)
        return output


def measure(model: nn.Module, call: Call, layers: dict[str, nn.Module]) -> dict[str, Effect]:
    """What each layer in bf16, alone, does to the result: one pass forwards, one backwards."""
    probe = _Probe({name: Effect(module) for name, module in layers.items()})
    if not layers:
        return {}
    hooks = [probe.watch(name, module) for name, module in layers.items()]
    try:
        with torch.enable_grad():
            result = call(model)
            if not result.requires_grad:
                raise InputError(
                    "The result to measure by has no gradient, and by its gradient the layers are weighed. Leave "
                    "torch.no_grad() and .detach() out of 'example', and let it return what the model said."
                )
            signs = torch.randint(0, 2, result.shape, generator=torch.Generator().manual_seed(1)) * 2 - 1
            torch.autograd.grad((result * signs).sum(), probe.anchor, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    size = float(result.detach().square().sum(dtype=torch.float64))
    for effect in probe.effects.values():
        effect.squared /= max(size, 1e-30)
    return probe.effects


def multiplications(module: nn.Module, output: Any, given: tuple[Any, ...], named: dict[str, Any]) -> float:
    """How many products a call of a layer has."""
    size = float(output.numel())
    if isinstance(module, fast_layers.FastLinear):
        return size * module.in_features
    if isinstance(module, (fast_layers.FastGEGLU, FastTanhGELU)):
        return (2 if isinstance(module, fast_layers.FastGEGLU) else 1) * size * module.proj.in_features
    if isinstance(module, fast_layers.FastConvolution):
        return size * module.in_channels * (36 / 16 if module.kind() == "winograd" else 1)
    sequences = [one for one in (*given, *named.values()) if isinstance(one, Tensor) and one.ndim == 3]
    return 2 * size * sequences[-1].shape[1] if sequences else size
