"""Frequency-decoupled guidance: classifier-free guidance band by band of a Laplacian pyramid (arXiv:2506.19713)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import field
from typing import Literal

import torch
from torch.nn import functional as F

from ..errors import ConfigError, InputError
from .classifier_free import project
from .guidance import BaseGuidance, GuiderOutput, extrapolate, is_off, rescale_noise_cfg

Tensor = torch.Tensor
SMALLEST = 3  # pixels along a side that the filter's mirrored border needs


class FrequencyDecoupledGuidance(BaseGuidance):
    """One guidance scale a band, the finest first; every other value can be one for all bands or a list, too."""

    guidance_scales: tuple[float, ...] = field(default=(10.0, 5.0), kw_only=False)
    guidance_rescale: float | tuple[float, ...] = 0.0
    parallel_weights: float | tuple[float, ...] | None = None
    use_original_formulation: bool = False
    start: float | tuple[float, ...] = 0.0  # type: ignore[assignment]  # the others have no bands
    stop: float | tuple[float, ...] = 1.0  # type: ignore[assignment]
    guidance_rescale_space: Literal["data", "freq"] = "data"
    upcast_to_double: bool = True

    def __post_init__(self) -> None:
        for name in ("guidance_rescale", "parallel_weights"):
            self.per_band(name)
        super().__post_init__()

    def per_band(self, name: str) -> list[float]:
        """A setting written out, one value a band."""
        value, bands = getattr(self, name), len(self.guidance_scales)
        if not isinstance(value, (list, tuple)):
            return [1.0 if value is None else float(value)] * bands
        if len(value) != bands:
            raise ConfigError(
                f"FrequencyDecoupledGuidance: {name!r} needs one value a band ({bands}), got {len(value)}."
            )
        return list(value)

    @property
    def interval(self) -> tuple[float, float]:
        return min(self.per_band("start")), max(self.per_band("stop"))

    def acts(self) -> bool:
        off = all(is_off(scale, self.use_original_formulation) for scale in self.guidance_scales)
        return not off and super().acts()

    def acts_in(self, band: int) -> bool:
        """Whether this step guides the band."""
        off = is_off(self.guidance_scales[band], self.use_original_formulation)
        return not off and self.acts_within(self.per_band("start")[band], self.per_band("stop")[band])

    def check_model(self, denoiser: torch.nn.Module) -> None:
        if getattr(denoiser, "packed_side", 1) > 1:
            raise InputError(
                f"FrequencyDecoupledGuidance blurs rows and columns of a prediction, and those of "
                f"{type(denoiser).__name__} are tokens in a line. Use another guider."
            )

    def forward(self, pred_cond: Tensor, pred_uncond: Tensor | None = None) -> GuiderOutput:  # type: ignore[override]
        if not self.acts() or pred_uncond is None:
            return GuiderOutput(pred_cond, pred_cond, pred_uncond)
        bands = len(self.guidance_scales)
        cond_pyramid, uncond_pyramid = laplacian_pyramid(pred_cond, bands), laplacian_pyramid(pred_uncond, bands)
        guided = [self._guide(band, cond_pyramid[band], uncond_pyramid[band]) for band in range(bands)]
        pred = from_pyramid(guided)
        rescale = self.per_band("guidance_rescale")[0]
        if self.guidance_rescale_space == "data" and rescale > 0.0:
            pred = rescale_noise_cfg(pred, pred_cond, rescale)
        return GuiderOutput(pred, pred_cond, pred_uncond)

    def _guide(self, band: int, cond: Tensor, uncond: Tensor) -> Tensor:
        if not self.acts_in(band):
            return cond
        scale, weight = self.guidance_scales[band], self.per_band("parallel_weights")[band]
        if math.isclose(weight, 1.0):
            pred = extrapolate(cond, uncond, scale, self.use_original_formulation)
        else:
            parallel, orthogonal = project(cond - uncond, cond, list(range(1, cond.ndim)), self.upcast_to_double)
            pred = (cond if self.use_original_formulation else uncond) + scale * (weight * parallel + orthogonal)
        rescale = self.per_band("guidance_rescale")[band]
        if self.guidance_rescale_space == "freq" and rescale > 0.0:
            pred = rescale_noise_cfg(pred, cond, rescale)
        return pred


def frame_by_frame(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same for videos (batch, channels, frames, height, width), each frame by itself."""

    @functools.wraps(change)
    def changed(image: Tensor) -> Tensor:
        if image.ndim == 4:
            return change(image)
        return change(image.flatten(0, 1)).unflatten(0, image.shape[:2])  # every plane is filtered by itself

    return changed


def blur(image: Tensor) -> Tensor:
    """The 5x5 binomial filter with mirrored borders."""
    line = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], dtype=image.dtype, device=image.device) / 16
    kernel = torch.outer(line, line).expand(image.shape[1], 1, 5, 5)
    return F.conv2d(F.pad(image, (2, 2, 2, 2), mode="reflect"), kernel, groups=image.shape[1])


@frame_by_frame
def halve(image: Tensor) -> Tensor:
    height, width = image.shape[2:]
    return F.interpolate(blur(image), size=(height // 2, width // 2), mode="bilinear", align_corners=False)


@frame_by_frame
def double(image: Tensor) -> Tensor:
    height, width = image.shape[2:]
    return blur(F.interpolate(image, size=(height * 2, width * 2), mode="bilinear", align_corners=False))


def laplacian_pyramid(image: Tensor, levels: int) -> list[Tensor]:
    """Differences of ever coarser copies, the finest first; the last is what remains."""
    factor = 2 ** (levels - 1)
    too_small = levels > 1 and min(image.shape[-2:]) // (factor // 2) < SMALLEST
    if image.ndim not in (4, 5) or too_small or any(side % factor for side in image.shape[-2:]):
        raise InputError(
            f"{levels} frequency bands need predictions (batch, channels, height, width), or those of a video with its "
            f"frames before the height, with sides that are multiples of {factor} and at least "
            f"{max(SMALLEST * factor // 2, factor)}, got {tuple(image.shape)}. Use fewer guidance_scales or another "
            "size."
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
