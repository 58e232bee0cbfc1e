"""The blocks of FLUX.1, put together."""

from __future__ import annotations

from ...blocks import ComponentSpec, SequentialPipelineBlocks
from ...models.autoencoders.autoencoder_kl import AutoencoderKL
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.transformers.transformer_flux import FluxTransformer2DModel
from ..common.decode import DecodePacked
from ..common.flow import SetTrueGuidance
from ..common.painting import AutoPasteCrop, StartPainting
from ..common.start import EncodeImageAtSize, StartFromImage, StartFromNoise
from ..common.workflows import FROM_PICTURES, FROM_TEXT, PAINTING, AutoStart
from .before_denoise import (
    AutoPlaces,
    AutoReference,
    FitArea,
    PrepareFluxPainting,
    PreparePositions,
    SetFluxTimesteps,
    SetFluxTimestepsByStrength,
)
from .denoise import DenoiseFlux, DenoiseKontext
from .encoders import EncodePrompt


class FluxBlocks(SequentialPipelineBlocks):
    """Text to image, image to image and painting; a Fill model paints what it sees masked."""

    pipeline_class_name = "FluxPipeline"
    roles = {
        "denoiser": ComponentSpec("transformer", FluxTransformer2DModel),
        "autoencoder": ComponentSpec("vae", AutoencoderKL | AutoencoderTiny),
    }
    block_classes = {
        "guidance": SetTrueGuidance,
        "text_encoder": EncodePrompt,
        "start": AutoStart.with_parts(
            inpainting=StartPainting.with_parts(timesteps=SetFluxTimestepsByStrength, latents=PrepareFluxPainting),
            image2image=StartFromImage.with_parts(timesteps=SetFluxTimestepsByStrength, encode_image=EncodeImageAtSize),
            text2image=StartFromNoise.with_parts(timesteps=SetFluxTimesteps),
        ),
        "positions": PreparePositions,
        "denoise": DenoiseFlux,
        "decode": DecodePacked,
        "paste_crop": AutoPasteCrop,
    }
    outputs = ["images"]
    workflows = FROM_TEXT | FROM_PICTURES | PAINTING


class FluxKontextBlocks(FluxBlocks):
    """Editing: a picture is given as a reference, and words say what to change; without one, text to image."""

    pipeline_class_name = "FluxKontextPipeline"
    block_classes = {
        "guidance": SetTrueGuidance,
        "text_encoder": EncodePrompt,
        "size": FitArea,
        "reference": AutoReference,
        "start": StartFromNoise.with_parts(timesteps=SetFluxTimesteps),
        "positions": PreparePositions,
        "reference_positions": AutoPlaces,
        "denoise": DenoiseKontext,
        "decode": DecodePacked,
    }
    workflows = FROM_TEXT | FROM_PICTURES
