"""Editing a picture as a text says (InstructPix2Pix, arXiv:2211.09800)."""

from __future__ import annotations

from ..common.denoise import Denoise
from ..common.editing import PredictEdited, SetEditingGuidance, StartEditing
from .blocks import StableDiffusionBlocks


class InstructPix2PixBlocks(StableDiffusionBlocks):
    """Edits a picture as a text says."""

    pipeline_class_name = "StableDiffusionInstructPix2PixPipeline"
    block_classes = StableDiffusionBlocks.table(
        guidance=SetEditingGuidance, start=StartEditing, denoise=Denoise.with_parts(predict=PredictEdited),
        control=None, adapter=None, paste_crop=None,
    )  # fmt: skip
    outputs = ["images", "nsfw_content_detected"]
    workflows = {"editing": ["image"]}
