"""Pictures as CLIP's vision transformer reads them: the shorter side scaled, the middle cut out, normalised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from ...configuration import register_to_config
from ...outputs import Output
from .pictures import PictureProcessor


@dataclass
class PixelValues(Output):
    """`out.pixel_values` and `out["pixel_values"]` are the same."""

    pixel_values: torch.Tensor


class CLIPImageProcessor(PictureProcessor):
    """Pictures of one size."""

    @register_to_config
    def __init__(
        self,
        *,
        size: dict[str, int] | int = 224,
        crop_size: dict[str, int] | int = 224,
        resample: int = 3,
        do_resize: bool = True,
        do_center_crop: bool = True,
        do_rescale: bool = True,
        do_normalize: bool = True,
        do_convert_rgb: bool = True,
        rescale_factor: float = 1 / 255,
        image_mean: list[float] = [0.48145466, 0.4578275, 0.40821073],  # noqa: B006  # a config value
        image_std: list[float] = [0.26862954, 0.26130258, 0.27577711],  # noqa: B006
    ) -> None:
        pass

    def __call__(self, images: Image.Image | Sequence[Image.Image], return_tensors: str = "pt") -> PixelValues:
        """PIL pictures (one, or a list) to a batch of pixels."""
        return PixelValues(torch.from_numpy(np.stack([self.pixels(one) for one in self.listed(images)])))

    def pixels(self, picture: Image.Image) -> np.ndarray:
        """One picture as channels, height, width."""
        config = self.config
        picture = picture.convert("RGB") if config.do_convert_rgb else picture
        if config.do_resize:
            picture = picture.resize(self.scaled(picture), resample=Image.Resampling(config.resample))
        values = np.asarray(picture)
        if config.do_center_crop:
            values = cropped(values, *sides(config.crop_size))
        values = values.astype(np.float32)
        if config.do_rescale:
            values = values * np.float32(config.rescale_factor)
        if config.do_normalize:
            values = (values - np.array(config.image_mean, np.float32)) / np.array(config.image_std, np.float32)
        return values.transpose(2, 0, 1)

    def scaled(self, picture: Image.Image) -> tuple[int, int]:
        """Width and height: the shorter side as wanted, or both of them."""
        size = self.config.size
        if isinstance(size, Mapping) and "height" in size:
            return size["width"], size["height"]
        side = size["shortest_edge"] if isinstance(size, Mapping) else size
        if picture.width <= picture.height:
            return side, int(side * picture.height / picture.width)
        return int(side * picture.width / picture.height), side


def sides(size: Any) -> tuple[int, int]:
    """Height and width of a config value that may be one number for both."""
    return (size["height"], size["width"]) if isinstance(size, Mapping) else (size, size)


def cropped(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle; black around a picture that is smaller."""
    missing = (max(height - values.shape[0], 0), max(width - values.shape[1], 0))
    if any(missing):
        around = [((short + 1) // 2, short // 2) for short in missing]
        values = np.pad(values, [*around, (0, 0)])
    top, left = (values.shape[0] - height) // 2, (values.shape[1] - width) // 2
    return values[top : top + height, left : left + width]
