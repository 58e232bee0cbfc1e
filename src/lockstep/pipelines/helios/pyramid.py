"""A chunk in stages of growing size: what Helios adds to pyramids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...blocks import BlockView, ConfigSpec, InputParam, LoopSequentialPipelineBlocks
from ...guiders import BaseGuidance, ClassifierFreeGuidance, ClassifierFreeZeroStarGuidance
from ..common.chunks import ChunkLoop, made_input
from ..common.denoise import Denoise
from ..common.parts import GUIDER, Components
from ..common.pyramid import STAGE, STEPS, BeginStage, HalveNoise, StageStep
from .chunk import BecomePast, ChunkNoise, PredictChunk
from .history import HEIGHT, WIDTH, SeeHistory

Tensor = torch.Tensor
ZERO_INIT = InputParam("use_zero_init", bool, True, False, "Begin with steps of no prediction (CFG-Zero*).")
ZERO_STEPS = InputParam("zero_steps", int, 1, False, "The last of those steps.", minimum=0)
CONFIGS = [ConfigSpec("is_cfg_zero_star", default=False), ConfigSpec("is_distilled", default=False)]


class PredictStage(PredictChunk):
    """The same in a stage; the first steps of the first stage may be left without a prediction (CFG-Zero*)."""

    expected_components = [*PredictChunk.expected_components, GUIDER]
    expected_configs = CONFIGS
    inputs = [*PredictChunk.inputs, made_input(STAGE), ZERO_INIT, ZERO_STEPS]

    def guider(self, components: Components, state: BlockView, t: Tensor) -> BaseGuidance:
        plain = components.guider
        if not components.is_cfg_zero_star or type(plain) is not ClassifierFreeGuidance:
            return plain
        zero = state.zero_steps + 1 if state.use_zero_init and state.stage == 0 and plain.needs_unconditional else 0
        return ClassifierFreeZeroStarGuidance(guidance_scale=plain.guidance_scale, zero_init_steps=zero)

    def time(self, t: Tensor, rows: int) -> Tensor:
        return t.expand(rows).to(torch.int64)


class HalveChunk(HalveNoise):
    """The same at the sizes of Helios."""

    inputs = [*(param for param in HalveNoise.inputs if param.name not in ("height", "width")), HEIGHT, WIDTH]


class Stages(LoopSequentialPipelineBlocks):
    """Stage after stage, from small to large."""

    block_classes = {"begin": BeginStage, "denoise": Denoise.with_parts(predict=PredictStage, step=StageStep)}
    loop_over = STEPS.name
    loop_inputs = [STEPS]

    def loop_items(self, components: Any, state: Any) -> Iterable[Any]:
        return list(range(len(state.pyramid_num_inference_steps_list)))


class ChunksOfStages(ChunkLoop):
    """Chunk after chunk, each in stages."""

    block_classes = {
        "see": SeeHistory,
        "latents": ChunkNoise,
        "shrink": HalveChunk,
        "denoise": Stages,
        "finish": BecomePast,
    }
