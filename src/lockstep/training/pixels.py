"""Between pictures as bytes and what a model sees."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def to_pixels(pictures: np.ndarray) -> Tensor:
    """uint8 NHWC to NCHW in [-1, 1]."""
    pixels = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float().div(127.5).sub(1)
    return pixels.contiguous(memory_format=torch.channels_last)


def to_bytes(pixels: Tensor) -> np.ndarray:
    """NCHW in [-1, 1] to uint8 NHWC."""
    return pixels.float().add(1).mul(127.5).round().clamp(0, 255).byte().permute(0, 2, 3, 1).cpu().numpy()
