"""Four times the size: the denoiser reads the small picture beside latents that are as large as that picture."""

from __future__ import annotations

import torch
from PIL import Image

from ...blocks import (
    LATER,
    BlockView,
    ComponentSpec,
    ConfigSpec,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
    randn_tensor,
)
from ...errors import InputError
from ...guiders import Condition
from ...schedulers import SchedulerMixin
from ..common.beside import PredictBeside, PrepareLatentsBeside, require_channels
from ..common.denoise import Denoise
from ..common.parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, Components
from ..common.safety import CheckSafety
from ..common.sizes import check_memory, picture_processor, repeated
from ..common.timesteps import SetTimesteps
from .blocks import StableDiffusionBlocks

Tensor = torch.Tensor
COLOURS = 3
SMALL = "The small picture, with noise, as the denoiser reads it."
NOISE_LEVEL = InputParam(
    "noise_level", int, default=20, minimum=0, description="How much noise the small picture is given: a timestep."
)


class NoiseSmallPicture(ModularPipelineBlocks):
    """The picture to enlarge, with as much noise as the denoiser is told of."""

    expected_components = [ComponentSpec("low_res_scheduler", SchedulerMixin), AUTOENCODER_OUTLINE, DENOISER_OUTLINE]
    expected_configs = [ConfigSpec("max_noise_level", default=350)]
    inputs = [InputParam.template("image", required=True), *needs("prompt_embeds"), "generator", NOISE_LEVEL]
    outputs = [OutputParam("image_latents", Tensor, SMALL)]

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.noise_level > components.max_noise_level:
            raise InputError(
                f"'noise_level' has to be at most {components.max_noise_level} for this model, "
                f"got {inputs.noise_level}."
            )
        if inputs.image is LATER:
            return
        first = inputs.image[0] if isinstance(inputs.image, (list, tuple)) and inputs.image else inputs.image
        if isinstance(first, Image.Image):  # before it is looked at
            check_memory(components, first.height, first.width)
        check_memory(components, *self.pixels(components, inputs).shape[-2:])

    def __call__(self, components: Components, state: BlockView) -> None:
        rows = self.pixels(components, state).to(state.prompt_embeds)
        if isinstance(state.generator, list):  # every sample draws from its own generator, as it would alone
            rows = repeated(rows, len(state.prompt_embeds), "image")
        noise = randn_tensor(rows.shape, state.generator, components.device, rows.dtype)
        level = torch.tensor([state.noise_level], device=components.device)
        noisy = components.low_res_scheduler.add_noise(rows, noise, level)
        state.image_latents = repeated(noisy, len(state.prompt_embeds), "image")

    def pixels(self, components: Components, state: BlockView) -> Tensor:
        return picture_processor(components, resample="bicubic").preprocess(state.image)


class PrepareLatentsToEnlarge(PrepareLatentsBeside):
    """Noise of the size of the small picture."""

    def check_channels(self, components: Components) -> None:
        require_channels(components, COLOURS, "the colours of a picture")


class StartEnlarging(SequentialPipelineBlocks):
    """The whole grid, from noise, with the small picture beside it."""

    block_classes = [SetTimesteps, NoiseSmallPicture, PrepareLatentsToEnlarge]
    block_names = ["timesteps", "picture", "latents"]


class PredictEnlarged(PredictBeside):
    """The UNet's prediction for each branch, beside the small picture and told of its noise; the guider's mix."""

    inputs = [*PredictBeside.inputs, *needs("image_latents"), NOISE_LEVEL]

    def beside(self, state: BlockView) -> Condition:
        return state.image_latents

    def class_labels(self, state: BlockView, sample: Tensor) -> Tensor:
        return torch.full((len(sample),), state.noise_level, device=sample.device)


class UpscaleBlocks(StableDiffusionBlocks):
    """Makes a picture four times as large."""

    pipeline_class_name = "StableDiffusionUpscalePipeline"
    block_classes = StableDiffusionBlocks.table(
        ip_adapter=None,
        control=None,
        adapter=None,
        start=StartEnlarging,
        denoise=Denoise.with_parts(predict=PredictEnlarged),
        safety=CheckSafety,
        paste_crop=None,
    )
    outputs = ["images", "nsfw_content_detected"]
    workflows = {"upscaling": ["image"]}
