"""Before the loop: sizes in latents, the grid of timesteps, the first latents with or without a first frame."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ...blocks import AutoPipelineBlocks, BlockView, InputParam, SequentialPipelineBlocks
from ...errors import InputError
from ...notes import say_once
from ..common.flow import SetEvenTimesteps
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, SCHEDULER, Components
from ..common.sizes import check_size, frames_of, latent_frames, repeated, scale_factor
from ..common.video import PrepareVideoLatents, VideoComponents, video_processor

Tensor = torch.Tensor
SIZE = [
    InputParam.template("height", default=512, multiple_of=32, description="Height of the video in pixels."),
    InputParam.template("width", default=704, multiple_of=32, description="Width of the video in pixels."),
    InputParam.template("num_frames", default=161),
]
SIZE_NAMES = [param.name for param in SIZE]
IMAGE = InputParam.template("image", required=True, description="The first frame.")
HELD = InputParam.template("first_frame_mask", given=False)


def latent_grid(components: Components, state: BlockView) -> tuple[int, int, int]:
    """Frames, rows and columns of the latents; what frames are too many for whole latents is left out."""
    latents, factor = latent_frames(components, state.num_frames), scale_factor(components)
    if (made := frames_of(components, latents)) != state.num_frames:
        say_once(
            f"A video of {state.num_frames} frames is made with {made}: this model takes 1 frame and "
            f"{components.autoencoder.temporal_scale_factor} at a time."
        )
    return latents, state.height // factor, state.width // factor


class SetVideoTimesteps(SetEvenTimesteps):
    """Even sigmas from 1, shifted by the number of latents where the scheduler does that."""

    inputs = [*(param for param in SetEvenTimesteps.inputs if param.name not in SIZE_NAMES), *SIZE]

    def tokens(self, components: Components, state: BlockView) -> int:
        frames, rows, columns = latent_grid(components, state)
        return frames * rows * columns


class PrepareTokens(PrepareVideoLatents):
    """Noise of the wanted length and size, in fp32, a token for each latent."""

    inputs = [*(param for param in PrepareVideoLatents.inputs if param.name not in SIZE_NAMES), *SIZE]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_size(components, inputs)
        config = components.denoiser.config
        if config.patch_size != 1 or config.patch_size_t != 1:
            got = (config.patch_size_t, config.patch_size)
            raise InputError(f"This pipeline makes a token of each latent; this denoiser's patches are {got}.")
        super().check(components, inputs)

    def shape(self, components: Components, state: BlockView, samples: int) -> tuple[int, ...]:
        return samples, components.denoiser.config.in_channels, *latent_grid(components, state)


class PrepareFirstFrame(PrepareTokens):
    """The same with a picture as the first latent frame; the tokens of it have no noise, and a mask says so."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER]
    inputs = [IMAGE, *PrepareTokens.inputs]
    outputs = ["latents", "first_frame_mask"]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return [] if inputs.latents is None else ["autoencoder"]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        video_processor(components).preprocess(inputs.image, height=inputs.height, width=inputs.width)

    def __call__(self, components: VideoComponents, state: BlockView) -> None:  # type: ignore[override]
        super().__call__(components, state)
        frames, rows, columns = latent_grid(components, state)
        mask = torch.ones(1, frames, rows * columns, device=components.device)
        mask[:, 0] = 0.0
        state.first_frame_mask = mask.flatten(1)

    def drawn(self, components: VideoComponents, state: BlockView, shape: tuple[int, ...]) -> Tensor:  # type: ignore[override]
        first = self.first_frame(components, state, shape[0])
        return torch.cat([first, super().drawn(components, state, shape)[:, :, 1:]], dim=2)

    @staticmethod
    def first_frame(components: VideoComponents, state: BlockView, samples: int) -> Tensor:
        """A draw from the picture's posterior, each picture by itself: of every sample where each has a generator."""
        vae, drawn_from = components.autoencoder, state.generator
        pixels = video_processor(components).preprocess(state.image, height=state.height, width=state.width)
        if isinstance(drawn_from, list):
            pixels = repeated(pixels, samples, "image")
        generators = drawn_from if isinstance(drawn_from, list) else [drawn_from] * len(pixels)
        pixels = pixels[:, :, None].to(components.device, vae.dtype)
        rows = [
            vae.encode(picture).latent_dist.sample(generator).float()
            for picture, generator in zip(pixels.split(1), generators, strict=True)
        ]
        return repeated(vae.normalize_latents(torch.cat(rows)), samples, "image")


class StartFromText(SequentialPipelineBlocks):
    """Text to video: the whole grid, from noise."""

    block_classes = {"timesteps": SetVideoTimesteps, "latents": PrepareTokens}


class AutoStart(AutoPipelineBlocks):
    """Grid and first latents, by what is given."""

    block_classes = [StartFromText.with_parts(latents=PrepareFirstFrame), StartFromText]
    block_names = ["image2video", "text2video"]
    block_trigger_inputs = ["image", None]
