"""Editing a picture as a text says: the picture beside the latents, and guidance by both (arXiv:2211.09800)."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...blocks import BlockView, InputParam, SequentialPipelineBlocks, needs
from ...guiders import Condition, TextAndImageGuidance
from .beside import PredictBeside, PrepareLatentsBeside
from .parts import GUIDER, Components
from .sizes import repeated
from .start import EncodeImage
from .timesteps import SetTimesteps
from .unet import SetUNetGuidance

Tensor = torch.Tensor
IMAGE_GUIDANCE = InputParam(
    "image_guidance_scale", float, description="How strongly the prediction keeps to the picture.", minimum=0.0
)


class SetEditingGuidance(SetUNetGuidance):
    """Gives the guider of this run its two scales: by the text, and by the picture."""

    expected_components = [
        replace(GUIDER, type_hint=TextAndImageGuidance, config={"guidance_scale": 7.5, "image_guidance_scale": 1.5}),
        *SetUNetGuidance.expected_components[1:],
    ]
    inputs = [*SetUNetGuidance.inputs, IMAGE_GUIDANCE]

    def __call__(self, components: Components, state: BlockView) -> None:
        super().__call__(components, state)
        if state.image_guidance_scale is not None:
            components.guider.image_guidance_scale = state.image_guidance_scale  # type: ignore[attr-defined]


class EncodeImageToEdit(EncodeImage):
    """The picture to edit as the denoiser was taught to read it: its most likely latents, on their own scale."""

    def __call__(self, components: Components, state: BlockView) -> None:
        vae, rows = components.autoencoder, self.pixels(components, state)
        if rows.shape[1] != vae.latent_channels:
            encoded = vae.encode(rows.to(device=components.device, dtype=vae.dtype))
            rows = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latents
        state.image_latents = repeated(rows, len(state.prompt_embeds), "image").to(state.prompt_embeds)


class StartEditing(SequentialPipelineBlocks):
    """The whole grid, from noise, with a picture beside it."""

    block_classes = [SetTimesteps, EncodeImageToEdit, PrepareLatentsBeside]
    block_names = ["timesteps", "encode_image", "latents"]


class PredictEdited(PredictBeside):
    """The UNet's prediction with text and picture, with the picture alone and with neither, and the guider's mix."""

    inputs = [*PredictBeside.inputs, *needs("image_latents")]
    num_places = 3

    def beside(self, state: BlockView) -> Condition:
        picture = state.image_latents
        return picture, picture, torch.zeros_like(picture)

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        told = super().conditions(state)
        pairs = {name: value for name, value in told.items() if isinstance(value, tuple) and len(value) == 2}
        return {**told, **{name: (given, without, without) for name, (given, without) in pairs.items()}}
