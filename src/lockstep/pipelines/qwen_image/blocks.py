"""The blocks of Qwen-Image, put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models.autoencoders.autoencoder_kl_qwen_image import AutoencoderKLQwenImage
from ...models.transformers.transformer_qwen_image import QwenImageTransformer2DModel
from ..common.decode import DecodePacked
from ..common.denoise import DenoiseOrPaint
from ..common.flow import SetEvenTimesteps, SetEvenTimestepsByStrength, SetGuidanceByNegative
from ..common.painting import AutoPasteCrop, PreparePackedPainting
from ..common.parts import TransformerBlocks
from ..common.start import EncodeImageAtSize, StartFromNoise
from ..common.tokens import DenoiseEdited
from ..common.workflows import FROM_PICTURES, FROM_TEXT, PAINTING, starting
from .denoise import PredictQwenImage, PrepareShapes
from .editing import (
    EncodeEachEdited,
    EncodeEdited,
    EncodeInstruction,
    EncodeInstructionOnSeveral,
    FitEachPicture,
    FitPicture,
)
from .encoders import EncodePrompt


class QwenImageBlocks(
    TransformerBlocks,
    face="QwenImagePipeline",
    transformer=QwenImageTransformer2DModel,
    autoencoder=AutoencoderKLQwenImage,
):
    """Text to image, image to image and painting."""

    block_classes = {
        "guidance": SetGuidanceByNegative,
        "text_encoder": EncodePrompt,
        "start": starting(SetEvenTimesteps, SetEvenTimestepsByStrength, PreparePackedPainting, EncodeImageAtSize),
        "shapes": PrepareShapes,
        "denoise": DenoiseOrPaint.with_parts(predict=PredictQwenImage),
        "decode": DecodePacked,
        "paste_crop": AutoPasteCrop,
    }
    workflows = FROM_TEXT | FROM_PICTURES | PAINTING


class QwenImageEditBlocks(QwenImageBlocks, face="QwenImageEditPipeline"):
    """Editing: words say what to change of a picture."""

    block_classes = {
        "guidance": SetGuidanceByNegative, "picture": FitPicture, "text_encoder": EncodeInstruction,
        "reference": EncodeEdited, "start": StartFromNoise.with_parts(timesteps=SetEvenTimesteps),
        "shapes": PrepareShapes, "denoise": DenoiseEdited.with_parts(predict=PredictQwenImage), "decode": DecodePacked,
    }  # fmt: skip
    workflows = {"editing": ["image"]}


class QwenImageEditPlusBlocks(QwenImageEditBlocks, face="QwenImageEditPlusPipeline"):
    """Editing with several pictures: words say what to make of them."""

    block_classes = QwenImageEditBlocks.table(
        picture=FitEachPicture, text_encoder=EncodeInstructionOnSeveral, reference=EncodeEachEdited
    )

    def count_samples(self, values: Mapping[str, Any]) -> int:
        """As many as prompts, whatever the number of pictures: each sample is made of all of them."""
        return super().count_samples({name: value for name, value in values.items() if name != "image"})
