"""StableDiffusionPipeline: the face of the blocks."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from PIL.Image import Image
from torch.nn.functional import interpolate

from ...errors import InputError
from ...images import VaeImageProcessor
from ..index_names import STANDS_IN_FOR
from ..pipeline import DiffusionPipeline
from .blocks import StableDiffusionBlocks

PREVIEW_SIDE = 32  # latents along the longer side of a preview


class StableDiffusionPipeline(DiffusionPipeline):
    """Latent diffusion with CLIP text conditioning, versions 1.x and 2.x (arXiv:2112.10752)."""

    default_blocks: ClassVar[Any] = StableDiffusionBlocks
    index_names = STANDS_IN_FOR["StableDiffusionPipeline"]

    def preview(self, latents: torch.Tensor) -> list[Image]:
        """Small pictures of latents on their way: shrunk where they are large, then through the autoencoder."""
        if self.vae is None:
            raise InputError("A preview needs the component 'vae', which this pipeline does not have.")
        largest = max(latents.shape[-2:])
        if largest > PREVIEW_SIDE:
            latents = interpolate(latents.float(), scale_factor=PREVIEW_SIDE / largest, mode="area")
        latents = latents / latents.float().std().clamp(min=1.0)  # some schedulers carry the noise at its full size
        decoded = self.vae.decode(self.vae.denormalize_latents(latents.to(self.vae.dtype)), return_dict=False)[0]
        return VaeImageProcessor().postprocess(decoded.float(), output_type="pil")

    def enable_vae_slicing(self) -> None:
        """Decode the pictures of a batch one by one."""
        self.vae.enable_slicing()

    def disable_vae_slicing(self) -> None:
        """Decode a batch at once."""
        self.vae.disable_slicing()

    def enable_vae_tiling(self) -> None:
        """Encode and decode a large picture tile by tile."""
        self.vae.enable_tiling()

    def disable_vae_tiling(self) -> None:
        """Encode and decode a picture whole."""
        self.vae.disable_tiling()
