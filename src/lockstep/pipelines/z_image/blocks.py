"""The blocks of Z-Image, put together."""

from __future__ import annotations

import torch

from ...models.transformers.transformer_z_image import ZImageTransformer2DModel
from ..common.decode import Decode
from ..common.denoise import DenoiseOrPaint
from ..common.flow import SetEvenTimesteps, SetEvenTimestepsByStrength, SetEvenTimestepsForPainting
from ..common.guidance import SetGuidance
from ..common.painting import AutoPasteCrop, StartPainting
from ..common.parts import TransformerBlocks
from ..common.start import PrepareLatents, StartFromImage, StartFromNoise, TakePictureSize
from ..common.workflows import FROM_PICTURES, FROM_TEXT, PAINTING, AutoStart, where_given
from .denoise import PredictZImage
from .encoders import EncodePrompt


class SpacedInFp32:
    """Even sigmas that are spaced in fp32, as published: the model is told 1000 - t, which makes much of last bits."""

    def spaced(self, steps: int) -> list[float]:
        return torch.linspace(1.0, 1 / steps, steps).tolist()


class SetZImageTimesteps(SpacedInFp32, SetEvenTimesteps):
    """The whole grid."""


class SetZImageTimestepsByStrength(SpacedInFp32, SetEvenTimestepsByStrength):
    """The end of the grid, by strength."""


class SetZImageTimestepsForPainting(SpacedInFp32, SetEvenTimestepsForPainting):
    """The same; painting starts from pure noise unless told otherwise."""


class PrepareZImageLatents(PrepareLatents):
    """Noise in fp32, whatever the model computes in."""

    noise_dtype = torch.float32


class ZImageBlocks(TransformerBlocks, face="ZImagePipeline", transformer=ZImageTransformer2DModel):
    """Text to image, image to image and painting."""

    block_classes = {
        "guidance": SetGuidance,
        "text_encoder": EncodePrompt,
        "size": where_given("image", take=TakePictureSize),
        "start": AutoStart.with_parts(
            inpainting=StartPainting.with_parts(timesteps=SetZImageTimestepsForPainting),
            image2image=StartFromImage.with_parts(timesteps=SetZImageTimestepsByStrength),
            text2image=StartFromNoise.with_parts(timesteps=SetZImageTimesteps, latents=PrepareZImageLatents),
        ),
        "denoise": DenoiseOrPaint.with_parts(predict=PredictZImage),
        "decode": Decode,
        "paste_crop": AutoPasteCrop,
    }
    workflows = FROM_TEXT | FROM_PICTURES | PAINTING
