"""The blocks of Stable Diffusion 1.x and 2.x, put together."""

from __future__ import annotations

from ..common.safety import CheckRequiredSafety
from ..common.unet import UNetPipelineBlocks, unet_table
from .encoders import EncodePrompt


class StableDiffusionBlocks(UNetPipelineBlocks):
    """Text to image, image to image and inpainting, with or without a ControlNet or a T2I-Adapter."""

    pipeline_class_name = "StableDiffusionPipeline"
    block_classes = unet_table(EncodePrompt, safety=CheckRequiredSafety)
    outputs = ["images", "nsfw_content_detected"]
