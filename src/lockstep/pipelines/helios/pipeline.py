"""HeliosPipeline and HeliosPyramidPipeline: the faces of the blocks."""

from __future__ import annotations

from typing import Any

from ...blocks.face import Face
from ..common.video import VideoPipeline
from .blocks import HeliosBlocks, HeliosPyramidBlocks

BEFORE = ("prompt", "negative_prompt", "height", "width", "num_frames")
AFTER = ("sigmas", "guidance_scale", "num_videos_per_prompt", "generator")


class HeliosPipeline(VideoPipeline):
    """Helios (Base): long video in chunks, each told what came before."""

    default_blocks = HeliosBlocks
    face = Face((*BEFORE, "num_inference_steps", *AFTER), defaults={"output_type": "np"})


class HeliosPyramidPipeline(HeliosPipeline):
    """Helios (Mid and Distilled): the same, each chunk in stages of growing size."""

    default_blocks = HeliosPyramidBlocks
    face = Face(BEFORE, defaults={"output_type": "np"})

    @property
    def folder_defaults(self) -> dict[str, Any]:
        """What a call is given where it says nothing: a distilled model is used without guidance."""
        off = self._config["is_distilled"] and hasattr(self.guider, "guidance_scale")
        return {**({"guidance_scale": 1.0} if off else {}), **super().folder_defaults}
