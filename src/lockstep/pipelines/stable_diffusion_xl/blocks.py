"""The blocks of Stable Diffusion XL, put together."""

from __future__ import annotations

import torch

from ...blocks import BlockView, needs
from ...guiders import Condition
from ..common.control import CONTROL
from ..common.denoise import DenoiseOrPaint
from ..common.painting import StartPainting
from ..common.start import StartFromImage, StartFromNoise
from ..common.unet import AutoPredict, PredictWithControl, PredictWithUNet, UNetPipelineBlocks, unet_table
from ..common.workflows import AutoStart
from .before_denoise import (
    AddNoiseUnlessStarted,
    AutoDescribeSizes,
    PreparePaintingXL,
    SetTimestepsBetween,
    SetTimestepsForPainting,
    SetTimestepsUntil,
)
from .encoders import EncodePrompt

Tensor = torch.Tensor


class PredictXL(PredictWithUNet):
    """The XL denoiser's prediction for each branch, told sizes and pooled text too, and the guider's mix of them."""

    inputs = [
        *PredictWithUNet.inputs,
        *needs("pooled_prompt_embeds", "add_time_ids"),
        *["negative_pooled_prompt_embeds", "negative_add_time_ids"],
    ]

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        return {
            **super().conditions(state),
            "text_embeds": (state.pooled_prompt_embeds, state.negative_pooled_prompt_embeds),
            "time_ids": (state.add_time_ids, state.negative_add_time_ids),
        }

    def added_conditions(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"text_embeds": inputs["text_embeds"], "time_ids": inputs["time_ids"]}


class PredictXLWithControl(PredictXL, PredictWithControl):
    """The same, steered by a ControlNet, which is told sizes and pooled text too."""

    expected_components = PredictWithControl.expected_components
    inputs = [*PredictXL.inputs, *CONTROL]


class StableDiffusionXLBlocks(UNetPipelineBlocks):
    """Text to image, image to image and inpainting, base or refiner, steered by a ControlNet, a T2I-Adapter or none."""

    pipeline_class_name = "StableDiffusionXLPipeline"
    block_classes = unet_table(
        EncodePrompt,
        start=AutoStart.with_parts(
            inpainting=StartPainting.with_parts(timesteps=SetTimestepsForPainting, latents=PreparePaintingXL),
            image2image=StartFromImage.with_parts(timesteps=SetTimestepsBetween, latents=AddNoiseUnlessStarted),
            text2image=StartFromNoise.with_parts(timesteps=SetTimestepsUntil),
        ),
        sizes=AutoDescribeSizes,
        denoise=DenoiseOrPaint.with_parts(
            predict=AutoPredict.with_parts(with_control=PredictXLWithControl, plain=PredictXL)
        ),
    )
    outputs = ["images"]
