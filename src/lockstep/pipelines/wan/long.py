"""Long video with Wan, put together: chunks that share frames."""

from __future__ import annotations

from ...blocks import LoopSequentialPipelineBlocks
from ..common.chunks import ChunkLoop, SetChunkTimesteps
from ..common.denoise import ScaleModelInput, SchedulerStep
from ..common.held_chunks import BeginChunk, CutToLength, FinishHeldChunk, HoldOverlap, PlanChunks
from .blocks import WanBlocks
from .denoise import ChooseExpert, HighNoise, LowNoise, PredictVideo

FromText = ChooseExpert.with_parts(
    low=LowNoise.with_parts(predict=PredictVideo), high=HighNoise.with_parts(predict=PredictVideo)
)


class HeldDenoise(LoopSequentialPipelineBlocks):
    """Hold what is known, scale, predict, guide, step: once per timestep."""

    block_classes = {"hold": HoldOverlap, "scale": ScaleModelInput, "predict": FromText, "step": SchedulerStep}
    loop_over = "timesteps"


class WanChunks(ChunkLoop):
    """Chunk after chunk."""

    block_classes = {
        "timesteps": SetChunkTimesteps,
        "latents": BeginChunk,
        "denoise": HeldDenoise,
        "finish": FinishHeldChunk,
    }


class WanLongVideoBlocks(WanBlocks):
    """Text to video of any length; with keep_frames=False in memory that does not grow with it."""

    block_classes = {
        **{name: WanBlocks.block_classes[name] for name in ("guidance", "experts", "text_encoder")},
        "plan": PlanChunks,
        "chunks": WanChunks,
        "finish": CutToLength,
    }
    workflows = {"text2video": []}
