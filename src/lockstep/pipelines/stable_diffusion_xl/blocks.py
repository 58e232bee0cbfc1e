"""The blocks of Stable Diffusion XL, put together."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import AutoPipelineBlocks, LoopSequentialPipelineBlocks, SequentialPipelineBlocks, needs
from ..stable_diffusion.before_denoise import AutoControl, EmbedGuidance, EncodeImage, PrepareLatents
from ..stable_diffusion.decoders import AutoPasteCrop, Decode
from ..stable_diffusion.denoise import (
    CONTROL,
    AutoAppendMask,
    AutoKeepUnmasked,
    Predict,
    PredictWithControl,
    ScaleModelInput,
    SchedulerStep,
)
from ..stable_diffusion.encoders import SetGuidance
from .before_denoise import (
    AddNoiseUnlessStarted,
    DescribeSizes,
    PreparePaintingXL,
    SetTimestepsBetween,
    SetTimestepsForPainting,
    SetTimestepsUntil,
)
from .encoders import EncodePrompt

Tensor = torch.Tensor


class StartFromNoise(SequentialPipelineBlocks):
    """Text to image: from noise."""

    block_classes = [SetTimestepsUntil, PrepareLatents]
    block_names = ["timesteps", "latents"]


class StartFromImage(SequentialPipelineBlocks):
    """Image to image: from a picture with noise, or from what another model has begun."""

    block_classes = [SetTimestepsBetween, EncodeImage, AddNoiseUnlessStarted]
    block_names = ["timesteps", "encode_image", "latents"]


class StartPainting(SequentialPipelineBlocks):
    """Inpainting: from a picture and a mask."""

    block_classes = [SetTimestepsForPainting, PreparePaintingXL]
    block_names = ["timesteps", "latents"]


class AutoStart(AutoPipelineBlocks):
    """Grid and first latents, by what is given."""

    block_classes = [StartPainting, StartFromImage, StartFromNoise]
    block_names = ["inpainting", "image2image", "text2image"]
    block_trigger_inputs = ["mask_image", "image", None]


class PredictXL(Predict):
    """The XL denoiser's prediction for each branch, told sizes and pooled text too, and the guider's mix of them."""

    inputs = [
        *Predict.inputs,
        *needs("pooled_prompt_embeds", "add_time_ids"),
        *["negative_pooled_prompt_embeds", "negative_add_time_ids"],
    ]

    def conditions(self, state: Any) -> dict[str, tuple[Tensor, Tensor | None]]:
        return {
            "encoder_hidden_states": (state.prompt_embeds, state.negative_prompt_embeds),
            "text_embeds": (state.pooled_prompt_embeds, state.negative_pooled_prompt_embeds),
            "time_ids": (state.add_time_ids, state.negative_add_time_ids),
        }

    def added_conditions(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"text_embeds": inputs["text_embeds"], "time_ids": inputs["time_ids"]}


class PredictXLWithControl(PredictXL, PredictWithControl):
    """The same, steered by a ControlNet, which is told sizes and pooled text too."""

    expected_components = PredictWithControl.expected_components
    inputs = [*PredictXL.inputs, *CONTROL]


class AutoPredictXL(AutoPipelineBlocks):
    """With a ControlNet where there is a control picture."""

    block_classes = [PredictXLWithControl, PredictXL]
    block_names = ["with_control", "plain"]
    block_trigger_inputs = ["control_image", None]


class Denoise(LoopSequentialPipelineBlocks):
    """Scale, predict, guide, step: once per timestep."""

    block_classes = [ScaleModelInput, AutoAppendMask, AutoPredictXL, SchedulerStep, AutoKeepUnmasked]
    block_names = ["scale", "append_mask", "predict", "step", "keep_unmasked"]
    loop_over = "timesteps"


class StableDiffusionXLBlocks(SequentialPipelineBlocks):
    """Text to image, image to image and inpainting, with the base model or the refiner, with or without a ControlNet."""

    pipeline_class_name = "StableDiffusionXLPipeline"
    block_classes = [
        *[SetGuidance, EncodePrompt, EmbedGuidance, AutoControl, AutoStart, DescribeSizes],
        *[Denoise, Decode, AutoPasteCrop],
    ]
    block_names = [
        *["guidance", "text_encoder", "embed_guidance", "control", "start", "sizes"],
        *["denoise", "decode", "paste_crop"],
    ]
    outputs = ["images"]
    workflows = {
        "text2image": [],
        "image2image": ["image"],
        "inpainting": ["image", "mask_image"],
        "controlnet_text2image": ["control_image"],
        "controlnet_image2image": ["image", "control_image"],
        "controlnet_inpainting": ["image", "mask_image", "control_image"],
    }
