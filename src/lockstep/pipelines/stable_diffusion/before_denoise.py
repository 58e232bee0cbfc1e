"""From inputs to the first latents: the grid of timesteps, noise, start pictures, masks and control pictures."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import interpolate

from ...blocks import ComponentSpec, InputParam, ModularPipelineBlocks, OutputParam, needs, randn_tensor
from ...errors import InputError
from ...images import VaeImageProcessor, mask_processor
from ...models.autoencoders.autoencoder_kl import AutoencoderKL
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...schedulers import SchedulerMixin
from .encoders import GUIDER

Tensor = torch.Tensor
UNET = ComponentSpec("unet", UNet2DConditionModel)
VAE = ComponentSpec("vae", AutoencoderKL | AutoencoderTiny)
SCHEDULER = ComponentSpec("scheduler", SchedulerMixin)
CROP_BOX = OutputParam(
    "crop_box", tuple[int, int, int, int], "Part of the picture (left, top, right, bottom) that is painted in."
)


class SetTimesteps(ModularPipelineBlocks):
    """The grid of timesteps, from the number of steps or as given."""

    expected_components = [SCHEDULER]
    inputs = ["num_inference_steps", "timesteps", "sigmas"]
    outputs = ["timesteps"]

    def check(self, components: Any, inputs: Any) -> None:
        given = [name for name in ("timesteps", "sigmas") if getattr(inputs, name) is not None]
        if len(given) == 2:
            raise InputError("Give 'timesteps' or 'sigmas', not both: either of them says all about the grid.")
        self.set_grid(components.scheduler.fresh(), components.device, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Any, state: Any) -> None:
        self.set_grid(components.scheduler, components.device, state)
        components.scheduler.set_begin_index(0)
        state.timesteps = components.scheduler.timesteps

    def set_grid(self, scheduler: Any, device: torch.device, state: Any) -> int:
        """Set a scheduler's whole grid; returns its number of steps."""
        given = {name: value for name in ("timesteps", "sigmas") if (value := getattr(state, name)) is not None}
        given = {name: value.tolist() if isinstance(value, Tensor) else value for name, value in given.items()}
        if given:
            scheduler.set_timesteps(device=device, **given)
            return len(scheduler.timesteps)
        scheduler.set_timesteps(state.num_inference_steps, device=device)
        return state.num_inference_steps


class SetTimestepsByStrength(SetTimesteps):
    """The end of the grid: the stronger the change, the more of it."""

    inputs = ["num_inference_steps", "timesteps", "sigmas", "strength"]

    def check(self, components: Any, inputs: Any) -> None:
        super().check(components, inputs)
        if int(inputs.num_inference_steps * inputs.strength) < 1:
            raise InputError(
                f"strength={inputs.strength} of num_inference_steps={inputs.num_inference_steps} leaves no step to run. "
                "Raise one of them."
            )

    def __call__(self, components: Any, state: Any) -> None:
        steps = self.set_grid(components.scheduler, components.device, state)
        skipped = max(steps - min(int(steps * state.strength), steps), 0) * components.scheduler.order
        components.scheduler.set_begin_index(skipped)
        state.timesteps = components.scheduler.timesteps[skipped:]


class SetTimestepsForPainting(SetTimestepsByStrength):
    """The end of the grid; painting starts from pure noise unless told otherwise."""

    inputs = ["num_inference_steps", "timesteps", "sigmas", InputParam.template("strength", default=1.0)]


class EmbedGuidance(ModularPipelineBlocks):
    """The guidance scale as an embedding, for denoisers that were taught it (arXiv:2310.04378)."""

    expected_components = [UNET, GUIDER]
    inputs = [*needs("prompt_embeds")]
    outputs = ["timestep_cond"]

    def __call__(self, components: Any, state: Any) -> None:
        width = components.unet.config.time_cond_proj_dim
        state.timestep_cond = None
        if width is not None:
            scale = torch.tensor(components.guider.guidance_scale - 1).repeat(len(state.prompt_embeds))
            state.timestep_cond = guidance_embedding(scale, width).to(state.prompt_embeds)


def guidance_embedding(scale: Tensor, width: int) -> Tensor:
    """Sine and cosine of the scale at falling frequencies."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half) * -(torch.log(torch.tensor(10000.0)) / (half - 1)))
    angles = (scale * 1000.0)[:, None] * frequencies[None]
    return torch.nn.functional.pad(torch.cat([angles.sin(), angles.cos()], dim=1), (0, width % 2))


class PrepareLatents(ModularPipelineBlocks):
    """Noise of the wanted size, on the scale of the scheduler's first step."""

    expected_components = [SCHEDULER, UNET]
    inputs = [*needs("prompt_embeds", "timesteps"), "height", "width", "generator", "latents"]
    outputs = ["latents"]

    def check(self, components: Any, inputs: Any) -> None:
        check_size(components, inputs)

    def __call__(self, components: Any, state: Any) -> None:
        size = latent_size(components, state)
        shape = (len(state.prompt_embeds), components.unet.config.in_channels, *size)
        state.latents = first_noise(shape, state, components.device) * components.scheduler.init_noise_sigma


class EncodeImage(ModularPipelineBlocks):
    """The start picture to latents, one for each picture to make."""

    expected_components = [VAE]
    inputs = [InputParam.template("image", required=True), *needs("prompt_embeds"), "height", "width", "generator"]
    outputs = ["image_latents"]

    def check(self, components: Any, inputs: Any) -> None:
        check_size(components, inputs)

    def __call__(self, components: Any, state: Any) -> None:
        pixels = picture_processor(components).preprocess(state.image, height=state.height, width=state.width)
        state.image_latents = to_latents(components, pixels, state)


class AddNoise(ModularPipelineBlocks):
    """The start picture with as much noise as the first timestep has."""

    expected_components = [SCHEDULER]
    inputs = [
        *needs("image_latents", "timesteps"),
        "generator",
        InputParam.template("latents", description="Ready noised latents."),
    ]
    outputs = ["latents"]

    def __call__(self, components: Any, state: Any) -> None:
        if state.latents is not None:
            state.latents = state.latents.to(components.device)
            return
        clean = state.image_latents
        noise = randn_tensor(clean.shape, state.generator, components.device, clean.dtype)
        state.latents = components.scheduler.add_noise(clean, noise, state.timesteps[:1].repeat(len(clean)))


class PreparePainting(ModularPipelineBlocks):
    """Picture and mask to latents: what is painted starts from noise, what stays is kept at hand."""

    expected_components = [VAE, SCHEDULER, UNET]
    inputs = [
        InputParam.template("image", required=True),
        InputParam.template("mask_image", required=True),
        *needs("prompt_embeds", "timesteps"),
        *["height", "width", "generator", "latents", "padding_mask_crop", "masked_image_latents"],
        InputParam.template("strength", default=1.0),
    ]
    outputs = ["latents", "noise", OutputParam.template("image_latents"), "mask", "masked_image_latents", CROP_BOX]

    def check(self, components: Any, inputs: Any) -> None:
        check_size(components, inputs)
        channels = components.unet.config.in_channels
        if channels not in (4, 9):
            raise InputError(f"Painting wants a denoiser with 4 or 9 input channels, this one has {channels}.")
        if inputs.padding_mask_crop is not None and any(
            isinstance(v, (Tensor, list)) for v in (inputs.image, inputs.mask_image)
        ):
            raise InputError("'padding_mask_crop' wants 'image' and 'mask_image' as single PIL pictures.")

    def __call__(self, components: Any, state: Any) -> None:
        height, width = pixel_size(components, state)
        masks, pictures = mask_processor(components.vae_scale_factor), picture_processor(components)
        state.crop_box = None
        options: dict[str, Any] = {"height": height, "width": width}
        if state.padding_mask_crop is not None:
            state.crop_box = masks.get_crop_region(state.mask_image, width, height, pad=state.padding_mask_crop)
            options |= {"crops_coords": state.crop_box, "resize_mode": "fill"}
        pixels = pictures.preprocess(state.image, **options).float()
        mask = masks.preprocess(state.mask_image, **options)
        if state.strength < 1.0 or components.unet.config.in_channels == 4:
            state.image_latents = to_latents(components, pixels, state)
        else:
            state.image_latents = None
        self.start(components, state)
        given = state.masked_image_latents
        masked = given if given is not None else pixels * (mask < 0.5)
        state.masked_image_latents = to_latents(components, masked, state)
        size = (height // components.vae_scale_factor, width // components.vae_scale_factor)
        state.mask = repeated(interpolate(mask, size=size), len(state.latents), "mask").to(state.latents)

    def start(self, components: Any, state: Any) -> None:
        """Pure noise at full strength, else the picture with noise."""
        size = latent_size(components, state)
        shape = (len(state.prompt_embeds), components.vae.config.latent_channels, *size)
        given = state.latents is not None
        state.noise = first_noise(shape, state, components.device)
        if state.strength == 1.0 or given:
            state.latents = state.noise * components.scheduler.init_noise_sigma
        else:
            state.latents = components.scheduler.add_noise(
                state.image_latents, state.noise, state.timesteps[:1].repeat(shape[0])
            )


class PrepareControl(ModularPipelineBlocks):
    """The control picture at the size of the picture to make."""

    inputs = [InputParam.template("control_image", required=True), *needs("prompt_embeds"), "height", "width"]
    outputs = [OutputParam("control_pixels", Tensor, "The control picture as the ControlNet reads it.")]

    def __call__(self, components: Any, state: Any) -> None:
        processor = VaeImageProcessor(
            vae_scale_factor=components.vae_scale_factor, do_convert_rgb=True, do_normalize=False
        )
        pixels = processor.preprocess(state.control_image, height=state.height, width=state.width).float()
        state.control_pixels = repeated(pixels, len(state.prompt_embeds), "control_image").to(state.prompt_embeds)


def picture_processor(components: Any) -> VaeImageProcessor:
    return VaeImageProcessor(vae_scale_factor=components.vae_scale_factor, do_convert_rgb=True)


def check_size(components: Any, inputs: Any) -> None:
    """A height and a width that the autoencoder can divide."""
    factor = components.vae_scale_factor
    for name in ("height", "width"):
        value = getattr(inputs, name)
        if isinstance(value, int) and value % factor:
            near = max(round(value / factor), 1) * factor
            raise InputError(
                f"{name!r} has to be a multiple of {factor} for this autoencoder, got {value}; {near} is near."
            )


def pixel_size(components: Any, state: Any) -> tuple[int, int]:
    """Height and width as given, else the size that the denoiser was trained at."""
    trained = components.unet.config.sample_size
    trained = (trained, trained) if isinstance(trained, int) or trained is None else tuple(trained)
    if None in trained and (state.height is None or state.width is None):
        raise InputError("The denoiser's config names no sample_size; give 'height' and 'width'.")
    height = state.height or trained[0] * components.vae_scale_factor
    return height, state.width or trained[1] * components.vae_scale_factor


def latent_size(components: Any, state: Any) -> tuple[int, int]:
    height, width = pixel_size(components, state)
    return height // components.vae_scale_factor, width // components.vae_scale_factor


def first_noise(shape: tuple[int, ...], state: Any, device: torch.device) -> Tensor:
    """The given latents, or noise drawn for each sample."""
    if state.latents is None:
        return randn_tensor(shape, state.generator, device, state.prompt_embeds.dtype)
    if tuple(state.latents.shape) != shape:
        raise InputError(
            f"'latents' has to have the shape {list(shape)} for this size and number of pictures, got {list(state.latents.shape)}."
        )
    return state.latents.to(device)


def to_latents(components: Any, pixels: Tensor, state: Any) -> Tensor:
    """Pictures through the encoder (latents pass), one for each sample of the batch."""
    vae, samples = components.vae, len(state.prompt_embeds)
    if pixels.shape[1] == vae.config.latent_channels:
        return repeated(pixels, samples, "image").to(state.prompt_embeds)
    per_sample = isinstance(state.generator, list)
    if per_sample:  # every sample draws from its own generator, as it would alone
        pixels = repeated(pixels, samples, "image")
    encoded = vae.encode(pixels.to(device=components.device, dtype=vae.dtype))
    latents = encoded.latent_dist.sample(state.generator) if hasattr(encoded, "latent_dist") else encoded.latents
    latents = vae.normalize_latents(latents.to(state.prompt_embeds.dtype))
    return repeated(latents, samples, "image")


def repeated(rows: Tensor, samples: int, name: str) -> Tensor:
    """As many rows as samples, each one's copies next to each other."""
    if samples % len(rows):
        raise InputError(f"{name!r} has {len(rows)} pictures, which do not divide evenly among {samples} samples.")
    return rows.repeat_interleave(samples // len(rows), dim=0)
