"""StableDiffusionXLPipeline: the face of the blocks."""

from __future__ import annotations

from ..common.face import PicturePipeline
from ..index_names import STANDS_IN_FOR
from .blocks import StableDiffusionXLBlocks


class StableDiffusionXLPipeline(PicturePipeline):
    """Stable Diffusion XL, base and refiner (arXiv:2307.01952)."""

    default_blocks = StableDiffusionXLBlocks
    index_names = STANDS_IN_FOR["StableDiffusionXLPipeline"]
