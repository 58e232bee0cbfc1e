"""Painting: a picture and a mask to latents, the mask in the loop, and a painted crop back into the whole picture."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import interpolate

from ...blocks import (
    LATER,
    AutoPipelineBlocks,
    BlockView,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
)
from ...errors import InputError
from ...images import VaeImageProcessor
from .parts import AUTOENCODER, DENOISER_OUTLINE, SCHEDULER, Components
from .sizes import (
    check_memory,
    check_ready_latents,
    check_size,
    latent_size,
    masks_processor,
    packed,
    packed_side,
    picture_processor,
    pixel_size,
    repeated,
    scale_factor,
)
from .start import check_adds_noise, first_noise, reads_more, to_latents
from .timesteps import SetTimestepsForPainting

Tensor = torch.Tensor
CROP_BOX = OutputParam(
    "crop_box", tuple[int, int, int, int], "Part of the picture (left, top, right, bottom) that is painted in."
)
PAINTED_ON = InputParam(
    "painted_on", dict, given=False, description="Picture and mask, for an autoencoder whose decoder is told them."
)


class PreparePainting(ModularPipelineBlocks):
    """Picture and mask to latents: what is painted starts from noise, what stays is kept at hand."""

    expected_components = [AUTOENCODER, SCHEDULER, DENOISER_OUTLINE]
    inputs = [
        InputParam.template("image", required=True),
        InputParam.template("mask_image", required=True),
        *needs("prompt_embeds", "timesteps"),
        *["height", "width", "generator", "latents", "padding_mask_crop", "masked_image_latents"],
        InputParam.template("strength", default=1.0),
    ]
    outputs = [
        *["latents", "noise", OutputParam.template("image_latents"), "mask", "masked_image_latents", CROP_BOX],
        OutputParam("painted_on", dict, PAINTED_ON.description),
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)
        self.check_channels(components)
        check_adds_noise(components.scheduler)
        if inputs.padding_mask_crop is not None and any(
            isinstance(v, (Tensor, list)) for v in (inputs.image, inputs.mask_image)
        ):
            raise InputError("'padding_mask_crop' wants 'image' and 'mask_image' as single PIL pictures.")
        if LATER not in (inputs.height, inputs.width):
            check_memory(components, *latent_size(components, inputs))
        if all(value is not LATER for value in (inputs.height, inputs.width, inputs.image, inputs.mask_image)):
            pixels, _, _ = self.pixels(components, inputs)  # what it refuses, it refuses now
            check_ready_latents(components, pixels, *pixel_size(components, inputs))

    def __call__(self, components: Components, state: BlockView) -> None:
        pixels, mask, state.crop_box = self.pixels(components, state)
        state.image_latents = None
        if self.encodes_picture(components, state):
            state.image_latents = packed(components.denoiser, to_latents(components, pixels, state))
        self.start(components, state)
        given = state.masked_image_latents
        masked = given if given is not None else self.masked(components, pixels, mask)
        known = None if masked is None else packed(components.denoiser, to_latents(components, masked, state))
        state.masked_image_latents = known
        state.painted_on = self.told_to_decoder(components, pixels, mask, len(state.latents))
        rows = repeated(self.small(components, mask, state), len(state.latents), "mask_image")
        state.mask = packed(components.denoiser, rows).to(state.latents)

    def told_to_decoder(
        self, components: Components, pixels: Tensor, mask: Tensor, samples: int
    ) -> dict[str, Tensor] | None:
        """Picture and mask, where a decoder keeps what is not painted by itself (AsymmetricAutoencoderKL)."""
        paints = getattr(components.autoencoder, "paints", False)
        if not paints or pixels.shape[1] == components.autoencoder.latent_channels:
            return None
        pair = {"image": pixels, "mask": mask}
        return {name: repeated(value, samples, name).to(components.device) for name, value in pair.items()}

    def masked(self, components: Components, pixels: Tensor, mask: Tensor) -> Tensor | None:
        """The picture without what is painted; None where it was given as latents and nothing reads it."""
        if pixels.shape[1] == components.autoencoder.latent_channels:
            if not reads_more(components.denoiser):
                return None
            raise InputError("A picture that is given as latents cannot be masked: give 'masked_image_latents' too.")
        return pixels * (mask < 0.5)

    def encodes_picture(self, components: Components, state: BlockView) -> bool:
        """Whether what stays is needed as latents: not by a denoiser that sees it and starts from pure noise."""
        return state.strength < 1.0 or not reads_more(components.denoiser)

    def small(self, components: Components, mask: Tensor, state: BlockView) -> Tensor:
        """The mask at the size of the latents."""
        return interpolate(mask, size=latent_size(components, state))

    @staticmethod
    def check_channels(components: Components) -> None:
        """The latents alone, or beside them a mask and the masked picture."""
        channels, latent = components.denoiser.config.in_channels, components.autoencoder.latent_channels
        if channels not in (latent, 2 * latent + 1):
            raise InputError(
                f"Painting wants a denoiser with {latent} or {2 * latent + 1} input channels, this one has {channels}."
            )

    def pixels(
        self, components: Components, state: BlockView
    ) -> tuple[Tensor, Tensor, tuple[int, int, int, int] | None]:
        """Picture and mask at the size to paint, and the part of the picture that they show."""
        height, width = pixel_size(components, state)
        masks, pictures = masks_processor(components), picture_processor(components)
        box, options = None, dict[str, Any](height=height, width=width)
        if state.padding_mask_crop is not None:
            mask: Any = state.mask_image  # one PIL picture: `check` refuses others here
            box = masks.get_crop_region(mask, width, height, pad=state.padding_mask_crop)
            options |= {"crops_coords": box, "resize_mode": "fill"}
        pixels = pictures.preprocess(state.image, **options).float()
        return pixels, masks.preprocess(state.mask_image, **options), box

    def start(self, components: Components, state: BlockView) -> None:
        """Pure noise at full strength, else the picture with noise."""
        size = latent_size(components, state)
        shape = (len(state.prompt_embeds), components.autoencoder.latent_channels, *size)
        given = state.latents is not None
        state.noise = first_noise(components, shape, state)
        if state.strength == 1.0 or given:
            state.latents = state.noise * components.scheduler.init_noise_sigma
        else:
            state.latents = components.scheduler.add_noise(
                state.image_latents, state.noise, state.timesteps[:1].repeat(len(state.noise))
            )


class PreparePackedPainting(PreparePainting):
    """Picture and mask to tokens; a denoiser that reads more is given every pixel of the mask."""

    inputs = [
        *(param for param in PreparePainting.inputs if param.name != "strength"),
        InputParam.template("strength", default=0.6),
    ]

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


class StartPainting(SequentialPipelineBlocks):
    """Inpainting: from a picture and a mask."""

    block_classes = [SetTimestepsForPainting, PreparePainting]
    block_names = ["timesteps", "latents"]


class AppendMask(ModularPipelineBlocks):
    """Mask and masked picture beside the latents, for a denoiser that was taught to read them."""

    expected_components = [DENOISER_OUTLINE]
    inputs = needs("model_input", "mask", "masked_image_latents")
    outputs = ["model_input"]

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        wide = reads_more(components.denoiser)
        parts = [state.model_input, state.mask, state.masked_image_latents] if wide else [state.model_input]
        state.model_input = torch.cat(parts, dim=1)


class KeepUnmasked(ModularPipelineBlocks):
    """Outside of the mask: the start picture with as much noise as the next step has."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE]
    inputs = [*needs("latents", "noise", "mask", "timesteps"), InputParam.template("image_latents", required=False)]
    outputs = ["latents"]

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        if reads_more(components.denoiser):  # it keeps the rest by itself
            state.latents = state.latents
            return
        kept = state.image_latents
        if i < len(state.timesteps) - 1:
            kept = components.scheduler.add_noise(kept, state.noise, state.timesteps[i + 1 : i + 2])
        state.latents = (1 - state.mask) * kept + state.mask * state.latents


class PasteCrop(ModularPipelineBlocks):
    """The painted crop back into the whole picture."""

    inputs = [
        InputParam("images", list, required=True, given=False, description="The pictures."),
        InputParam.template("image", required=True),
        InputParam.template("mask_image", required=True),
        InputParam("crop_box", tuple, required=True, given=False, description="Where the crop belongs."),
        "output_type",
    ]
    outputs = ["images"]

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.output_type != "pil":
            raise InputError(
                f"'padding_mask_crop' pastes PIL pictures; it wants output_type='pil', got {inputs.output_type!r}."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        processor = VaeImageProcessor(do_convert_rgb=True)
        mask: Any = state.mask_image
        picture: Any = state.image
        state.images = [processor.apply_overlay(mask, picture, one, state.crop_box) for one in state.images]


class AutoAppendMask(AutoPipelineBlocks):
    """Only when painting."""

    block_classes = [AppendMask]
    block_names = ["append"]
    block_trigger_inputs = ["mask_image"]


class AutoKeepUnmasked(AutoPipelineBlocks):
    """Only when painting."""

    block_classes = [KeepUnmasked]
    block_names = ["keep"]
    block_trigger_inputs = ["mask_image"]


class AutoPasteCrop(AutoPipelineBlocks):
    """Only where the picture was cropped to the mask."""

    block_classes = [PasteCrop]
    block_names = ["paste"]
    block_trigger_inputs = ["padding_mask_crop"]
