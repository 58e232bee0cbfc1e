"""Latent consistency models (arXiv:2310.04378): a grid of their own, cut by the scheduler where a picture is given."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import BlockView, InputParam, OutputParam
from ..common.decode import Decode
from ..common.denoise import DenoiseOrPaint, SchedulerStep
from ..common.parts import Components
from ..common.start import StartFromImage, StartFromNoise
from ..common.timesteps import SetTimesteps
from ..common.unet import AutoPredict
from ..common.workflows import FROM_PICTURES, FROM_TEXT, AutoStart
from .blocks import StableDiffusionBlocks

DISTILLED = InputParam(
    "original_inference_steps",
    int,
    description="The steps of the grid that the distillation used; the scheduler's where it is left out.",
    minimum=1,
)


class SetConsistencyTimesteps(SetTimesteps):
    """Some of the timesteps that the distillation used."""

    inputs = ["num_inference_steps", "timesteps", "sigmas", DISTILLED]

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        told = super().grid(scheduler, components, state)
        steps = state.original_inference_steps
        return told if steps is None else {**told, "original_inference_steps": steps}


class SetConsistencyTimestepsByStrength(SetConsistencyTimesteps):
    """The same, of the part of the way that the strength leaves."""

    inputs = [*SetConsistencyTimesteps.inputs, "strength"]

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        return {**super().grid(scheduler, components, state), "strength": state.strength}


DENOISED = "denoised"
MEANING = "The latents without any noise, as the last step sees them."


class ConsistencyStep(SchedulerStep):
    """One step down in noise, and what the model takes for the picture without any."""

    outputs = ["latents", OutputParam(DENOISED, torch.Tensor, MEANING)]

    def __call__(self, components: Components, state: BlockView, i: int, t: torch.Tensor) -> None:
        found = self.stepped(components, state, t)
        state.latents, state.denoised = found[0], found[-1]


class DecodeDenoised(Decode):
    """The latents without noise to pictures."""

    inputs = [*Decode.inputs, InputParam(DENOISED, torch.Tensor, required=True, given=False, description=MEANING)]

    def final(self, state: BlockView) -> torch.Tensor:
        denoised: torch.Tensor = state.denoised
        return denoised


class LatentConsistencyBlocks(StableDiffusionBlocks):
    """Text to image and image to image in a few steps."""

    pipeline_class_name = "LatentConsistencyModelPipeline"
    block_classes = {
        **StableDiffusionBlocks.block_classes,
        "start": AutoStart.with_parts(
            inpainting=None,
            image2image=StartFromImage.with_parts(timesteps=SetConsistencyTimestepsByStrength),
            text2image=StartFromNoise.with_parts(timesteps=SetConsistencyTimesteps),
        ),
        "denoise": DenoiseOrPaint.with_parts(predict=AutoPredict, step=ConsistencyStep),
        "decode": DecodeDenoised,
    }
    workflows = FROM_TEXT | FROM_PICTURES
