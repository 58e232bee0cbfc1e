"""Editing a picture as a text says (InstructPix2Pix, arXiv:2211.09800), with XL."""

from __future__ import annotations

from ...blocks import BlockView, ConfigSpec, SequentialPipelineBlocks, needs
from ..common.beside import PrepareLatentsBeside
from ..common.denoise import Denoise
from ..common.editing import EncodeImageToEdit, PredictEdited, SetEditingGuidance
from ..common.parts import Components
from ..common.sizes import pixel_size
from .before_denoise import DescribeSizes, SetTimestepsUntil
from .blocks import PredictXL, StableDiffusionXLBlocks


class EncodeImageToEditXL(EncodeImageToEdit):
    """The same at the size of the picture to make; some models (CosXL) read it on the scale of the latents."""

    expected_configs = [ConfigSpec("is_cosxl_edit", default=False)]

    def __call__(self, components: Components, state: BlockView) -> None:
        super().__call__(components, state)
        if components.is_cosxl_edit:
            state.image_latents = components.autoencoder.normalize_latents(state.image_latents)

    def size(self, components: Components, state: BlockView) -> tuple[int | None, int | None]:
        return pixel_size(components, state)


class StartEditingXL(SequentialPipelineBlocks):
    """The grid, or the beginning of it, from noise, with a picture beside it."""

    block_classes = [SetTimestepsUntil, EncodeImageToEditXL, PrepareLatentsBeside]
    block_names = ["timesteps", "encode_image", "latents"]


class PredictEditedXL(PredictEdited, PredictXL):
    """The same with XL's denoiser, told sizes and pooled text too."""

    inputs = [*PredictXL.inputs, *needs("image_latents")]


class InstructPix2PixXLBlocks(StableDiffusionXLBlocks):
    """Edits a picture as a text says, with XL."""

    pipeline_class_name = "StableDiffusionXLInstructPix2PixPipeline"
    block_classes = StableDiffusionXLBlocks.table(
        guidance=SetEditingGuidance, start=StartEditingXL, sizes=DescribeSizes,
        denoise=Denoise.with_parts(predict=PredictEditedXL),
        ip_adapter=None, control=None, adapter=None, paste_crop=None,
    )  # fmt: skip
    outputs = ["images"]
    workflows = {"editing": ["image"]}
