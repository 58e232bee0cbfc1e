"""Videos: their size in pixels and latents, the first latents, frames in and frames out as they are ready."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from PIL.Image import Image

from ...blocks import (
    AutoPipelineBlocks,
    BlockView,
    InputParam,
    ModularPipelineBlocks,
    OutputParam,
    SequentialPipelineBlocks,
    needs,
    randn_tensor,
)
from ...errors import InputError
from ...images import VaeImageProcessor
from ...models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from ...notes import say_once
from .decode import Decode
from .face import PicturePipeline
from .parts import AUTOENCODER, AUTOENCODER_OUTLINE, DENOISER_OUTLINE, SCHEDULER, Components
from .sizes import (
    check_memory,
    frames_of,
    latent_frames,
    packed,
    repeated,
    scale_factor,
    token_side,
    whole_frames,
)
from .start import AddNoise, StartFromImage, check_latents
from .timesteps import SetTimesteps

Tensor = torch.Tensor
HEIGHT = InputParam.template("height", default=480, multiple_of=16, description="Height of the video in pixels.")
WIDTH = InputParam.template("width", default=832, multiple_of=16, description="Width of the video in pixels.")
FRAMES = InputParam.template("num_frames", default=81)
ENCODED_VIDEO = InputParam.template("image_latents", required=False, given=False, description="The start video.")
KEEP = InputParam(
    "keep_frames",
    bool,
    default=True,
    description="Keep the frames for the result; off, they are only handed over as they are ready.",
)


class VideoComponents(Components):
    """What a shared block of videos gets as `components`, to a type checker."""

    autoencoder: AutoencoderKLWan  # type: ignore[assignment]


def video_size(components: Components, state: BlockView, count: int) -> tuple[int, int, int]:
    """So many frames, height and width as can be made: whole latents and patches, rounded down."""
    time = components.autoencoder.temporal_scale_factor
    step = scale_factor(components) * token_side(components.denoiser)
    frames = whole_frames(components, count)
    height, width = (side // step * step for side in (state.height, state.width))
    if (frames, height, width) != (count, state.height, state.width):
        say_once(
            f"A video of {count} frames of {state.width} x {state.height} pixels is made as {frames} of "
            f"{width} x {height}: this model takes 1 frame and {time} at a time, and sides in steps of {step} pixels."
        )
    return frames, height, width


def latent_shape(components: Components, state: BlockView, samples: int, count: int) -> tuple[int, ...]:
    """Samples, channels, frames, rows and columns of the latents of so many frames."""
    frames, height, width = video_size(components, state, count)
    vae, factor = components.autoencoder, scale_factor(components)
    return samples, vae.latent_channels, latent_frames(components, frames), height // factor, width // factor


class PrepareVideoLatents(ModularPipelineBlocks):
    """Noise of the wanted length and size, in fp32."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*needs("prompt_embeds", "timesteps"), HEIGHT, WIDTH, FRAMES, "generator", "latents"]
    outputs = ["latents"]

    def check(self, components: Components, inputs: BlockView) -> None:
        self.check_channels(components)
        shape = self.shape(components, inputs, components.samples)
        if 0 in shape:
            raise InputError(f"A video of {inputs.width} x {inputs.height} pixels has no patch of this model.")
        check_memory(components, shape[3], shape[4], frames=shape[2])
        if isinstance(inputs.latents, Tensor):
            self.check_given(components, inputs.latents, (len(inputs.latents), *shape[1:]))

    def check_given(self, components: Components, latents: Tensor, shape: tuple[int, ...]) -> None:
        """Refuse latents that do not lie as a run begins with them."""
        check_latents(components, latents, shape)

    def shape(self, components: Components, state: BlockView, samples: int) -> tuple[int, ...]:
        """Samples, channels, frames, rows and columns of the latents."""
        return latent_shape(components, state, samples, self.frames(state))

    def frames(self, state: BlockView) -> int:
        """How many frames are made at once."""
        return state.num_frames

    def check_channels(self, components: Components) -> None:
        """A denoiser that reads more than it makes wants more than a text."""
        wanted, made = components.denoiser.config.in_channels, components.denoiser.config.out_channels
        if wanted != made:
            raise InputError(
                f"This denoiser reads {wanted} channels and makes {made}: it wants an 'image' (the first frame) beside "
                "the prompt."
            )

    def __call__(self, components: Components, state: BlockView) -> None:
        shape, given = self.shape(components, state, len(state.prompt_embeds)), state.latents
        noise = packed(components.denoiser, self.drawn(components, state, shape)) if given is None else given
        check_latents(components, noise, shape)
        state.latents = noise.to(components.device, torch.float32) * components.scheduler.init_noise_sigma

    def drawn(self, components: Components, state: BlockView, shape: tuple[int, ...]) -> Tensor:
        """What a run begins with, as the autoencoder has it."""
        return randn_tensor(shape, state.generator, components.device, torch.float32)


class EncodeVideo(ModularPipelineBlocks):
    """The start video to latents, one for each video to make; nothing where noised latents are given instead."""

    expected_components = [AUTOENCODER, DENOISER_OUTLINE]
    inputs = ["video", "latents", *needs("prompt_embeds"), HEIGHT, WIDTH]
    outputs = [OutputParam.template("image_latents", description="The start video, encoded.")]

    def check(self, components: Components, inputs: BlockView) -> None:
        if (inputs.video is None) == (inputs.latents is None):
            got = "neither" if inputs.video is None else "both"
            raise InputError(f"Give a 'video' to start from, or ready noised 'latents' of one; got {got}.")
        if inputs.video is not None:
            check_videos(components, inputs)

    def __call__(self, components: VideoComponents, state: BlockView) -> None:
        if state.video is None:
            state.image_latents = None
            return
        vae = components.autoencoder
        videos = [pixels[None].to(components.device, vae.dtype) for pixels in videos_as_pixels(components, state)]
        rows = [vae.encode(pixels).latent_dist.mode().float() for pixels in videos]
        latents = vae.normalize_latents(torch.cat(rows))
        state.image_latents = repeated(latents, len(state.prompt_embeds), "video")


class AddVideoNoise(AddNoise):
    """The start video with as much noise as the first timestep has."""

    expected_components = [*AddNoise.expected_components, AUTOENCODER_OUTLINE]
    inputs = [ENCODED_VIDEO, *(param for param in AddNoise.inputs if param.name != "image_latents"), HEIGHT, WIDTH]
    check_channels = PrepareVideoLatents.check_channels

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        given = inputs.latents
        if isinstance(given, Tensor):
            frames = frames_of(components, given.shape[2] if given.ndim == 5 else 1)
            check_latents(components, given, latent_shape(components, inputs, components.samples, frames))


class StartVideo(SequentialPipelineBlocks):
    """Text to video: the whole grid, from noise."""

    block_classes = {"timesteps": SetTimesteps, "latents": PrepareVideoLatents}


class AutoStartVideo(AutoPipelineBlocks):
    """Grid and first latents, by what is given."""

    block_classes = [
        StartFromImage.with_parts(encode_image=EncodeVideo, latents=AddVideoNoise),
        StartVideo,
        StartVideo,
    ]
    block_names = ["video2video", "image2video", "text2video"]
    block_trigger_inputs = ["video", "image", None]


VIDEO_WORKFLOWS = {"text2video": [], "image2video": ["image"], "video2video": ["video"]}


class DecodeVideo(Decode):
    """Through the autoencoder, frame after frame; each part is handed over as it is ready."""

    upcast_on_nonfinite = ()  # type: ignore[assignment]
    inputs = [*needs("latents"), "output_type", KEEP]
    outputs = ["frames"]

    def __call__(  # type: ignore[override]
        self, components: VideoComponents, state: BlockView
    ) -> Iterator[Any]:
        state.frames = self.undecoded(components, state) if state.output_type == "latent" else None
        if state.output_type == "latent":
            return
        parts = list[Any]()
        try:
            for pixels in self.decoded(components, state):
                part = as_frames(pixels, state.output_type)
                if state.keep_frames:
                    parts.append(part)
                yield part
        finally:
            if parts:
                state.frames = joined(parts)

    def undecoded(self, components: VideoComponents, state: BlockView) -> Tensor:
        """The latents, where those are asked for."""
        return state.latents

    def decoded(self, components: VideoComponents, state: BlockView) -> Iterator[Tensor]:
        """The pixels of the videos, a part after the other."""
        vae = components.autoencoder
        return vae.decode_stream(vae.denormalize_latents(state.latents.to(vae.dtype)))


def video_processor(components: Components) -> VaeImageProcessor:
    """Frames to what the autoencoder takes."""
    return VaeImageProcessor(vae_scale_factor=scale_factor(components), do_convert_rgb=True)


def listed_videos(video: Any) -> list[Any]:
    """One or several videos as a list of them; a video is a list of pictures, or an array with an axis of frames."""
    if isinstance(video, (Tensor, np.ndarray)):
        if video.ndim not in (4, 5):
            raise InputError(
                f"A 'video' as an array has the axes (batch,) frame and those of a picture, got {video.ndim}."
            )
        return list(video) if video.ndim == 5 else [video]
    if not isinstance(video, (list, tuple)) or not video:
        raise InputError(f"A 'video' is a list of pictures, or an array of them, got {type(video).__name__}.")
    one = isinstance(video[0], Image) or getattr(video[0], "ndim", 0) == 3
    return [list(video)] if one else [list(part) if isinstance(part, tuple) else part for part in video]


def videos_as_pixels(components: Components, state: BlockView) -> Iterator[Tensor]:
    """The pixels of each start video (channel, frame, row, column), at the size of the video to make."""
    processor = video_processor(components)
    for video in listed_videos(state.video):
        yield processor.preprocess(video, height=state.height, width=state.width).transpose(0, 1)


def check_videos(components: Components, inputs: BlockView, least: int = 1) -> None:
    """Refuse, before anything is computed, videos that are none, too short, or do not share the samples evenly."""
    count = len(listed_videos(inputs.video))
    if components.samples % count:
        raise InputError(f"'video' has {count} videos for {components.samples} samples.")
    for pixels in videos_as_pixels(components, inputs):
        if len(pixels) != 3:
            raise InputError(
                f"'video' has frames of {len(pixels)} channels, not 3. A tensor has the axes frame, channel, row, "
                "column; an array the axes frame, row, column, channel."
            )
        if pixels.shape[1] < least:
            raise InputError(f"'video' has to have a chunk of {least} frames at least, got {pixels.shape[1]}.")


def as_frames(pixels: Tensor, output_type: str) -> Any:
    """Pixels in [-1, 1] (video, channel, frame, row, column) as frames: lists of PIL pictures, or one array."""
    processor = VaeImageProcessor(do_convert_rgb=True)
    videos = [processor.postprocess(video.transpose(0, 1), output_type=output_type) for video in pixels]
    if output_type == "pil":
        return videos
    return np.stack(videos) if output_type == "np" else torch.stack(videos)  # type: ignore[arg-type]


def joined(parts: list[Any]) -> Any:
    """Parts of videos one behind the other."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis=1)
    if isinstance(parts[0], Tensor):
        return torch.cat(parts, dim=1)
    return [[frame for part in videos for frame in part] for videos in zip(*parts, strict=True)]


class VideoPipeline(PicturePipeline):
    """A pipeline whose result is videos."""

    pairs_for_callbacks = False

    def preview(self, latents: Tensor) -> list[Image]:
        """The first frame of latents on their way."""
        vae = self._autoencoder
        first = latents[:, :, :1] / latents.float().std().clamp(min=1.0)
        frames = vae.decode(vae.denormalize_latents(first.to(vae.dtype)), return_dict=False)[0]
        return [video[0] for video in as_frames(frames.float(), "pil")]

    def encode_prompt(
        self,
        prompt: str | list[str] | None,
        negative_prompt: str | list[str] | None = None,
        do_classifier_free_guidance: bool = True,
        num_videos_per_prompt: int = 1,
        prompt_embeds: Tensor | None = None,
        negative_prompt_embeds: Tensor | None = None,
        max_sequence_length: int = 226,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Embeddings of the prompts and of the negative ones, as a call takes them."""
        negative = {"negative_prompt": negative_prompt, "negative_prompt_embeds": negative_prompt_embeds}
        names = ["prompt_embeds", "negative_prompt_embeds"]
        found = self(
            prompt=prompt, prompt_embeds=prompt_embeds, **(negative if do_classifier_free_guidance else {}),
            guidance_scale=5.0 if do_classifier_free_guidance else 1.0, max_sequence_length=max_sequence_length,
            num_videos_per_prompt=num_videos_per_prompt, output=names,
        )  # fmt: skip
        first, second = (None if found[name] is None else found[name].to(device, dtype) for name in names)
        return first, second  # type: ignore[return-value]
