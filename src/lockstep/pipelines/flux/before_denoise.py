"""What FLUX wants before the loop: what a painting model reads, reference pictures."""

from __future__ import annotations

from typing import Any, cast

import torch

from ...blocks import LATER, BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...errors import InputError
from ...images import VaeImageProcessor
from ..common.painting import PreparePainting
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, Components
from ..common.sizes import packed, packed_side, picture_processor, scale_factor, size_step
from ..common.start import reads_more, to_latents

Tensor = torch.Tensor
STRENGTH = InputParam.template("strength", default=0.6)
REFERENCE = InputParam("reference_latents", Tensor, description="The tokens of the reference picture.", given=False)
# width and height that Kontext was trained at
KONTEXT_SIZES = [
    *[(672, 1568), (688, 1504), (720, 1456), (752, 1392), (800, 1328), (832, 1248), (880, 1184), (944, 1104)],
    *[(1024, 1024), (1104, 944), (1184, 880), (1248, 832), (1328, 800), (1392, 752), (1456, 720), (1504, 688)],
    (1568, 672),
]


class PrepareFluxPainting(PreparePainting):
    """Picture and mask to tokens; a Fill model reads every pixel of the mask."""

    inputs = [*(param for param in PreparePainting.inputs if param.name != "strength"), STRENGTH]

    @staticmethod
    def check_channels(components: Components) -> None:
        """The latents alone; or beside them, for a Fill model, the masked picture and every pixel of the mask."""
        channels, square = components.denoiser.config.in_channels, packed_side(components.denoiser) ** 2
        latent, pixels = components.autoencoder.latent_channels, scale_factor(components) ** 2
        plain, fill = square * latent, square * (2 * latent + pixels)
        if channels not in (plain, fill):
            raise InputError(f"Painting wants a denoiser that reads {plain} or {fill} channels, this one {channels}.")

    def encodes_picture(self, components: Components, state: BlockView) -> bool:
        return True  # the published order of the draws has it, whether it is used or not

    def small(self, components: Components, mask: Tensor, state: BlockView) -> Tensor:
        if reads_more(components.denoiser):  # the pixels of a latent as channels
            factor = scale_factor(components)
            grid = mask[:, 0].unflatten(2, (-1, factor)).unflatten(1, (-1, factor))
            return grid.permute(0, 2, 4, 1, 3).flatten(1, 2)
        return super().small(components, mask, state).repeat(1, components.autoencoder.latent_channels, 1, 1)


class EncodeReference(ModularPipelineBlocks):
    """The picture to edit as tokens, at a size that Kontext knows."""

    expected_components = [AUTOENCODER, DENOISER_OUTLINE]
    inputs = [
        InputParam.template("image", required=True),
        *needs("prompt_embeds"),
        "generator",
        InputParam("_auto_resize", bool, default=True, description="Bring it to one of the sizes of the training."),
    ]
    outputs = [
        OutputParam("reference_latents", Tensor, "The tokens of the reference picture."),
        OutputParam("reference_size", tuple[int, int], "Rows and columns of those tokens."),
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.image is not LATER:
            self.pixels(components, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Components, state: BlockView) -> None:
        latents = to_latents(components, self.pixels(components, state), state, drawn=False)
        side = packed_side(components.denoiser)
        state.reference_size = (latents.shape[2] // side, latents.shape[3] // side)
        state.reference_latents = packed(components.denoiser, latents)

    def pixels(self, components: Components, state: BlockView) -> Tensor:
        processor, image = picture_processor(components), cast(Any, state.image)
        if isinstance(image, Tensor) and image.ndim == 4 and image.shape[1] == components.autoencoder.latent_channels:
            return image
        height, width = self.size(processor, image[0] if isinstance(image, list) else image, state._auto_resize)
        step = size_step(components)
        height, width = height // step * step, width // step * step
        return processor.preprocess(processor.resize(image, height, width), height=height, width=width)

    @staticmethod
    def size(processor: VaeImageProcessor, image: Any, known: bool) -> tuple[int, int]:
        """Height and width: the picture's, or those of the known size with the nearest proportions."""
        height, width = processor.get_default_height_width(image)
        if known:
            _, width, height = min((abs(width / height - w / h), w, h) for w, h in KONTEXT_SIZES)
        return height, width
