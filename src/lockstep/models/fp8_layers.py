"""Linear layers that multiply in fp8 (e4m3), where a device does; weights stay as they are beside it."""

from __future__ import annotations

import re

import torch
from torch import nn

from .layerwise_casting import SKIPPED

Tensor = torch.Tensor
FP8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FP8).max
STEP = 16  # a product in fp8 wants sizes that are multiples of this
SENSITIVE = (*SKIPPED, "time", "embed")  # small layers that all others depend on
LEAST = (8, 9)  # the first compute capability of CUDA that multiplies fp8


def fp8_missing(device: torch.device) -> str | None:
    """Why a device does not multiply in fp8; None where it does."""
    if device.type == "cuda":
        return None if torch.cuda.get_device_capability(device) >= LEAST else "the device is older than fp8"
    return None if device.type == "cpu" else f"products in fp8 are not known of {device.type}"


class Fp8Linear(nn.Linear):
    """A linear layer whose factors are rounded to fp8, each by one scale for the whole."""

    _quantised: tuple[tuple[int, int], Tensor, Tensor] | None = None

    def forward(self, input: Tensor) -> Tensor:
        if torch.is_grad_enabled() and (input.requires_grad or self.weight.requires_grad):
            return super().forward(input)
        weight, weight_scale = self._weight()
        rows = input.reshape(-1, self.in_features)
        scale = scale_of(rows)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        product = torch._scaled_mm(
            (rows / scale).to(FP8), weight.t(), scale_a=scale, scale_b=weight_scale, out_dtype=input.dtype
        )
        product = product if bias is None else product + bias
        return product.unflatten(0, input.shape[:-1])

    def _weight(self) -> tuple[Tensor, Tensor]:
        state = self.weight.data_ptr(), 0 if self.weight.is_inference() else self.weight._version
        if self._quantised is None or self._quantised[0] != state:
            scale = scale_of(self.weight.detach())
            self._quantised = state, (self.weight.detach() / scale).to(FP8), scale
        return self._quantised[1:]

    def restore(self) -> None:
        """A plain linear layer again."""
        self.__dict__.pop("_quantised", None)
        self.__class__ = nn.Linear  # type: ignore[assignment]


def scale_of(numbers: Tensor) -> Tensor:
    """What the numbers are divided by so that the largest is the largest of fp8."""
    return (numbers.abs().amax().float() / LARGEST).clamp_min(1e-12)


def make_fp8(model: nn.Module) -> int:
    """Let the linear layers multiply in fp8 whose sizes allow it; how many there are."""
    sensitive, changed = [re.compile(pattern) for pattern in SENSITIVE], 0
    for name, module in model.named_modules():
        fits = type(module) is nn.Linear and not (module.in_features % STEP or module.out_features % STEP)
        if fits and not any(pattern.search(name) for pattern in sensitive):
            module.__class__ = Fp8Linear
            changed += 1
    return changed
