"""WanPipeline: the face of the blocks."""

from __future__ import annotations

from ...blocks.face import Face
from ..common.video import VideoPipeline
from .blocks import WanBlocks


class WanPipeline(VideoPipeline):
    """Wan 2.1 and 2.2 (arXiv:2503.20314)."""

    default_blocks = WanBlocks
    face = Face(
        (
            *("prompt", "negative_prompt", "height", "width", "num_frames", "num_inference_steps"),
            *("guidance_scale", "guidance_scale_2", "num_videos_per_prompt", "generator", "latents"),
        ),
        defaults={"output_type": "np"},
    )
