"""Pictures as Qwen2-VL's and Qwen2.5-VL's vision towers read them: any size in whole groups of patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from ...configuration import register_to_config
from ...errors import InputError
from ...outputs import Output
from .pictures import PictureProcessor

Tensor = torch.Tensor
SHARPEST = 200  # how many times longer one side may be


@dataclass
class PatchesAndGrids(Output):
    """The patches of all pictures one after another, and frames, rows and columns of each picture."""

    pixel_values: Tensor
    image_grid_thw: Tensor


class Qwen2VLImageProcessor(PictureProcessor):
    """Patches of pictures; each counts as two frames that are alike."""

    @register_to_config
    def __init__(
        self, *, size: dict[str, int] | None = None, min_pixels: int | None = None, max_pixels: int | None = None,
        resample: int = 3, do_resize: bool = True, do_rescale: bool = True, do_normalize: bool = True,
        do_convert_rgb: bool = True, rescale_factor: float = 1 / 255,
        image_mean: list[float] = [0.48145466, 0.4578275, 0.40821073],  # noqa: B006  # a config value
        image_std: list[float] = [0.26862954, 0.26130258, 0.27577711],  # noqa: B006
        patch_size: int = 14, temporal_patch_size: int = 2, merge_size: int = 2,
    ) -> None:  # fmt: skip
        sizes = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280, **(size or {})}
        self.least, self.most = min_pixels or sizes["shortest_edge"], max_pixels or sizes["longest_edge"]

    def __call__(self, images: Image.Image | Sequence[Image.Image], return_tensors: str = "pt") -> PatchesAndGrids:
        """PIL pictures (one, or a list) to patches, group by group."""
        side, pixels = self.config.patch_size, [self.pixels(picture) for picture in self.listed(images)]
        grids = [[1, one.shape[1] // side, one.shape[2] // side] for one in pixels]
        return PatchesAndGrids(torch.cat([self.patches(one) for one in pixels]), torch.tensor(grids))

    def pixels(self, picture: Image.Image) -> Tensor:
        """One picture as channels, height, width, at the size that it is read at."""
        config = self.config
        picture = picture.convert("RGB") if config.do_convert_rgb else picture
        if config.do_resize:
            height, width = self.fitted(picture.height, picture.width)
            picture = picture.resize((width, height), resample=Image.Resampling(config.resample))
        values = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float()
        values = values * config.rescale_factor if config.do_rescale else values
        mean, std = (torch.tensor(part).view(-1, 1, 1) for part in (config.image_mean, config.image_std))
        return (values - mean) / std if config.do_normalize else values

    def fitted(self, height: int, width: int) -> tuple[int, int]:
        """Height and width in whole groups of patches, of about the same proportions, within the limits of pixels."""
        if max(height, width) > SHARPEST * min(height, width):
            raise InputError(f"A side is at most {SHARPEST} times the other, got {width} x {height}.")
        step = self.config.patch_size * self.config.merge_size
        near = [round(side / step) * step for side in (height, width)]
        if math.prod(near) > self.most:
            shrink = math.sqrt(height * width / self.most)
            near = [max(step, math.floor(side / shrink / step) * step) for side in (height, width)]
        elif math.prod(near) < self.least:
            grow = math.sqrt(self.least / (height * width))
            near = [math.ceil(side * grow / step) * step for side in (height, width)]
        return near[0], near[1]

    def patches(self, pixels_CYX: Tensor) -> Tensor:
        """(patches, numbers): group by group of a picture; within a patch channel, frame, row, column."""
        side, group, frames = self.config.patch_size, self.config.merge_size, self.config.temporal_patch_size
        cells = pixels_CYX.unflatten(2, (-1, group, side)).unflatten(1, (-1, group, side))
        cells = cells.permute(1, 4, 2, 5, 0, 3, 6).flatten(0, 3)
        return cells.unsqueeze(2).expand(-1, -1, frames, -1, -1).flatten(1)
