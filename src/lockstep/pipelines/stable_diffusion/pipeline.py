"""StableDiffusionPipeline: the face of the blocks."""

from __future__ import annotations

from typing import Any, ClassVar

from ...blocks.face import Face
from ..common.face import PicturePipeline
from ..corrections import NO_CLIPPING, STEPS_OFFSET
from ..published.table import WHOLE
from .blocks import StableDiffusionBlocks


class StableDiffusionPipeline(PicturePipeline):
    """Latent diffusion with CLIP text conditioning, versions 1.x and 2.x (arXiv:2112.10752)."""

    default_blocks: ClassVar[Any] = StableDiffusionBlocks
    corrections = (STEPS_OFFSET, NO_CLIPPING)
    face = Face(tuple(WHOLE["StableDiffusionPipeline"][1]))
