"""One chunk: noise, the steps over the past that it sees, and what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...blocks import BlockView, ModularPipelineBlocks, needs, randn_tensor
from ..common.chunks import ChunkLoop, FinishChunk, SetChunkTimesteps, made_input
from ..common.denoise import Denoise, Predict, without_lora_scale
from ..common.parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, SCHEDULER, Components
from ..common.pyramid import shift_for
from ..common.video import VideoComponents
from .history import (
    FIRST,
    HEIGHT,
    KEEP_FIRST,
    PAST,
    PER_CHUNK,
    SEEN,
    SIZES,
    SKIP_FIRST,
    WIDTH,
    SeeHistory,
    chunk_shape,
    sizes_of,
)

Tensor = torch.Tensor


class ChunkNoise(ModularPipelineBlocks):
    """Noise for a chunk, in fp32."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*needs("prompt_embeds"), HEIGHT, WIDTH, PER_CHUNK, "generator"]
    outputs = ["latents"]

    def __call__(self, components: Components, state: BlockView) -> None:
        shape = chunk_shape(components, state, len(state.prompt_embeds))
        state.latents = randn_tensor(shape, state.generator, components.device, torch.float32)


class ShiftedTimesteps(SetChunkTimesteps):
    """The grid of a chunk, shifted by its size."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*SetChunkTimesteps.inputs, HEIGHT, WIDTH, PER_CHUNK]

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        steps, sigmas = state.num_inference_steps, state.sigmas
        even = np.linspace(0.999, 0.0, steps + 1)[:-1].tolist()
        mu = shift_for(components, *chunk_shape(components, state, 1)[2:])
        return {"sigmas": even if sigmas is None else list(sigmas), "mu": mu}


class PredictChunk(Predict):
    """The denoiser's prediction for a chunk and its past, for each branch, and the guider's mix of them."""

    inputs = [*Predict.inputs, *map(made_input, SEEN), SIZES, KEEP_FIRST, "attention_kwargs"]

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        dtype = components.denoiser.dtype
        sample = self.sample(state, inputs, repeats).to(dtype)
        past = {
            f"latents_history_{part}": torch.cat([state[f"history_{part}"]] * repeats).to(dtype)
            for part in ("short", "mid", "long")
        }
        return components.denoiser(
            sample,
            self.time(t, len(sample)),
            inputs["encoder_hidden_states"].to(dtype),
            **past,
            **self.places(state, sample),
            attention_kwargs=without_lora_scale(components.denoiser, state.attention_kwargs),
            return_dict=False,
        )[0]

    def time(self, t: Tensor, rows: int) -> Tensor:
        return t.expand(rows)

    @staticmethod
    def places(state: BlockView, sample: Tensor) -> dict[str, Tensor]:
        """Where in time each frame is: first frame, far, nearer, near, now."""
        sizes = [int(state.keep_first_frame), *sizes_of(state), sample.shape[2]]
        first, far, mid, near, now = torch.arange(sum(sizes), device=sample.device)[None].split(sizes, dim=1)
        return {
            "indices_hidden_states": now,
            "indices_latents_history_short": torch.cat([first, near], dim=1),
            "indices_latents_history_mid": mid,
            "indices_latents_history_long": far,
        }


class BecomePast(FinishChunk):
    """The chunk becomes past, and its frames are handed over as they are decoded."""

    inputs = [*FinishChunk.inputs, made_input(PAST), made_input(FIRST, required=False), KEEP_FIRST, SKIP_FIRST]
    outputs = [PAST, FIRST, *FinishChunk.outputs]

    def finished(self, components: VideoComponents, state: BlockView, k: int) -> Tensor:
        latents, past = state.latents, state.history_latents
        if state.keep_first_frame and (state.first_latents is None or (state.is_skip_first_chunk and k == 1)):
            state.first_latents = latents[:, :, :1]
        else:
            state.first_latents = state.first_latents
        state.history_latents = torch.cat([past, latents.to(past)], dim=2)[:, :, -past.shape[2] :]
        return latents


DenoiseChunk = Denoise.with_parts(predict=PredictChunk)


class Chunks(ChunkLoop):
    """Chunk after chunk; each sees what came before."""

    block_classes = {
        "see": SeeHistory,
        "latents": ChunkNoise,
        "timesteps": ShiftedTimesteps,
        "denoise": DenoiseChunk,
        "finish": BecomePast,
    }
