"""StableDiffusionPipeline: the face of the blocks."""

from __future__ import annotations

from typing import Any, ClassVar

from ..pipeline import DiffusionPipeline
from .blocks import StableDiffusionBlocks


class StableDiffusionPipeline(DiffusionPipeline):
    """Latent diffusion with CLIP text conditioning, versions 1.x and 2.x (arXiv:2112.10752)."""

    default_blocks: ClassVar[Any] = StableDiffusionBlocks

    @property
    def vae_scale_factor(self) -> int:
        """Pixels per latent along a side."""
        return 2 ** (len(self.vae.config.block_out_channels) - 1) if self.vae is not None else 8
