"""Long video in chunks: what every family that works so shares, and the noise of pyramids of sizes."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.nn.functional import interpolate

from ...blocks import (
    BlockView,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    needs,
    randn_tensor,
)
from ...blocks.memory import require
from ...errors import InputError
from .parts import AUTOENCODER, AUTOENCODER_OUTLINE, Components
from .sizes import BYTES, latent_frames, told_size
from .timesteps import SetTimesteps, check_flow
from .video import KEEP, VideoComponents, as_frames, joined

Tensor = torch.Tensor
HAND_OVER = "Ask for fewer frames, or take them as they are ready: keep_frames=False, and pipe.stream(…)."
NUM_CHUNKS = OutputParam("num_chunks", int, "How many chunks there are.")
FRAMES_SO_FAR = InputParam("frames", required=False, given=False, description="The frames of the chunks so far.")


def made_input(output: OutputParam, required: bool = True) -> InputParam:
    """A value that a block makes, to a block that reads it."""
    return InputParam(output.name, output.type_hint, required=required, given=False, description=output.description)


class ChunkLoop(LoopSequentialPipelineBlocks):
    """Chunk after chunk; a family says what a chunk is."""

    loop_over = NUM_CHUNKS.name
    loop_inputs = [made_input(NUM_CHUNKS)]


class SetChunkTimesteps(SetTimesteps):
    """The grid, from its beginning for every chunk: what the one before has left there does not count."""

    inputs = [param for param in SetTimesteps.inputs if param.name != "timesteps"]

    def check(self, components: Components, inputs: BlockView) -> None:
        check_flow(components.scheduler, inputs.sigmas)
        self.set_grid(components.scheduler.fresh(), components, inputs)

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        given = state.sigmas
        return {"num_inference_steps": state.num_inference_steps} if given is None else {"sigmas": list(given)}


class FinishChunk(ModularPipelineBlocks):
    """The frames of a chunk are handed over as they are decoded, and join those so far."""

    expected_components = [replace(AUTOENCODER, optional=True)]
    inputs = [*needs("latents"), FRAMES_SO_FAR, "output_type", KEEP]
    outputs = ["frames"]

    def unneeded(self, inputs: BlockView) -> Collection[str]:
        return ["autoencoder"] if inputs.output_type == "latent" else []

    def check(self, components: Components, inputs: BlockView) -> None:
        if inputs.output_type != "latent" and components.autoencoder is None:
            raise InputError(f"output_type={inputs.output_type!r} needs the autoencoder; ask for 'latent' without it.")

    def __call__(self, components: VideoComponents, state: BlockView, k: int) -> Iterator[Any]:
        latents = self.finished(components, state, k)
        so_far: list[Any] = [] if state.frames is None else [state.frames]
        if state.output_type == "latent":
            state.frames = torch.cat([*so_far, latents], dim=2) if state.keep_frames else None
            yield latents
            return
        try:
            for pixels in self.decoded(components, state, latents):
                part = as_frames(pixels, state.output_type)
                so_far += [part] if state.keep_frames else []
                yield part
        finally:
            state.frames = joined(so_far) if so_far else None

    def finished(self, components: VideoComponents, state: BlockView, k: int) -> Tensor:
        """The latents that are new in this chunk; a family keeps here what the next one has to know."""
        return state.latents

    def decoded(self, components: VideoComponents, state: BlockView, latents: Tensor) -> Iterator[Tensor]:
        """Their frames, each chunk by itself."""
        vae = components.autoencoder
        return vae.decode_stream(vae.denormalize_latents(latents.to(vae.dtype)))


class FinishVideo(ModularPipelineBlocks):
    """As many frames as whole latents have."""

    expected_components = [AUTOENCODER_OUTLINE]
    inputs = [FRAMES_SO_FAR, "output_type", KEEP, *["num_frames", "height", "width"]]
    outputs = ["frames"]

    def check(self, components: Components, inputs: BlockView) -> None:
        """Refuse a video whose frames, kept for the result, cannot fit; a run that keeps none may be endless."""
        if inputs.keep_frames and components.autoencoder is not None:
            frames, height, width = inputs.num_frames, inputs.height, inputs.width
            numbers, place = frames * height * width * 3 * BYTES, torch.device("cpu")
            if inputs.output_type == "pil":
                numbers //= BYTES
            if inputs.output_type == "latent":
                vae, place = components.autoencoder, components.device
                area = (height // vae.spatial_scale_factor) * (width // vae.spatial_scale_factor)
                numbers = latent_frames(components, frames) * area * vae.latent_channels * BYTES
            require(components.samples * numbers, place, told_size(components, height, width, frames), HAND_OVER)

    def __call__(self, components: Components, state: BlockView) -> None:
        frames = state.frames
        if frames is not None and state.output_type != "latent":
            kept = self.kept(components, state, len(frames[0]))
            frames = [video[:kept] for video in frames] if isinstance(frames, list) else frames[:, :kept]
        state.frames = frames

    def kept(self, components: Components, state: BlockView, count: int) -> int:
        """How many of so many frames stay."""
        time = components.autoencoder.temporal_scale_factor
        return (count - 1) // time * time + 1


def encoded(components: VideoComponents, pixels: Tensor, generator: Any) -> Tensor:
    """A draw of the latents of videos, in fp32."""
    vae = components.autoencoder
    drawn = vae.encode(pixels.to(components.device, vae.dtype)).latent_dist.sample(generator)
    return vae.normalize_latents(drawn).float()


def slightly_noised(latents: Tensor, low: float, high: float, generator: Any) -> Tensor:
    """Latents with a little noise; how much is drawn for each frame, for all samples or by each one's generator."""
    sources = generator if isinstance(generator, list) else [generator]
    places = [latents.device if one is None else one.device for one in sources]
    drawn = [torch.rand(latents.shape[2], generator=one, device=at) for one, at in zip(sources, places, strict=True)]
    sigma = (torch.stack(drawn).to(latents) * (high - low) + low)[:, None, :, None, None]
    noise = randn_tensor(latents.shape, generator, latents.device, latents.dtype)
    return sigma * noise + (1 - sigma) * latents


def sample_block_noise(shape: tuple[int, ...], gamma: float, block: tuple[int, ...], generator: Any) -> Tensor:
    """Noise that takes away the blocks of an enlargement: within each its numbers push each other away.

    The covariance is (1 + gamma) I - gamma 11'. At the published gamma a block sums to nearly nothing and fp32 finds
    no factor of it, so it is factored in fp64. A list of generators draws each sample from its own.
    """
    rows, columns = block
    count = rows * columns
    eye = torch.eye(count, dtype=torch.float64)
    factor = torch.linalg.cholesky((1 + gamma + 1e-8) * eye - gamma).float()
    sources = generator if isinstance(generator, list) else [generator]
    blocks = math.prod(shape) // count // len(sources)
    drawn = [torch.randn(blocks, count, generator=one, device=None if one is None else one.device) for one in sources]
    noise = torch.cat([part.cpu() for part in drawn]) @ factor.T
    grid = noise.view(*shape[:3], shape[3] // rows, shape[4] // columns, rows, columns)
    return grid.transpose(4, 5).reshape(shape)


def by_frame(latents: Tensor, **how: Any) -> Tensor:
    """Another size for every frame."""
    frames = interpolate(latents.transpose(1, 2).flatten(0, 1), **how)
    return frames.unflatten(0, (len(latents), -1)).transpose(1, 2)


def renoised(latents: Tensor, noise: Tensor, share: float, gamma: float) -> Tensor:
    """Enlarged latents with block noise, in the proportion that they had on the way (arXiv:2410.05954, equation 15)."""
    alpha = 1 / (math.sqrt(1 + 1 / gamma) * share + (1 - share))
    return alpha * latents + alpha * share / math.sqrt(gamma) * noise
