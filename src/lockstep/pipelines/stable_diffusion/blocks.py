"""The blocks of Stable Diffusion 1.x and 2.x, put together."""

from __future__ import annotations

from ..common.adapter import AutoAdapter
from ..common.control import AutoControl
from ..common.decode import Decode
from ..common.denoise import DenoiseOrPaint
from ..common.image_prompt import AutoImagePrompt
from ..common.painting import AutoPasteCrop
from ..common.safety import CheckRequiredSafety
from ..common.unet import AutoPredict, EmbedGuidance, SetUNetGuidance, UNetPipelineBlocks
from ..common.workflows import AutoStart
from .encoders import EncodePrompt


class StableDiffusionBlocks(UNetPipelineBlocks):
    """Text to image, image to image and inpainting, with or without a ControlNet or a T2I-Adapter."""

    pipeline_class_name = "StableDiffusionPipeline"
    block_classes = {
        "guidance": SetUNetGuidance,
        "text_encoder": EncodePrompt,
        "image_prompt": AutoImagePrompt,
        "embed_guidance": EmbedGuidance,
        "control": AutoControl,
        "adapter": AutoAdapter,
        "start": AutoStart,
        "denoise": DenoiseOrPaint.with_parts(predict=AutoPredict),
        "decode": Decode,
        "safety": CheckRequiredSafety,
        "paste_crop": AutoPasteCrop,
    }
    outputs = ["images", "nsfw_content_detected"]
