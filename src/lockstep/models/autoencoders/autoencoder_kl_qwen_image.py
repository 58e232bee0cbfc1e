"""The autoencoder of Qwen-Image (arXiv:2508.02324, section 3.2): Wan's for videos, whose decoder was taught pictures.

Axes: N batch, C channels, T frames, H and W pixels.
"""

from __future__ import annotations

from torch import Tensor

from ...configuration import register_to_config
from ..modeling import check_sizes
from .autoencoder_kl_wan import LATENTS_MEAN, LATENTS_STD, CausalAutoencoder


class AutoencoderKLQwenImage(CausalAutoencoder):
    """Pictures in [-1, 1] to latents and back, NCHW; NCTHW as well, as published: a picture is a video of one frame."""

    @register_to_config
    def __init__(
        self, base_dim: int = 96, z_dim: int = 16, dim_mult: tuple[int, ...] = (1, 2, 4, 4), num_res_blocks: int = 2,
        attn_scales: tuple[float, ...] = (), temperal_downsample: tuple[bool, ...] = (False, True, True),
        dropout: float = 0.0, input_channels: int = 3, latents_mean: tuple[float, ...] = LATENTS_MEAN,
        latents_std: tuple[float, ...] = LATENTS_STD,
    ) -> None:  # fmt: skip
        super().__init__()
        check_sizes("AutoencoderKLQwenImage", self.config, "input_channels")
        self.build(input_channels, input_channels, base_dim, is_residual=False)

    @property
    def spatial_scale_factor(self) -> int:
        return 2 ** len(self.config.temperal_downsample)

    def moments(self, x: Tensor) -> Tensor:
        return super().moments(x[:, :, None])[:, :, 0] if is_picture(x) else super().moments(x)

    def pixels(self, z: Tensor) -> Tensor:
        return super().pixels(z[:, :, None])[:, :, 0] if is_picture(z) else super().pixels(z)


def is_picture(x: Tensor) -> bool:
    """Whether there is no axis of frames."""
    return isinstance(x, Tensor) and x.ndim == 4
