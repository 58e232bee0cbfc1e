"""Long video by models that know no past: chunks, each held to the end of the one before by frames that they share."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ...blocks import BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...errors import InputError
from ...notes import say_once
from .chunks import NUM_CHUNKS, FinishChunk, FinishVideo, made_input
from .parts import AUTOENCODER_OUTLINE, SCHEDULER, Components
from .sizes import latent_frames, whole_frames
from .video import FRAMES, PrepareVideoLatents, VideoComponents

Tensor = torch.Tensor
CHUNK = InputParam("frames_per_chunk", int, default=81, minimum=5, description="Frames that are made at once.")
OVERLAP = InputParam("overlap_frames", int, default=17, minimum=1,
                     description="Frames of a chunk that are the end of the one before it.")  # fmt: skip
SHARED = OutputParam("shared_latents", torch.Tensor, "The end of the chunk before, clean; none before the first.")
NOISE = OutputParam("chunk_noise", torch.Tensor, "The noise that this chunk began with.")
COUNT = OutputParam("shared_count", int, "How many latent frames chunks share.")
MEMORY = OutputParam("decoder_memory", dict, "What the decoder remembers of the frames before.")


class PlanChunks(ModularPipelineBlocks):
    """How many chunks make up the video."""

    expected_components = [AUTOENCODER_OUTLINE]
    inputs = [FRAMES, CHUNK, OVERLAP]
    outputs = [NUM_CHUNKS, SHARED, COUNT, MEMORY]

    def check(self, components: Components, inputs: BlockView) -> None:
        _, length, shared = self.latent_counts(components, inputs)
        if shared >= length:
            raise InputError(
                f"'overlap_frames' ({inputs.overlap_frames}) has to be less than 'frames_per_chunk' "
                f"({inputs.frames_per_chunk}): a chunk would bring nothing new."
            )

    def latent_counts(self, components: Components, state: BlockView) -> list[int]:
        """Latents of the video, of a chunk and of what chunks share; what is rounded is told."""
        given = {name: state[name] for name in ("num_frames", "frames_per_chunk", "overlap_frames")}
        made = {name: whole_frames(components, count) for name, count in given.items()}
        for name, count in made.items():
            if count != given[name]:
                say_once(
                    f"{name}={given[name]} is taken as {count}: this model takes 1 frame and "
                    f"{components.autoencoder.temporal_scale_factor} at a time."
                )
        return [latent_frames(components, count) for count in made.values()]

    def __call__(self, components: Components, state: BlockView) -> None:
        wanted, length, shared = self.latent_counts(components, state)
        state.num_chunks = max(1, -(-(wanted - shared) // (length - shared)))
        state.shared_latents, state.shared_count, state.decoder_memory = None, shared, {}


class BeginChunk(PrepareVideoLatents):
    """Noise for a chunk; the scheduler begins anew with it."""

    inputs = [*(param for param in PrepareVideoLatents.inputs if param.name != "num_frames"), CHUNK]
    outputs = ["latents", NOISE]

    def frames(self, state: BlockView) -> int:
        return state.frames_per_chunk

    def __call__(self, components: Components, state: BlockView) -> None:
        super().__call__(components, state)
        state.chunk_noise = state.latents


class HoldOverlap(ModularPipelineBlocks):
    """The frames that are known from the chunk before, with the noise of this timestep."""

    expected_components = [SCHEDULER]
    inputs = [*needs("latents"), made_input(SHARED, required=False), made_input(NOISE)]
    outputs = ["latents"]

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        known, latents = state.shared_latents, state.latents
        if known is not None:
            count = known.shape[2]
            noisy = components.scheduler.add_noise(known, state.chunk_noise[:, :, :count], t.expand(len(known)))
            latents = torch.cat([noisy, latents[:, :, count:]], dim=2)
        state.latents = latents


class FinishHeldChunk(FinishChunk):
    """What is new is decoded on from the frames before; the end of it is kept for the next chunk."""

    inputs = [*FinishChunk.inputs, made_input(SHARED, required=False), made_input(MEMORY), made_input(COUNT)]
    outputs = [*FinishChunk.outputs, SHARED, MEMORY]

    def finished(self, components: VideoComponents, state: BlockView, k: int) -> Tensor:
        known, latents = state.shared_latents, state.latents
        if known is not None:
            latents = torch.cat([known, latents[:, :, known.shape[2] :]], dim=2)
        state.decoder_memory = dict(state.decoder_memory)
        state.shared_latents = latents[:, :, -state.shared_count :]
        return latents if known is None else latents[:, :, known.shape[2] :]

    def decoded(self, components: VideoComponents, state: BlockView, latents: Tensor) -> Iterator[Tensor]:
        vae = components.autoencoder
        return vae.decode_stream(vae.denormalize_latents(latents.to(vae.dtype)), state.decoder_memory)


class CutToLength(FinishVideo):
    """As many frames as were asked for; the last chunk can bring more."""

    def kept(self, components: Components, state: BlockView, count: int) -> int:
        return min(super().kept(components, state, count), whole_frames(components, state.num_frames))
