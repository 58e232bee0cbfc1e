"""Frequency-decoupled guidance: classifier-free guidance band by band of a Laplacian pyramid (arXiv:2506.19713)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch.nn import functional as F

from ..configuration import register_to_config
from ..errors import ConfigError, InputError
from .classifier_free import project
from .guidance import CONDITIONAL, UNCONDITIONAL, BaseGuidance, GuiderOutput, extrapolate, is_off, rescale_noise_cfg

Tensor = torch.Tensor


class FrequencyDecoupledGuidance(BaseGuidance):
    """One guidance scale a band, the finest first."""

    @register_to_config
    def __init__(
        self,
        guidance_scales: tuple[float, ...] = (10.0, 5.0),
        guidance_rescale: float | tuple[float, ...] = 0.0,
        parallel_weights: float | tuple[float, ...] | None = None,
        use_original_formulation: bool = False,
        start: float | tuple[float, ...] = 0.0,
        stop: float | tuple[float, ...] = 1.0,
        guidance_rescale_space: Literal["data", "freq"] = "data",
        upcast_to_double: bool = True,
        enabled: bool = True,
    ) -> None:
        self.guidance_scales = list(guidance_scales)
        self.starts, self.stops = self._per_band("start", start), self._per_band("stop", stop)
        self.rescales = self._per_band("guidance_rescale", guidance_rescale)
        self.parallel_weights = self._per_band(
            "parallel_weights", 1.0 if parallel_weights is None else parallel_weights
        )
        super().__init__(min(self.starts), max(self.stops), enabled)
        self.rescale_space = guidance_rescale_space
        self.use_original_formulation = use_original_formulation
        self.upcast_to_double = upcast_to_double

    def _per_band(self, name: str, value: float | Sequence[float]) -> list[float]:
        wanted = len(self.guidance_scales)
        if isinstance(value, (int, float)):
            return [float(value)] * wanted
        if len(value) != wanted:
            raise ConfigError(
                f"FrequencyDecoupledGuidance: {name!r} needs one value a band ({wanted}), got {len(value)}."
            )
        return list(value)

    def acts(self) -> bool:
        off = all(is_off(scale, self.use_original_formulation) for scale in self.guidance_scales)
        return not off and self.acts_within(self._start, self._stop)

    def _acts_in(self, band: int) -> bool:
        off = is_off(self.guidance_scales[band], self.use_original_formulation)
        return not off and self.acts_within(self.starts[band], self.stops[band])

    def branches(self) -> list[tuple[str, int]]:
        both = [("pred_cond", CONDITIONAL), ("pred_uncond", UNCONDITIONAL)]
        return both if self.acts() else both[:1]

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None) -> GuiderOutput:  # type: ignore[override]
        if not self.acts() or pred_uncond is None:
            return GuiderOutput(pred_cond, pred_cond, pred_uncond)
        bands = len(self.guidance_scales)
        cond_pyramid, uncond_pyramid = laplacian_pyramid(pred_cond, bands), laplacian_pyramid(pred_uncond, bands)
        guided = [self._guide(band, cond_pyramid[band], uncond_pyramid[band]) for band in range(bands)]
        pred = from_pyramid(guided)
        if self.rescale_space == "data" and self.rescales[0] > 0.0:
            pred = rescale_noise_cfg(pred, pred_cond, self.rescales[0])
        return GuiderOutput(pred, pred_cond, pred_uncond)

    def _guide(self, band: int, cond: Tensor, uncond: Tensor) -> Tensor:
        if not self._acts_in(band):
            return cond
        scale, weight, rescale = self.guidance_scales[band], self.parallel_weights[band], self.rescales[band]
        if math.isclose(weight, 1.0):
            pred = extrapolate(cond, uncond, scale, self.use_original_formulation)
        else:
            parallel, orthogonal = project(cond - uncond, cond, list(range(1, cond.ndim)), self.upcast_to_double)
            pred = (cond if self.use_original_formulation else uncond) + scale * (weight * parallel + orthogonal)
        if self.rescale_space == "freq" and rescale > 0.0:
            pred = rescale_noise_cfg(pred, cond, rescale)
        return pred


def blur(image: Tensor) -> Tensor:
    """The 5x5 binomial filter with mirrored borders."""
    line = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], dtype=image.dtype, device=image.device) / 16
    kernel = torch.outer(line, line).expand(image.shape[1], 1, 5, 5)
    return F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), kernel, groups=image.shape[1])


def halve(image: Tensor) -> Tensor:
    size = (image.shape[-2] // 2, image.shape[-1] // 2)
    return F.interpolate(blur(image), size=size, mode="bilinear", align_corners=False)


def double(image: Tensor) -> Tensor:
    size = (image.shape[-2] * 2, image.shape[-1] * 2)
    return blur(F.interpolate(image, size=size, mode="bilinear", align_corners=False))


def laplacian_pyramid(image: Tensor, levels: int) -> list[Tensor]:
    """Differences of ever coarser copies, the finest first; the last is what remains."""
    factor = 2 ** (levels - 1)
    if image.ndim != 4 or image.shape[-1] % factor or image.shape[-2] % factor:
        raise InputError(
            f"{levels} frequency bands need predictions (batch, channels, height, width) with sides that are multiples of "
            f"{factor}, got {tuple(image.shape)}. Use fewer guidance_scales or another size."
        )
    bands = []
    for _ in range(levels - 1):
        coarser = halve(image)
        bands.append(image - double(coarser))
        image = coarser
    return [*bands, image]


def from_pyramid(bands: list[Tensor]) -> Tensor:
    image = bands[-1]
    for band in reversed(bands[:-1]):
        image = double(image) + band
    return image
