"""FreeU (arXiv:2309.11497): on the first two stages of a UNet's way up, half of the backbone's channels are amplified
and the low frequencies of the skips are damped. Nothing is trained, and the UNet itself does not change: hooks before
the resnets, which take backbone and skip side by side, weigh the two.
"""

from __future__ import annotations

import math
import typing
from dataclasses import asdict, dataclass, fields

import torch
from torch import nn

from ...errors import InputError, UnsupportedError
from ..modeling import ModelMixin
from .unet_2d_blocks import UpBlock2D

Tensor = torch.Tensor
LOW = 1  # how many frequencies to each side of the middle count as low


@dataclass(frozen=True)
class FreeU:
    """What the skips (s) and the backbone (b) of stage 1 and 2 are multiplied with."""

    s1: float
    s2: float
    b1: float
    b2: float

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise InputError(f"enable_freeu wants {name} as a finite number, got {value!r}.")

    def stages(self) -> tuple[tuple[float, float], ...]:
        """Backbone and skip of each stage."""
        return (self.b1, self.s1), (self.b2, self.s2)


@dataclass(frozen=True)
class WeighSkip:
    """A hook before a resnet of the way up: weighs what comes from below against the skip."""

    backbone: float
    skip: float
    width: int  # channels that come from below; those of the skip follow

    def __call__(self, resnet: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        joined, *rest = inputs
        half = self.width // 2
        amplified, kept, skip = joined.split([half, self.width - half, joined.shape[1] - self.width], dim=1)
        return torch.cat([amplified * self.backbone, kept, scale_low_frequencies(skip, self.skip)], dim=1), *rest


def scale_low_frequencies(maps: Tensor, scale: float) -> Tensor:
    """Multiply the frequencies around the middle of the spectrum; always in fp32, as half precision overflows."""
    spectrum = torch.fft.fftshift(torch.fft.fftn(maps.float(), dim=(-2, -1)), dim=(-2, -1))
    row, column = maps.shape[-2] // 2, maps.shape[-1] // 2
    weights = torch.ones(maps.shape[-2:], device=maps.device)
    weights[row - LOW : row + LOW, column - LOW : column + LOW] = scale
    filtered = torch.fft.ifftn(torch.fft.ifftshift(spectrum * weights, dim=(-2, -1)), dim=(-2, -1))
    return filtered.real.to(maps.dtype)


class FreeUMixin(ModelMixin):
    """`enable_freeu` and `disable_freeu`, for a UNet."""

    up_blocks: nn.ModuleList
    freeu: FreeU | None = None  # in use

    def enable_freeu(self, s1: float, s2: float, b1: float, b2: float) -> None:
        """Weigh skips and backbone on the first two stages of the way up; other values take the place of earlier."""
        settings = FreeU(s1, s2, b1, b2)
        blocks = list(getattr(self, "up_blocks", ()))
        if not blocks or not all(isinstance(block, UpBlock2D) for block in blocks):
            kinds = ", ".join(dict.fromkeys(type(block).__name__ for block in blocks)) or "none"
            raise UnsupportedError(
                f"FreeU acts on UpBlock2D and CrossAttnUpBlock2D; the up blocks of this {type(self).__name__}: {kinds}."
            )
        self.disable_freeu()
        width = self.config["block_out_channels"][-1]
        for block, (backbone, skip) in zip(blocks, settings.stages(), strict=False):
            for resnet in typing.cast("nn.ModuleList", block.resnets):
                resnet.register_forward_pre_hook(WeighSkip(float(backbone), float(skip), width))
                width = typing.cast(nn.GroupNorm, resnet.norm2).num_channels
        self._tell_freeu(settings)

    def disable_freeu(self) -> None:
        """Nothing is weighed any more."""
        for module in self.modules():
            for number, hook in list(module._forward_pre_hooks.items()):
                if isinstance(hook, WeighSkip):
                    del module._forward_pre_hooks[number]
        self._tell_freeu(None)

    def _tell_freeu(self, settings: FreeU | None) -> None:
        """Here, and on each block under the published names: `up_block.s1` and so on."""
        self.freeu = settings
        for block in getattr(self, "up_blocks", ()):
            for one in fields(FreeU):
                setattr(block, one.name, None if settings is None else getattr(settings, one.name))
