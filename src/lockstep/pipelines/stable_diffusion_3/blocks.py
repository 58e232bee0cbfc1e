"""The blocks of Stable Diffusion 3 and 3.5, put together."""

from __future__ import annotations

from ...blocks import InputParam
from ...models.transformers.transformer_sd3 import SD3Transformer2DModel
from ..common.decode import Decode
from ..common.denoise import DenoiseOrPaint
from ..common.flow import SetFlowTimesteps, SetFlowTimestepsByStrength
from ..common.guidance import SetGuidance
from ..common.painting import AutoPasteCrop, PreparePainting
from ..common.parts import TransformerBlocks
from ..common.start import EncodeImageAtSize
from ..common.workflows import FROM_PICTURES, FROM_TEXT, PAINTING, starting, steered
from .control import AutoPredictSD3, AutoSD3Control
from .encoders import EncodePrompt

STRENGTH = InputParam.template("strength", default=0.6)


class SetTimestepsByStrength(SetFlowTimestepsByStrength):
    """The end of the grid, by the published strength."""

    inputs = [*SetFlowTimesteps.inputs, STRENGTH]


class PreparePaintingSD3(PreparePainting):
    """Picture and mask to latents, with the published strength."""

    inputs = [*(param for param in PreparePainting.inputs if param.name != "strength"), STRENGTH]


class StableDiffusion3Blocks(TransformerBlocks, face="StableDiffusion3Pipeline", transformer=SD3Transformer2DModel):
    """Text to image, image to image and inpainting, with or without a ControlNet."""

    block_classes = {
        "guidance": SetGuidance,
        "text_encoder": EncodePrompt,
        "control": AutoSD3Control,
        "start": starting(SetFlowTimesteps, SetTimestepsByStrength, PreparePaintingSD3, EncodeImageAtSize),
        "denoise": DenoiseOrPaint.with_parts(predict=AutoPredictSD3),
        "decode": Decode,
        "paste_crop": AutoPasteCrop,
    }
    workflows = steered(FROM_TEXT | FROM_PICTURES | PAINTING, by=["controlnet"])
