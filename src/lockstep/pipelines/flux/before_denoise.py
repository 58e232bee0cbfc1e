"""What FLUX wants before the loop: reference pictures."""

from __future__ import annotations

from typing import Any, cast

import torch

from ...blocks import LATER, BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...images import VaeImageProcessor
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, Components
from ..common.sizes import packed, packed_side, picture_processor, size_step
from ..common.start import to_latents

Tensor = torch.Tensor
# width and height that Kontext was trained at
KONTEXT_SIZES = [
    *[(672, 1568), (688, 1504), (720, 1456), (752, 1392), (800, 1328), (832, 1248), (880, 1184), (944, 1104)],
    *[(1024, 1024), (1104, 944), (1184, 880), (1248, 832), (1328, 800), (1392, 752), (1456, 720), (1504, 688)],
    (1568, 672),
]


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
