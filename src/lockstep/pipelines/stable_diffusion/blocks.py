"""The blocks of Stable Diffusion 1.x and 2.x, put together."""

from __future__ import annotations

from ...blocks import ComponentSpec, SequentialPipelineBlocks
from ...models.autoencoders.autoencoder_kl import AutoencoderKL
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ..common.control import AutoControl
from ..common.decode import Decode
from ..common.denoise import DenoiseOrPaint
from ..common.painting import AutoPasteCrop
from ..common.safety import CheckSafety
from ..common.unet import AutoPredict, EmbedGuidance, SetUNetGuidance
from ..common.workflows import FROM_PICTURES, FROM_TEXT, PAINTING, AutoStart, with_control
from .encoders import EncodePrompt


class StableDiffusionBlocks(SequentialPipelineBlocks):
    """Text to image, image to image and inpainting, with or without a ControlNet."""

    pipeline_class_name = "StableDiffusionPipeline"
    roles = {
        "denoiser": ComponentSpec("unet", UNet2DConditionModel),
        "autoencoder": ComponentSpec("vae", AutoencoderKL | AutoencoderTiny),
    }
    block_classes = {
        "guidance": SetUNetGuidance,
        "text_encoder": EncodePrompt,
        "embed_guidance": EmbedGuidance,
        "control": AutoControl,
        "start": AutoStart,
        "denoise": DenoiseOrPaint.with_parts(predict=AutoPredict),
        "decode": Decode,
        "safety": CheckSafety,
        "paste_crop": AutoPasteCrop,
    }
    outputs = ["images", "nsfw_content_detected"]
    workflows = with_control(FROM_TEXT | FROM_PICTURES | PAINTING)
