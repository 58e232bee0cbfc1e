"""Pictures and videos that the new video is held to, each from a frame on and with a strength of its own.

What begins with the first frame takes the place of the first latents. What begins later comes before all latents, as
tokens that are told their place and left out at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ...blocks import BlockView, InputParam, OutputParam, randn_tensor
from ...blocks.vocabulary import Picture
from ...errors import InputError
from ...notes import say_once
from ..common.held import FROM_NOISE, HELD, STRENGTHS, times_of_tokens
from ..common.parts import AUTOENCODER, DENOISER_OUTLINE, SCHEDULER, Components
from ..common.sizes import frames_of, latent_frames, packed, repeated
from ..common.video import VideoComponents, listed_videos, video_processor
from .before_denoise import PrepareTokens, latent_grid
from .decoders import DecodeTokens, unpacked
from .denoise import RATE, PredictTokens

Tensor = torch.Tensor
APART = 2  # latent frames of a later video that are tokens of their own: its first is made of one frame, not of many


@dataclass(frozen=True)
class LTXVideoCondition:
    """A picture or a video, the frame that it begins with, and how much the new one is held to it (1: wholly)."""

    image: Picture | None = None
    video: list[Picture] | np.ndarray | Tensor | None = None
    frame_index: int = 0
    strength: float = 1.0

    def given(self) -> Picture | list[Picture]:
        """The one that it has."""
        if self.image is not None and self.video is None:
            return self.image
        if self.video is not None and self.image is None:
            return self.video
        raise InputError("A condition has an 'image' or a 'video', and not both.")


GIVEN = [
    InputParam(
        "conditions", LTXVideoCondition | list[LTXVideoCondition], description="What the video is held to, and where."
    ),
    InputParam.template("image", required=False, description="A picture that the video is held to."),
    InputParam.template("video", description="A video that the new one is held to."),
    InputParam("frame_index", int | list[int], default=0, minimum=0, description="The frame that it begins with."),
    InputParam(
        "strength", float | list[float], default=1.0, minimum=0.0, maximum=1.0,
        description="How much the video is held to it.",
    ),
]  # fmt: skip
OF_ONE = [  # condition, by the rules of what is given for all of them
    replace(param, type_hint=kind, required=True) for param, kind in zip(GIVEN[-2:], (int, float), strict=True)
]
PLACES = InputParam("video_coords", Tensor, required=True, given=False, description="Second, row, column of a token.")


def listed(state: BlockView) -> list[LTXVideoCondition]:
    """What is given, one by one."""
    for name in ("conditions", "image", "video"):
        if isinstance(state[name], list) and not state[name]:
            raise InputError(f"{name!r} is an empty list; leave it out where the video is held to nothing.")
    if state.conditions is not None:
        if state.image is not None or state.video is not None:
            raise InputError("Give 'conditions', or 'image' or 'video' with 'frame_index' and 'strength', not both.")
        return state.conditions if isinstance(state.conditions, list) else [state.conditions]
    pictures = [] if state.image is None else state.image if isinstance(state.image, list) else [state.image]
    videos = [] if state.video is None else listed_videos(state.video)
    held = [{"image": one} for one in pictures] + [{"video": one} for one in videos]
    by_name = {name: spread(name, state[name], len(held)) for name in ("frame_index", "strength")}
    return [
        LTXVideoCondition(**one, frame_index=index, strength=strength)
        for one, index, strength in zip(held, *by_name.values(), strict=True)
    ]


def spread(name: str, given: Any, count: int) -> list[Any]:
    """One value for all, or one for each."""
    if isinstance(given, list) and len(given) != count:
        raise InputError(f"{name!r} has {len(given)} values for {count} pictures and videos.")
    return given if isinstance(given, list) else [given] * count


class PrepareConditions(PrepareTokens):
    """Noise, or given latents with noise, held to pictures and videos; a strength and a place for each token."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER]
    inputs = [*GIVEN, *PrepareTokens.inputs, RATE, FROM_NOISE]
    outputs = [
        "latents",
        OutputParam(str(HELD.name), Tensor, HELD.description),
        OutputParam(str(STRENGTHS.name), Tensor, STRENGTHS.description),
        OutputParam(str(PLACES.name), Tensor, PLACES.description),
    ]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return [] if listed(inputs) else ["autoencoder"]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        if inputs.latents is not None and inputs.denoise_strength == 1:
            raise InputError("With 'denoise_strength' at 1 nothing of given 'latents' stays. Lower it, or give none.")
        given = listed(inputs)
        for one in given:
            one.given()  # what it refuses, it refuses now
            for param in OF_ONE:
                param.check(getattr(one, str(param.name)), type(one).__name__)
            if one.frame_index >= inputs.num_frames:
                raise InputError(
                    f"A condition begins with one of the {inputs.num_frames} frames, from 0 on; got "
                    f"frame_index={one.frame_index}."
                )
            pixels_of(one, components, inputs)
        tell_of_same_frames([one.frame_index for one in given])

    def check_given(self, components: Components, latents: Tensor, shape: tuple[int, ...]) -> None:
        if latents.shape != shape:
            raise InputError(f"'latents' have to have the shape {list(shape)}, got {list(latents.shape)}.")

    def __call__(self, components: VideoComponents, state: BlockView) -> None:  # type: ignore[override]
        samples = len(state.prompt_embeds)
        shape = self.shape(components, state, samples)
        latents = self.drawn(components, state, shape)
        if state.latents is not None:
            share = state.timesteps[0] / components.scheduler.config.num_train_timesteps
            latents = share * latents + (1 - share) * state.latents.to(latents)
        strengths = torch.zeros(samples, shape[2], device=components.device)
        before = list(self.held(components, state, latents, strengths))
        rows = shape[3] * shape[4]
        tokens = [one for one, _, _ in before] + [packed(components.denoiser, latents)]
        places = [one for _, one, _ in before] + [token_places(components, state, shape[2], 0, samples)]
        held = [one for _, _, one in before] + [strengths.repeat_interleave(rows, dim=1)]
        state.latents, state.video_coords = torch.cat(tokens, dim=1), torch.cat(places, dim=2)
        is_held = bool(listed(state))
        state.condition_strengths = torch.cat(held, dim=1) if is_held else None
        state.held_latents = state.latents if is_held else None

    def held(
        self, components: VideoComponents, state: BlockView, latents: Tensor, strengths: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Put what is given into the latents; what begins later is returned: tokens, their places and strengths."""
        samples, generator = len(latents), state.generator
        for one in listed(state):
            given = encoded(pixels_of(one, components, state), components, state, samples)
            begin = 0
            if one.frame_index:
                begin = one.frame_index // components.autoencoder.temporal_scale_factor + APART
                apart, given = given.split((min(APART, given.shape[2]), max(given.shape[2] - APART, 0)), dim=2)
                noise = randn_tensor(apart.shape, generator, components.device, apart.dtype)
                tokens = packed(components.denoiser, torch.lerp(noise, apart, one.strength)).expand(samples, -1, -1)
                places = token_places(components, state, apart.shape[2], one.frame_index, samples)
                yield tokens, places, torch.full(tokens.shape[:2], one.strength, device=tokens.device)
            part = slice(begin, begin + given.shape[2])
            if given.shape[2]:
                latents[:, :, part] = torch.lerp(latents[:, :, part], given, one.strength)
                strengths[:, part] = one.strength


def pixels_of(one: LTXVideoCondition, components: Components, state: BlockView) -> Tensor:
    """A picture, or as many frames of a video as fit in whole latents (1, channel, frame, row, column)."""
    pixels = video_processor(components).preprocess(one.given(), height=state.height, width=state.width)
    if one.video is None:
        return pixels[:, :, None]
    pixels = pixels.transpose(0, 1)[None]
    count = min(pixels.shape[2], state.num_frames - one.frame_index)
    used = frames_of(components, latent_frames(components, count))
    if used != pixels.shape[2]:
        say_once(
            f"Of a condition of {pixels.shape[2]} frames that begins with frame {one.frame_index}, {used} are used: "
            "those that the new video has from there on, in whole latents."
        )
    return pixels[:, :, :used]


def tell_of_same_frames(begins: list[int]) -> None:
    """Conditions that begin with the same frame are told about: no video can follow all of them."""
    for frame in sorted({frame for frame in begins if begins.count(frame) > 1}):
        say_once(
            f"{begins.count(frame)} conditions begin with frame {frame}: at the beginning each covers those before it, "
            "later the video is held to all of them."
        )


def encoded(pixels: Tensor, components: VideoComponents, state: BlockView, samples: int) -> Tensor:
    """A draw from the posterior; one of every sample where each has a generator."""
    vae = components.autoencoder
    if isinstance(state.generator, list):
        pixels = repeated(pixels, samples, "condition")
    latents = vae.encode(pixels.to(components.device, vae.dtype)).latent_dist.sample(state.generator)
    return vae.normalize_latents(latents).float()


def token_places(components: Components, state: BlockView, frames: int, begin: int, samples: int) -> Tensor:
    """Second, row and column of so many latent frames (samples, 3, tokens); the first one is a single frame."""
    vae: Any = components.autoencoder
    _, rows, columns = latent_grid(components, state)
    sizes = [torch.arange(size, device=components.device) for size in (frames, rows, columns)]
    time, side = vae.temporal_scale_factor, vae.spatial_scale_factor
    at = torch.stack(torch.meshgrid(*sizes, indexing="ij")).flatten(1)
    seconds = ((at[0] * time + 1 - time).clamp(min=0) + begin).float() * (1.0 / state.frame_rate)
    return torch.stack([seconds, at[1].float() * side, at[2].float() * side]).expand(samples, -1, -1)


class PredictHeld(PredictTokens):
    """The flow of every token; of those that are held, the denoiser is told how little noise they have."""

    inputs = [*(param for param in PredictTokens.inputs if param.name != "first_frame_mask"), STRENGTHS, PLACES]

    def places(self, components: Components, state: BlockView, samples: int) -> dict[str, Any]:
        return {"video_coords": state.video_coords.repeat(samples // len(state.video_coords), 1, 1)}

    def times(self, state: BlockView, t: Tensor, samples: int) -> Tensor:
        return times_of_tokens(state, t, samples)


class DecodeHeld(DecodeTokens):
    """The same of the latents of the video, without the tokens before them."""

    def laid_out(self, components: Components, state: BlockView) -> Tensor:
        grid = frames, rows, columns = latent_grid(components, state)
        return unpacked(state.latents[:, -frames * rows * columns :], grid)

    undecoded = laid_out
