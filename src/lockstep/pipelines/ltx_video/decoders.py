"""Tokens to videos: laid out as latents again and, for decoders that are told a time, with a little noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...blocks import BlockView, InputParam, randn_tensor
from ...errors import InputError
from ..common.parts import DENOISER_OUTLINE, Components
from ..common.video import DecodeVideo, VideoComponents
from .before_denoise import SIZE, latent_grid

Tensor = torch.Tensor
TIMES = [
    InputParam(
        "decode_timestep",
        float | list[float],
        default=0.0,
        description="Time that the decoder is told, from 0 to 1; a list has one for each prompt.",
    ),
    InputParam(
        "decode_noise_scale",
        float | list[float],
        description="Share of noise in what is decoded; as much as its time where it is left out.",
    ),
]


class DecodeTokens(DecodeVideo):
    """Through the autoencoder, whole: its decoder sees later frames, too."""

    expected_components = [*DecodeVideo.expected_components, DENOISER_OUTLINE]
    inputs = [*DecodeVideo.inputs, *SIZE, *TIMES, "generator"]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        for name in (str(param.name) for param in TIMES):
            given = inputs[name]
            if isinstance(given, list) and (not given or components.samples % len(given)):
                raise InputError(f"{name!r} has {len(given)} numbers for {components.samples} samples.")

    def decoded(self, components: VideoComponents, state: BlockView) -> Iterator[Tensor]:
        vae: Any = components.autoencoder
        latents = vae.denormalize_latents(self.laid_out(components, state)).to(vae.dtype)
        times = None
        if vae.config.timestep_conditioning:
            times = per_sample(state.decode_timestep, latents)
            wanted = state.decode_noise_scale
            share = (times if wanted is None else per_sample(wanted, latents)).view(-1, 1, 1, 1, 1)
            noise = randn_tensor(latents.shape, state.generator, components.device, latents.dtype)
            latents = (1 - share) * latents + share * noise
        yield vae.decode(latents, times, return_dict=False, generator=state.generator)[0]

    def laid_out(self, components: Components, state: BlockView) -> Tensor:
        """The latents as the autoencoder has them."""
        return unpacked(state.latents, latent_grid(components, state))


def unpacked(tokens: Tensor, grid: tuple[int, int, int]) -> Tensor:
    """Tokens as the autoencoder has them: channel, frame, row, column."""
    return tokens.transpose(1, 2).unflatten(2, grid)


def per_sample(given: float | list[float], like: Tensor) -> Tensor:
    """One number for all samples, or those of a list, each for as many as it has."""
    values = torch.tensor(given if isinstance(given, list) else [given]).to(like)
    return values.repeat_interleave(len(like) // len(values))
