"""From inputs to the first latents: the grid of timesteps, noise, start pictures, masks and control pictures."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import interpolate

from ...blocks import (
    LATER,
    AutoPipelineBlocks,
    ComponentSpec,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    needs,
    randn_tensor,
)
from ...errors import InputError
from ...images import VaeImageProcessor, mask_processor
from ...models.autoencoders.autoencoder_kl import AutoencoderKL
from ...models.autoencoders.autoencoder_tiny import AutoencoderTiny
from ...models.controlnets.controlnet import ControlNetModel
from ...models.controlnets.multi import MultiControlNetModel
from ...models.unets.unet_2d_condition import UNet2DConditionModel
from ...schedulers import SchedulerMixin
from .encoders import GUIDER

Tensor = torch.Tensor
UNET = ComponentSpec("unet", UNet2DConditionModel)
VAE = ComponentSpec("vae", AutoencoderKL | AutoencoderTiny)
SCHEDULER = ComponentSpec("scheduler", SchedulerMixin)
CONTROLNET = ComponentSpec("controlnet", ControlNetModel | MultiControlNetModel, optional=True)
CONTROL_PIXELS = OutputParam("control_pixels", list[Tensor], "The control picture as each ControlNet reads it.")
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
        scheduler = components.scheduler.fresh()
        begin = self.first_timestep(scheduler, components.device, inputs)  # what it refuses, it refuses now
        scheduler.check_grid(begin)

    def __call__(self, components: Any, state: Any) -> None:
        self.set_grid(components.scheduler, components.device, state)
        components.scheduler.set_begin_index(0)
        state.timesteps = components.scheduler.timesteps

    def first_timestep(self, scheduler: Any, device: torch.device, state: Any) -> int:
        """Set a scheduler's grid; the index of the timestep that is run first."""
        self.set_grid(scheduler, device, state)
        return 0

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
        steps = self.set_grid(components.scheduler.fresh(), components.device, inputs)
        if int(steps * inputs.strength) < 1:
            raise InputError(f"strength={inputs.strength} of {steps} steps leaves no step to run. Raise one of them.")

    def __call__(self, components: Any, state: Any) -> None:
        skipped = self.first_timestep(components.scheduler, components.device, state)
        components.scheduler.set_begin_index(skipped)
        state.timesteps = components.scheduler.timesteps[skipped:]

    def first_timestep(self, scheduler: Any, device: torch.device, state: Any) -> int:
        """Set a scheduler's grid; how many of its timesteps the strength leaves out."""
        steps = self.set_grid(scheduler, device, state)
        return max(steps - min(int(steps * state.strength), steps), 0) * scheduler.order


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
        check_channels(components.unet)
        if isinstance(inputs.latents, Tensor) and inputs.height is not LATER:
            channels = components.unet.config.in_channels
            check_latents(inputs.latents, (len(inputs.latents), channels, *latent_size(components, inputs)))

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
        if inputs.image is not LATER:
            self.pixels(components, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Any, state: Any) -> None:
        state.image_latents = to_latents(components, self.pixels(components, state), state)

    def pixels(self, components: Any, state: Any) -> Tensor:
        height, width = (None if side is LATER else side for side in (state.height, state.width))
        return picture_processor(components).preprocess(state.image, height=height, width=width)


class AddNoise(ModularPipelineBlocks):
    """The start picture with as much noise as the first timestep has."""

    expected_components = [SCHEDULER, UNET]
    inputs = [
        *needs("image_latents", "timesteps"),
        "generator",
        InputParam.template("latents", description="Ready noised latents."),
    ]
    outputs = ["latents"]

    def check(self, components: Any, inputs: Any) -> None:
        check_channels(components.unet)

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
        if all(value is not LATER for value in (inputs.height, inputs.width, inputs.image, inputs.mask_image)):
            self.pixels(components, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Any, state: Any) -> None:
        pixels, mask, state.crop_box = self.pixels(components, state)
        if state.strength < 1.0 or components.unet.config.in_channels == 4:
            state.image_latents = to_latents(components, pixels, state)
        else:
            state.image_latents = None
        self.start(components, state)
        given = state.masked_image_latents
        masked = given if given is not None else pixels * (mask < 0.5)
        state.masked_image_latents = to_latents(components, masked, state)
        size = latent_size(components, state)
        state.mask = repeated(interpolate(mask, size=size), len(state.latents), "mask_image").to(state.latents)

    def pixels(self, components: Any, state: Any) -> tuple[Tensor, Tensor, tuple[int, int, int, int] | None]:
        """Picture and mask at the size to paint, and the part of the picture that they show."""
        height, width = pixel_size(components, state)
        masks, pictures = mask_processor(components.vae_scale_factor), picture_processor(components)
        box, options = None, dict[str, Any](height=height, width=width)
        if state.padding_mask_crop is not None:
            box = masks.get_crop_region(state.mask_image, width, height, pad=state.padding_mask_crop)
            options |= {"crops_coords": box, "resize_mode": "fill"}
        pixels = pictures.preprocess(state.image, **options).float()
        return pixels, masks.preprocess(state.mask_image, **options), box

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
    """The control picture of each net. Its size is that of the picture to make, unless one is given."""

    expected_components = [CONTROLNET]
    inputs = [
        InputParam.template("control_image", required=True),
        *needs("prompt_embeds"),
        *["height", "width", "padding_mask_crop"],
    ]
    outputs = [CONTROL_PIXELS, "height", "width"]

    def check(self, components: Any, inputs: Any) -> None:
        if components.controlnet is None:
            raise InputError(
                "'control_image' needs a ControlNet: load the pipeline with controlnet=ControlNetModel.from_pretrained(…)."
            )
        if inputs.padding_mask_crop is not None:
            raise InputError("'padding_mask_crop' and 'control_image' do not go together; crop the pictures yourself.")
        check_size(components, inputs)
        self.pixels(components, inputs)  # what it refuses, it refuses now

    def __call__(self, components: Any, state: Any) -> None:
        samples = len(state.prompt_embeds)
        pixels = [repeated(rows, samples, "control_image") for rows in self.pixels(components, state)]
        state.control_pixels = [rows.to(state.prompt_embeds) for rows in pixels]
        state.height, state.width = pixels[0].shape[-2:]

    def pixels(self, components: Any, state: Any) -> list[Tensor]:
        """What each net sees; the first picture decides on the size."""
        nets = len(control_nets(components.controlnet))
        pictures = [state.control_image] if nets == 1 else state.control_image
        if nets > 1 and not (isinstance(pictures, (list, tuple)) and len(pictures) == nets):
            got = f"{len(pictures)}" if isinstance(pictures, (list, tuple)) else "one picture"
            raise InputError(f"'control_image' wants a list with a picture for each of {nets} ControlNets, got {got}.")
        processor = VaeImageProcessor(
            vae_scale_factor=components.vae_scale_factor, do_convert_rgb=True, do_normalize=False
        )
        first = processor.preprocess(pictures[0], height=state.height, width=state.width).float()
        height, width = first.shape[-2:]
        return [first, *(processor.preprocess(one, height=height, width=width).float() for one in pictures[1:])]


class AutoControl(AutoPipelineBlocks):
    """Only where there is a control picture."""

    block_classes = [PrepareControl]
    block_names = ["prepare"]
    block_trigger_inputs = ["control_image"]


def control_nets(controlnet: Any) -> list[ControlNetModel]:
    """The nets of a component that is one, or several."""
    return list(getattr(controlnet, "nets", [controlnet]))


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


def check_channels(unet: Any) -> None:
    """A denoiser that reads more than it makes wants a mask beside the latents."""
    wanted, made = unet.config.in_channels, unet.config.out_channels
    if wanted > made:
        raise InputError(
            f"This denoiser reads {wanted} channels and makes {made}: it wants more than noise. A painting model "
            "(9 channels) is given 'image' and 'mask_image'."
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
    check_latents(state.latents, shape)
    return state.latents.to(device)


def check_latents(latents: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(latents.shape) != shape:
        raise InputError(
            f"'latents' has to have the shape {list(shape)} for this size and number of pictures, "
            f"got {list(latents.shape)}."
        )


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
