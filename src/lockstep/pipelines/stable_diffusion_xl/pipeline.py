"""StableDiffusionXLPipeline: the face of the blocks."""

from __future__ import annotations

from ...blocks.face import Face
from ..common.face import PicturePipeline
from ..published.table import WHOLE
from .blocks import StableDiffusionXLBlocks


class StableDiffusionXLPipeline(PicturePipeline):
    """Stable Diffusion XL, base and refiner (arXiv:2307.01952)."""

    default_blocks = StableDiffusionXLBlocks
    face = Face(tuple(WHOLE["StableDiffusionXLPipeline"][1]))
