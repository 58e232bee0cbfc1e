"""Pictures from a model in training: DDIM with classifier-free guidance (arXiv:2207.12598) on latents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..schedulers import DDIMScheduler
from .noise import generator_of

Modules = Mapping[str, nn.Module] | nn.ModuleDict


def predict(modules: Modules, noisy: Tensor, timesteps: Tensor, tokens: Tensor) -> Tensor:
    """The UNet's output for tokenised captions."""
    return denoise(modules["unet"], noisy, timesteps, modules["text_encoder"](tokens, return_dict=False)[0])


def denoise(unet: nn.Module, noisy: Tensor, timesteps: Tensor, hidden: Tensor) -> Tensor:
    """The UNet's output for the hidden states of captions."""
    return unet(noisy, timesteps, encoder_hidden_states=hidden, return_dict=False)[0]


def initial_noise(count: int, shape: Sequence[int], seed: int) -> Tensor:
    """Noise per sample, so that picture k does not depend on how many are made with it."""
    return torch.stack([torch.randn(tuple(shape), generator=generator_of(seed, index)) for index in range(count)])


@torch.inference_mode()
def sample_latents(
    modules: Modules,
    scheduler_config: Mapping[str, Any],
    tokens: Tensor,
    empty: Tensor,
    *,
    shape: Sequence[int],
    steps: int,
    guidance: float,
    seed: int = 0,
    noise: Tensor | None = None,
) -> Tensor:
    """Latents for tokenised prompts, from the given noise or from the seed's."""
    scheduler = DDIMScheduler.from_config(scheduler_config)
    scheduler.set_timesteps(steps)
    latents = initial_noise(len(tokens), shape, seed) if noise is None else noise
    latents = latents.contiguous(memory_format=torch.channels_last)
    hidden = modules["text_encoder"](torch.cat([empty.expand(len(tokens), -1), tokens]), return_dict=False)[0]
    for timestep in scheduler.timesteps:
        output = modules["unet"](
            torch.cat([latents, latents]), timestep, encoder_hidden_states=hidden, return_dict=False
        )[0]
        without, with_text = output.chunk(2)
        guided = without + guidance * (with_text - without)
        latents = scheduler.step(guided, timestep, latents, return_dict=False)[0]
    return latents
