"""What came before a chunk: nothing, an image or a video; and how it is seen at three distances."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import AutoPipelineBlocks, BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...errors import InputError
from ...notes import say_once
from ..common.chunks import NUM_CHUNKS, encoded, made_input, slightly_noised
from ..common.parts import AUTOENCODER, AUTOENCODER_OUTLINE, DENOISER_OUTLINE, Components
from ..common.sizes import check_memory, frames_of, repeated, scale_factor
from ..common.video import VideoComponents, check_videos, video_processor, videos_as_pixels

Tensor = torch.Tensor
HEIGHT = InputParam.template("height", default=384, multiple_of=16, description="Height of the video in pixels.")
WIDTH = InputParam.template("width", default=640, multiple_of=16, description="Width of the video in pixels.")
FRAMES = InputParam.template("num_frames", default=132, description="Number of frames, rounded up to whole chunks.")
SIZES = InputParam("history_sizes", list[int], [16, 2, 1], False, "Latent frames of the past seen from far to near.")
PER_CHUNK = InputParam("num_latent_frames_per_chunk", int, 9, False, "Latent frames of a chunk.", minimum=1)
KEEP_FIRST = InputParam("keep_first_frame", bool, True, False, "Every chunk sees the first frame of the video.")
SKIP_FIRST = InputParam("is_skip_first_chunk", bool, False, False, "Take that of the second chunk for it.")
GIVEN = ("image", "video")
SIGMAS = [
    InputParam(f"{kind}_noise_sigma_{end}", float, value, False, f"The {end} of the noise that the {kind} gets.")
    for kind in GIVEN
    for end, value in (("min", 0.111), ("max", 0.135))
]
ADD_NOISE = [InputParam(f"add_noise_to_{k}_latents", bool, True, False, f"Add noise to the {k}.") for k in GIVEN]
PAST = OutputParam("history_latents", torch.Tensor, "The latent frames before this chunk; zeros before the first.")
FIRST = OutputParam("first_latents", torch.Tensor, "The first frame of the video; none before it is made.")
SEEN = [
    OutputParam(f"history_{part}", torch.Tensor, f"The past as this chunk sees it, {part}.")
    for part in ("short", "mid", "long")
]
SETTINGS: list[Any] = [*needs("prompt_embeds"), HEIGHT, WIDTH, FRAMES, SIZES, PER_CHUNK, KEEP_FIRST]


def frames_per_chunk(components: Components, state: BlockView) -> int:
    return frames_of(components, state.num_latent_frames_per_chunk)


def count_chunks(components: Components, state: BlockView) -> int:
    """As many as the frames take; a video that gets longer by that is told."""
    length, time = frames_per_chunk(components, state), components.autoencoder.temporal_scale_factor
    chunks = max(1, -(-state.num_frames // length))
    made = (chunks * length - 1) // time * time + 1
    if made != state.num_frames:
        say_once(f"A video of {state.num_frames} frames is made as {made}: Helios makes chunks of {length} frames.")
    return chunks


def chunk_shape(components: Components, state: BlockView, samples: int) -> tuple[int, ...]:
    """Samples, channels, frames, rows and columns of a chunk's latents."""
    factor = scale_factor(components)
    sizes = state.height // factor, state.width // factor
    return samples, components.denoiser.config.in_channels, state.num_latent_frames_per_chunk, *sizes


def sizes_of(state: BlockView) -> list[int]:
    """Frames of the past from far to near; without a first frame that is kept, near has its place."""
    far, mid, near = sorted(state.history_sizes, reverse=True)
    return [far, mid, near if state.keep_first_frame else near + 1]


def limits(state: BlockView, kind: str) -> tuple[float, float]:
    """The least and the most noise that is added to an image or a video."""
    return state[f"{kind}_noise_sigma_min"], state[f"{kind}_noise_sigma_max"]


class BeginHistory(ModularPipelineBlocks):
    """Nothing came before: zeros."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = SETTINGS
    outputs = [PAST, FIRST, NUM_CHUNKS]

    def check(self, components: Components, inputs: BlockView) -> None:
        if len(inputs.history_sizes) != 3 or min(inputs.history_sizes) < 1:
            raise InputError(f"'history_sizes' wants three numbers from 1 on, got {inputs.history_sizes}.")
        _, _, frames, rows, columns = chunk_shape(components, inputs, components.samples)
        check_memory(components, rows, columns, frames)
        count_chunks(components, inputs)

    def __call__(self, components: VideoComponents, state: BlockView) -> None:
        self.begin(components, state, None, None)

    def begin(self, components: Components, state: BlockView, past: Tensor | None, first: Tensor | None) -> None:
        shape = list(chunk_shape(components, state, len(state.prompt_embeds)))
        shape[2] = sum(sizes_of(state))
        history = torch.zeros(shape, device=components.device)
        state.history_latents = history if past is None else torch.cat([history, past], dim=2)[:, :, -shape[2] :]
        state.first_latents = first
        state.num_chunks = count_chunks(components, state)


class BeginWithImage(BeginHistory):
    """The video begins with an image, and the past is a still of it."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER]
    inputs = [InputParam.template("image", required=True), *SETTINGS, "generator", *SIGMAS, ADD_NOISE[0]]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        self.pixels(components, inputs)  # what it refuses, it refuses now

    def pixels(self, components: Components, state: BlockView) -> Tensor:
        return video_processor(components).preprocess(state.image, height=state.height, width=state.width)

    def __call__(self, components: VideoComponents, state: BlockView) -> None:
        pixels = repeated(self.pixels(components, state), len(state.prompt_embeds), "image").unsqueeze(2)
        first = encoded(components, pixels, state.generator)
        still = pixels.expand(-1, -1, frames_per_chunk(components, state), -1, -1)
        past = encoded(components, still, state.generator)[:, :, -1:]
        if state.add_noise_to_image_latents:
            first = slightly_noised(first, *limits(state, "image"), state.generator)
            past = slightly_noised(past, *limits(state, "video"), state.generator)
        self.begin(components, state, past, first)


class BeginWithVideo(BeginHistory):
    """The video goes on from another one."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER]
    inputs = [InputParam.template("video", required=True), "image", *SETTINGS, "generator", *SIGMAS, ADD_NOISE[1]]

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.image is not None:
            raise InputError("Give an 'image' to begin with or a 'video' to go on from, not both.")
        super().check(components, inputs)
        check_videos(components, inputs, least=frames_per_chunk(components, inputs))

    def __call__(self, components: VideoComponents, state: BlockView) -> None:
        rows, length = list(videos_as_pixels(components, state)), frames_per_chunk(components, state)
        video = repeated(torch.stack(rows), len(state.prompt_embeds), "video")
        first = encoded(components, video[:, :, :1], state.generator)
        whole = video[:, :, video.shape[2] % length :]
        parts = [encoded(components, part, state.generator) for part in whole.split(length, dim=2)]
        if state.add_noise_to_video_latents:
            first = slightly_noised(first, *limits(state, "image"), state.generator)
            parts = [slightly_noised(part, *limits(state, "video"), state.generator) for part in parts]
        self.begin(components, state, torch.cat(parts, dim=2), first)


class AutoBegin(AutoPipelineBlocks):
    """By what is given."""

    block_classes = [BeginWithVideo, BeginWithImage, BeginHistory]
    block_names = ["video2video", "image2video", "text2video"]
    block_trigger_inputs = ["video", "image", None]


class SeeHistory(ModularPipelineBlocks):
    """The past as this chunk sees it: far, nearer and near, with the first frame of all before the near ones."""

    inputs = [made_input(PAST), made_input(FIRST, required=False), SIZES, KEEP_FIRST]
    outputs = SEEN

    def __call__(self, components: Components, state: BlockView) -> None:
        past = state.history_latents
        state.history_long, state.history_mid, near = past.split(sizes_of(state), dim=2)
        if state.keep_first_frame:
            first = torch.zeros_like(near[:, :, :1]) if state.first_latents is None else state.first_latents
            near = torch.cat([first, near], dim=2)
        state.history_short = near
