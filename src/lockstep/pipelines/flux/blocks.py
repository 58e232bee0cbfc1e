"""The blocks of FLUX.1, put together."""

from __future__ import annotations

from ...models.transformers.transformer_flux import FluxTransformer2DModel
from ..common.decode import DecodePacked
from ..common.denoise import DenoiseOrPaint
from ..common.flow import SetEvenTimesteps, SetEvenTimestepsByStrength, SetTrueGuidance
from ..common.painting import AutoAppendMask, AutoPasteCrop, PreparePackedPainting
from ..common.parts import TransformerBlocks
from ..common.start import EncodeImageAtSize, StartFromNoise
from ..common.tokens import AppendReference, DenoiseEdited, FitArea, PreparePositions
from ..common.workflows import FROM_PICTURES, FROM_TEXT, PAINTING, starting, steered, where_given
from .before_denoise import EncodeReference
from .control import AutoFluxControl, AutoPredictFlux
from .denoise import AppendFill, PredictFlux
from .encoders import EncodePrompt


class FluxBlocks(TransformerBlocks, face="FluxPipeline", transformer=FluxTransformer2DModel):
    """Text to image, image to image and painting, with or without a ControlNet; a Fill model sees what is masked."""

    block_classes = {
        "guidance": SetTrueGuidance,
        "text_encoder": EncodePrompt,
        "control": AutoFluxControl,
        "start": starting(SetEvenTimesteps, SetEvenTimestepsByStrength, PreparePackedPainting, EncodeImageAtSize),
        "positions": PreparePositions,
        "denoise": DenoiseOrPaint.with_parts(
            append_mask=AutoAppendMask.with_parts(append=AppendFill), predict=AutoPredictFlux
        ),
        "decode": DecodePacked,
        "paste_crop": AutoPasteCrop,
    }
    workflows = steered(FROM_TEXT | FROM_PICTURES | PAINTING, by=["controlnet"])


class FluxKontextBlocks(FluxBlocks, face="FluxKontextPipeline"):
    """Editing: a picture is given as a reference, and words say what to change; without one, text to image."""

    block_classes = {
        "guidance": SetTrueGuidance,
        "text_encoder": EncodePrompt,
        "size": FitArea,
        "reference": where_given("image", encode=EncodeReference),
        "start": StartFromNoise.with_parts(timesteps=SetEvenTimesteps),
        "positions": PreparePositions,
        "denoise": DenoiseEdited.with_parts(
            append_reference=where_given("image", append=AppendReference), predict=PredictFlux
        ),
        "decode": DecodePacked,
    }
    workflows = FROM_TEXT | FROM_PICTURES
