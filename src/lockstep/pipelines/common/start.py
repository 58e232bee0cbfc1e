"""The first latents: noise, or a picture with noise."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ...blocks import LATER, BlockView, InputParam, ModularPipelineBlocks, SequentialPipelineBlocks, needs, randn_tensor
from ...errors import InputError
from ...schedulers import SchedulerMixin
from .parts import AUTOENCODER, AUTOENCODER_OUTLINE, DENOISER_OUTLINE, SCHEDULER, Components
from .sizes import (
    check_memory,
    check_picture,
    check_ready_latents,
    check_size,
    given_size,
    latent_channels,
    latent_size,
    made_channels,
    packed,
    picture_processor,
    pixel_size,
    repeated,
    scale_factor,
)
from .timesteps import SetTimesteps, SetTimestepsByStrength

Tensor = torch.Tensor


class PrepareLatents(ModularPipelineBlocks):
    """Noise of the wanted size, on the scale of the scheduler's first step."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*needs("prompt_embeds", "timesteps"), "height", "width", "generator", "latents"]
    outputs = ["latents"]
    noise_dtype: ClassVar[torch.dtype | None] = None  # in which noise is drawn, where it is not the text's

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)
        self.check_channels(components)
        if LATER not in (inputs.height, inputs.width):
            check_memory(components, *latent_size(components, inputs))
        if isinstance(inputs.latents, Tensor) and inputs.height is not LATER:
            check_latents(components, inputs.latents, self.shape(components, inputs, len(inputs.latents)))

    def __call__(self, components: Components, state: BlockView) -> None:
        shape = self.shape(components, state, len(state.prompt_embeds))
        state.latents = first_noise(components, shape, state, self.noise_dtype) * components.scheduler.init_noise_sigma

    def check_channels(self, components: Components) -> None:
        """The denoiser reads the latents alone."""
        check_channels(components.denoiser)

    def shape(self, components: Components, state: BlockView, samples: int) -> tuple[int, ...]:
        """Samples, channels and the latents' own axes; a video has one for time."""
        return (samples, latent_channels(components.denoiser), *latent_size(components, state))


class EncodeImage(ModularPipelineBlocks):
    """The start picture to latents, one for each picture to make."""

    expected_components = [AUTOENCODER, DENOISER_OUTLINE]
    inputs = [InputParam.template("image", required=True), *needs("prompt_embeds"), "height", "width", "generator"]
    outputs = ["image_latents"]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)
        if inputs.image is not LATER:
            if None in (inputs.height, inputs.width):
                check_picture(components, inputs.image)
            pixels = self.pixels(components, inputs)  # what it refuses, it refuses now
            check_ready_latents(components, pixels, *self.size(components, inputs))

    def __call__(self, components: Components, state: BlockView) -> None:
        state.image_latents = to_latents(components, self.pixels(components, state), state)

    def pixels(self, components: Components, state: BlockView) -> Tensor:
        height, width = self.size(components, state)
        return picture_processor(components).preprocess(state.image, height=height, width=width)

    def size(self, components: Components, state: BlockView) -> tuple[int | None, int | None]:
        """Height and width that a picture is brought to; None: its own."""
        return given_size(state)


class TakePictureSize(ModularPipelineBlocks):
    """The size of the picture that a run starts from, rounded down to whole tokens, where no size is given."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [InputParam.template("image", required=True), "height", "width"]
    outputs = ["height", "width"]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)
        if inputs.image is not LATER and None in (inputs.height, inputs.width):
            check_picture(components, inputs.image)
        if inputs.image is not LATER:
            size = given_size(inputs)
            check_ready_latents(components, self.pixels(components, inputs, *size), *size)

    def __call__(self, components: Components, state: BlockView) -> None:
        pixels = self.pixels(components, state, state.height, state.width)
        side = 1 if pixels.shape[1] != latent_channels(components.denoiser) else scale_factor(components)
        state.height, state.width = (side * size for size in pixels.shape[-2:])

    @staticmethod
    def pixels(components: Components, state: BlockView, height: int | None, width: int | None) -> Tensor:
        return picture_processor(components).preprocess(state.image, height=height, width=width)


class EncodeImageAtSize(EncodeImage):
    """The same; a picture without a size is brought to the one that the denoiser was trained at."""

    def size(self, components: Components, state: BlockView) -> tuple[int | None, int | None]:
        later = LATER in (state.height, state.width)
        return given_size(state) if later else pixel_size(components, state)


class AddNoise(ModularPipelineBlocks):
    """The start picture with as much noise as the first timestep has."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE]
    inputs = [
        *needs("image_latents", "timesteps"),
        "generator",
        InputParam.template("latents", description="Ready noised latents."),
    ]
    outputs = ["latents"]

    def check(self, components: Components, inputs: BlockView) -> None:
        self.check_channels(components)
        check_adds_noise(components.scheduler)

    def check_channels(self, components: Components) -> None:
        """The denoiser reads the latents alone."""
        check_channels(components.denoiser)

    def __call__(self, components: Components, state: BlockView) -> None:
        given = state.latents
        state.latents = self.noised(components, state) if given is None else given.to(components.device)

    def noised(self, components: Components, state: BlockView) -> Tensor:
        clean = state.image_latents
        noise = randn_tensor(clean.shape, state.generator, components.device, clean.dtype)
        noised = components.scheduler.add_noise(clean, noise, state.timesteps[:1].repeat(len(clean)))
        return packed(components.denoiser, noised)


class StartFromNoise(SequentialPipelineBlocks):
    """Text to image: the whole grid, from noise."""

    block_classes = [SetTimesteps, PrepareLatents]
    block_names = ["timesteps", "latents"]


class StartFromImage(SequentialPipelineBlocks):
    """Image to image: the end of the grid, from a picture with noise."""

    block_classes = [SetTimestepsByStrength, EncodeImage, AddNoise]
    block_names = ["timesteps", "encode_image", "latents"]


def reads_more(denoiser: Any) -> bool:
    """Whether a denoiser reads something beside the latents."""
    return denoiser.config.in_channels > made_channels(denoiser)


def check_channels(denoiser: Any) -> None:
    """A denoiser that reads more than it makes wants a mask beside the latents."""
    if reads_more(denoiser):
        raise InputError(
            f"This denoiser reads {denoiser.config.in_channels} channels and makes {made_channels(denoiser)}: it "
            "wants more than noise. A painting model is given 'image' and 'mask_image'."
        )


def check_adds_noise(scheduler: SchedulerMixin) -> None:
    """A run that starts from a picture needs a scheduler that can add noise to it."""
    if type(scheduler).add_noise is SchedulerMixin.add_noise:
        raise InputError(
            f"{type(scheduler).__name__} adds no noise to a picture, so no run can start from one. Give another "
            "scheduler, or start from noise."
        )


def check_latents(components: Components, latents: Tensor, shape: tuple[int, ...]) -> None:
    """Given latents lie as the denoiser reads them."""
    wanted = packed(components.denoiser, torch.empty(shape, device="meta")).shape
    if latents.shape != wanted:
        raise InputError(
            f"'latents' has to have the shape {list(wanted)} for this size and number of pictures, "
            f"got {list(latents.shape)}."
        )


def first_noise(
    components: Components, shape: tuple[int, ...], state: BlockView, dtype: torch.dtype | None = None
) -> Tensor:
    """The given latents, or noise drawn for each sample in the autoencoder's shape, as the denoiser reads it."""
    if state.latents is None:
        drawn = randn_tensor(shape, state.generator, components.device, dtype or state.prompt_embeds.dtype)
        return packed(components.denoiser, drawn)
    check_latents(components, state.latents, shape)
    return state.latents.to(components.device)


def to_latents(components: Components, pixels: Tensor, state: BlockView, *, drawn: bool = True) -> Tensor:
    """Pictures through the encoder (latents pass), one for each sample of the batch: drawn, or the likeliest."""
    vae, samples = components.autoencoder, len(state.prompt_embeds)
    if pixels.shape[1] == vae.latent_channels:
        return repeated(pixels, samples, "image").to(state.prompt_embeds)
    per_sample = isinstance(state.generator, list)
    if per_sample:  # every sample draws from its own generator, as it would alone
        pixels = repeated(pixels, samples, "image")
    encoded = vae.encode(pixels.to(device=components.device, dtype=vae.dtype))
    if not hasattr(encoded, "latent_dist"):
        latents = encoded.latents
    else:
        latents = encoded.latent_dist.sample(state.generator) if drawn else encoded.latent_dist.mode()
    latents = vae.normalize_latents(latents.to(state.prompt_embeds.dtype))
    return repeated(latents, samples, "image")
