"""What XL adds before the loop: sizes as conditions, and runs that begin or end part of the way."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import AutoPipelineBlocks, BlockView, ConfigSpec, InputParam, ModularPipelineBlocks, needs
from ...errors import InputError
from ...notes import say_once
from ..common.painting import PreparePainting
from ..common.parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, Components
from ..common.sizes import scale_factor
from ..common.start import AddNoise
from ..common.timesteps import SetTimesteps, SetTimestepsByStrength

Tensor = torch.Tensor
Size = tuple[int, int]


def cutoff(scheduler: Any, part: float) -> int:
    """The timestep at which a part of the way is done."""
    trained = scheduler.config.num_train_timesteps
    return round(trained - part * trained)


def until(scheduler: Any, timesteps: Tensor, denoising_end: float | None) -> Tensor:
    """The timesteps up to a part of the way."""
    if denoising_end is None or denoising_end == 1.0:
        return timesteps
    return timesteps[: int((timesteps >= cutoff(scheduler, denoising_end)).sum())]


def require_steps(timesteps: Tensor, inputs: BlockView) -> None:
    if len(timesteps) == 0:
        raise InputError(
            f"No step of num_inference_steps={inputs.num_inference_steps} lies within the part of the way that "
            "'denoising_start' and 'denoising_end' leave. Raise it, or move the marks."
        )


class SetTimestepsUntil(SetTimesteps):
    """The grid of timesteps, or the beginning of it where another model does the rest."""

    inputs = [*SetTimesteps.inputs, "denoising_end"]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        scheduler = components.scheduler.fresh()
        self.set_grid(scheduler, components, inputs)
        require_steps(until(scheduler, scheduler.timesteps, inputs.denoising_end), inputs)

    def __call__(self, components: Components, state: BlockView) -> None:
        super().__call__(components, state)
        state.timesteps = until(components.scheduler, components.scheduler.timesteps, state.denoising_end)


class SetTimestepsBetween(SetTimestepsByStrength):
    """The end of the grid by strength, or the part of it between two marks."""

    inputs = [*SetTimesteps.inputs, InputParam.template("strength", default=0.3), "denoising_start", "denoising_end"]

    def check(self, components: Components, inputs: BlockView) -> None:
        start, end = inputs.denoising_start, inputs.denoising_end
        if start is None:
            super().check(components, inputs)
        elif end is not None and start >= end:
            raise InputError(f"'denoising_start' ({start}) has to be before 'denoising_end' ({end}).")
        require_steps(self.part(components.scheduler.fresh(), components, inputs), inputs)

    def __call__(self, components: Components, state: BlockView) -> None:
        state.timesteps = self.part(components.scheduler, components, state)

    def part(self, scheduler: Any, components: Components, state: BlockView) -> Tensor:
        """Set a scheduler's grid and where it begins; the timesteps to run."""
        if state.denoising_start is None:
            skipped = self.first_timestep(scheduler, components, state)
        else:
            self.set_grid(scheduler, components, state)
            remaining = int((scheduler.timesteps < cutoff(scheduler, state.denoising_start)).sum())
            if scheduler.order == 2 and remaining % 2 == 0:
                remaining += 1  # a second-order step is not cut in two
            skipped = len(scheduler.timesteps) - remaining
        scheduler.set_begin_index(skipped)
        return until(scheduler, scheduler.timesteps[skipped:], state.denoising_end)


NEARLY_ALL = InputParam.template("strength", default=0.9999)


class SetTimestepsForPainting(SetTimestepsBetween):
    """The same, for painting: nearly everything is new unless told otherwise."""

    inputs = [*SetTimesteps.inputs, NEARLY_ALL, "denoising_start", "denoising_end"]


class PreparePaintingXL(PreparePainting):
    """Picture and mask to latents, with XL's strength; what another model has begun is taken as it is."""

    inputs = [
        *(param for param in PreparePainting.inputs if param.name != "strength"),
        *[NEARLY_ALL, InputParam.template("denoising_start")],
    ]

    def encodes_picture(self, components: Components, state: BlockView) -> bool:
        return state.denoising_start is not None or super().encodes_picture(components, state)

    def start(self, components: Components, state: BlockView) -> None:
        super().start(components, state)
        if state.denoising_start is not None:
            state.latents = state.image_latents


class AddNoiseUnlessStarted(AddNoise):
    """The start picture with the noise of the first timestep; what another model has begun is noisy already."""

    inputs = [*AddNoise.inputs, "denoising_start"]

    def noised(self, components: Components, state: BlockView) -> Tensor:
        return super().noised(components, state) if state.denoising_start is None else state.image_latents


SIZES = [
    *["original_size", "target_size", "crops_coords_top_left"],
    *["negative_original_size", "negative_target_size", "negative_crops_coords_top_left"],
]


class DescribeSizes(ModularPipelineBlocks):
    """Original size, crop and target size (the refiner: an aesthetic score) as numbers (arXiv:2307.01952)."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    expected_configs = [ConfigSpec("requires_aesthetics_score", default=False)]
    inputs = [
        *needs("latents", "prompt_embeds", "pooled_prompt_embeds"),
        *SIZES,
        *["aesthetic_score", "negative_aesthetic_score"],
    ]
    outputs = ["add_time_ids", "negative_add_time_ids"]

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.original_size is None or inputs.target_size is None:
            scale_factor(components)  # the size of the picture itself is what the model is told: it has to be known
        for name in SIZES:
            if inputs[name] is not None and len(inputs[name]) != 2:
                raise InputError(f"{name!r} wants two numbers (height or top, width or left), got {inputs[name]}.")

    def __call__(self, components: Components, state: BlockView) -> None:
        original, target = state.original_size, state.target_size
        if original is None or target is None:
            height, width = (side * scale_factor(components) for side in state.latents.shape[-2:])
            original, target = original or (height, width), target or (height, width)
        crop = state.crops_coords_top_left
        negative_original, negative_target, negative_crop = self.negative_sizes(state, original, target)
        if components.requires_aesthetics_score:
            positive: tuple[float, ...] = (*original, *crop, state.aesthetic_score)
            left = state.negative_crops_coords_top_left
            negative: tuple[float, ...] = (*negative_original, *left, state.negative_aesthetic_score)
        else:
            positive = (*original, *crop, *target)
            negative = (*negative_original, *negative_crop, *negative_target)
        self.check_width(components.denoiser, len(positive), state.pooled_prompt_embeds.shape[-1])
        state.add_time_ids = self.rows(positive, state)
        state.negative_add_time_ids = self.rows(negative, state)

    def negative_sizes(self, state: BlockView, original: Size, target: Size) -> tuple[Size, Size, Size]:
        """Original size, target size and crop of the unconditional prediction: its own where both sizes are given."""
        given = state.negative_original_size, state.negative_target_size
        if all(given):
            return *given, state.negative_crops_coords_top_left
        if any(given):
            say_once(
                "'negative_original_size' and 'negative_target_size' do nothing one without the other, here as "
                "elsewhere. Give both."
            )
        return original, target, state.crops_coords_top_left

    @staticmethod
    def rows(numbers: tuple[float, ...], state: BlockView) -> Tensor:
        return torch.tensor([numbers]).to(state.prompt_embeds).repeat(len(state.latents), 1)

    @staticmethod
    def check_width(unet: Any, count: int, pooled: int) -> None:
        wanted, got = (
            unet.config.projection_class_embeddings_input_dim,
            unet.config.addition_time_embed_dim * count + pooled,
        )
        if wanted != got:
            raise InputError(
                f"The denoiser wants {wanted} numbers of size and pooled text, got {got} ({count} sizes of "
                f"{unet.config.addition_time_embed_dim} and {pooled} of pooled text). "
                "Is 'requires_aesthetics_score' (refiner: true, base: false) right for this model?"
            )


class DescribeSizesOfPictures(DescribeSizes):
    """The same where a picture is given: each negative size counts by itself, and the crop is that of the prompt."""

    def negative_sizes(self, state: BlockView, original: Size, target: Size) -> tuple[Size, Size, Size]:
        sizes = state.negative_original_size or original, state.negative_target_size or target
        return *sizes, state.crops_coords_top_left


class AutoDescribeSizes(AutoPipelineBlocks):
    """By whether a picture is given."""

    block_classes = [DescribeSizesOfPictures, DescribeSizes]
    block_names = ["with_picture", "plain"]
    block_trigger_inputs = ["image", None]
