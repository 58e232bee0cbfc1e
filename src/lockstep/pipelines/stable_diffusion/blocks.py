"""The blocks of Stable Diffusion 1.x and 2.x, put together."""

from __future__ import annotations

from ...blocks import AutoPipelineBlocks, SequentialPipelineBlocks
from .before_denoise import (
    AddNoise,
    AutoControl,
    EmbedGuidance,
    EncodeImage,
    PrepareLatents,
    PreparePainting,
    SetTimesteps,
    SetTimestepsByStrength,
    SetTimestepsForPainting,
)
from .decoders import AutoPasteCrop, Decode
from .denoise import Denoise
from .encoders import EncodePrompt, SetGuidance


class StartFromNoise(SequentialPipelineBlocks):
    """Text to image: the whole grid, from noise."""

    block_classes = [SetTimesteps, PrepareLatents]
    block_names = ["timesteps", "latents"]


class StartFromImage(SequentialPipelineBlocks):
    """Image to image: the end of the grid, from a picture with noise."""

    block_classes = [SetTimestepsByStrength, EncodeImage, AddNoise]
    block_names = ["timesteps", "encode_image", "latents"]


class StartPainting(SequentialPipelineBlocks):
    """Inpainting: from a picture and a mask."""

    block_classes = [SetTimestepsForPainting, PreparePainting]
    block_names = ["timesteps", "latents"]


class AutoStart(AutoPipelineBlocks):
    """Grid and first latents, by what is given."""

    block_classes = [StartPainting, StartFromImage, StartFromNoise]
    block_names = ["inpainting", "image2image", "text2image"]
    block_trigger_inputs = ["mask_image", "image", None]


class StableDiffusionBlocks(SequentialPipelineBlocks):
    """Text to image, image to image and inpainting, with or without a ControlNet."""

    pipeline_class_name = "StableDiffusionPipeline"
    block_classes = [SetGuidance, EncodePrompt, EmbedGuidance, AutoControl, AutoStart, Denoise, Decode, AutoPasteCrop]
    block_names = ["guidance", "text_encoder", "embed_guidance", "control", "start", "denoise", "decode", "paste_crop"]
    outputs = ["images"]
    workflows = {
        "text2image": [],
        "image2image": ["image"],
        "inpainting": ["image", "mask_image"],
        "controlnet_text2image": ["control_image"],
        "controlnet_image2image": ["image", "control_image"],
        "controlnet_inpainting": ["image", "mask_image", "control_image"],
    }
