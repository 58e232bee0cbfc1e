"""Pictures for T2I-Adapters (arXiv:2302.08453): feature maps that the UNet adds on its way down."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...blocks import AutoPipelineBlocks, BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...errors import InputError
from .parts import ADAPTER, AUTOENCODER_OUTLINE, DENOISER, Components
from .several import for_each, nets_of, pictures_for_each
from .sizes import check_size, given_size, picture_processor, repeated, scale_factor, size_is_known

Tensor = torch.Tensor
FEATURES, PART = "adapter_features", "adapter_part"
WHAT_FEATURES, WHAT_PART = "What the T2I-Adapter adds on the way down.", "Part of the steps in which it acts."
ADAPTER_FEATURES = [
    InputParam(FEATURES, list[Tensor], description=WHAT_FEATURES, given=False),
    InputParam(PART, float, description=WHAT_PART, given=False),
]


class PrepareAdapter(ModularPipelineBlocks):
    """The feature maps of the adapter's picture. Its size is that of the picture to make, unless one is given."""

    expected_components = [ADAPTER, AUTOENCODER_OUTLINE, DENOISER]
    inputs = [
        InputParam.template("adapter_image", required=True),
        *needs("prompt_embeds"),
        *["height", "width", "adapter_conditioning_scale", "adapter_conditioning_factor"],
    ]
    outputs = [
        OutputParam(FEATURES, list[Tensor], WHAT_FEATURES),
        OutputParam(PART, float, WHAT_PART),
        *["height", "width"],
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        if components.adapter is None:
            raise InputError(
                "'adapter_image' needs a T2I-Adapter: load the pipeline with adapter=T2IAdapter.from_pretrained(…)."
            )
        self.weights(components, inputs)
        check_size(components, inputs)
        if size_is_known(inputs):
            check_fits(components, *self.pixels(components, inputs)[0].shape[-2:])

    def __call__(self, components: Components, state: BlockView) -> None:
        adapter: Any = components.adapter
        pixels = [one.to(adapter.device, adapter.dtype) for one in self.pixels(components, state)]
        weights = self.weights(components, state)
        several = len(pixels) > 1
        features = adapter(pixels, weights) if several else [weights[0] * one for one in nets_of(adapter)[0](pixels[0])]
        samples = len(state.prompt_embeds)
        state[FEATURES] = [repeated(one, samples, "adapter_image").to(state.prompt_embeds) for one in features]
        state[PART] = state.adapter_conditioning_factor
        state.height, state.width = pixels[0].shape[-2:]

    def pixels(self, components: Components, state: BlockView) -> list[Tensor]:
        """What each adapter sees; the first picture decides on the size."""
        nets = nets_of(components.adapter)
        pictures = pictures_for_each(state.adapter_image, len(nets), "adapter_image", "T2I-Adapter")
        height, width = given_size(state)
        found: list[Tensor] = []
        for net, picture in zip(nets, pictures, strict=True):
            factor = math.lcm(net.downscale_factor, scale_factor(components))
            grey = net.config.in_channels == 1
            colours = {"do_convert_rgb": not grey, "do_convert_grayscale": grey}
            processor = picture_processor(components, None, do_normalize=False, vae_scale_factor=factor, **colours)
            found.append(processor.preprocess(picture, height=height, width=width).float())
            height, width = found[0].shape[-2:]
        return found

    def weights(self, components: Components, state: BlockView) -> list[float]:
        """How strongly each adapter acts."""
        name, nets = "adapter_conditioning_scale", len(nets_of(components.adapter))
        return for_each(state[name], nets, name, "T2I-Adapter")


class AutoAdapter(AutoPipelineBlocks):
    """Only where there is a picture for a T2I-Adapter."""

    block_classes = [PrepareAdapter]
    block_names = ["prepare"]
    block_trigger_inputs = ["adapter_image"]


def check_fits(components: Components, height: int, width: int) -> None:
    """The feature maps have the shapes of the places that they are added at."""
    denoiser: Any = components.denoiser
    rows, columns = height // scale_factor(components), width // scale_factor(components)
    for net in nets_of(components.adapter):
        shapes = net.feature_shapes(height, width)
        features = tuple(torch.empty(1, *shape, device="meta") for shape in shapes)
        sample = torch.empty(1, denoiser.config["in_channels"], rows, columns, device="meta")
        try:
            denoiser.check_residuals(sample, None, None, features)
        except InputError as problem:
            raise InputError(f"The T2I-Adapter was made for another UNet, or another size: {problem}") from None


def features_at(state: BlockView, step: int, steps: int, repeats: int) -> dict[str, list[Tensor]]:
    """What the UNet is told of the adapter at a step; nothing after its part of the way."""
    features = state[FEATURES]
    if features is None or step >= int(steps * state[PART]):
        return {}
    return {"down_intrablock_additional_residuals": [torch.cat([one] * repeats) for one in features]}
