"""StableDiffusionXLPipeline: the face of the blocks."""

from __future__ import annotations

from ..common.face import PicturePipeline
from .blocks import StableDiffusionXLBlocks


class StableDiffusionXLPipeline(PicturePipeline):
    """Stable Diffusion XL, base and refiner (arXiv:2307.01952)."""

    default_blocks = StableDiffusionXLBlocks
    index_names = (
        "StableDiffusionXLImg2ImgPipeline", "StableDiffusionXLInpaintPipeline", "StableDiffusionXLControlNetPipeline",
        "StableDiffusionXLControlNetImg2ImgPipeline", "StableDiffusionXLControlNetInpaintPipeline",
    )  # fmt: skip
