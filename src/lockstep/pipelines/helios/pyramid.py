"""A chunk as a pyramid: made small, then enlarged, noised again and refined, stage by stage (arXiv:2410.05954)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ...blocks import (
    BlockView,
    ConfigSpec,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    OutputParam,
    needs,
)
from ...errors import InputError
from ...guiders import BaseGuidance, ClassifierFreeGuidance, ClassifierFreeZeroStarGuidance
from ..common.chunks import by_frame, made_input, renoised, sample_block_noise
from ..common.denoise import Denoise, SchedulerStep
from ..common.guidance import SetGuidance
from ..common.parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, GUIDER, SCHEDULER, Components
from .chunk import ChunkNoise, Chunks, PredictChunk, shift_for

Tensor = torch.Tensor
STEPS = InputParam("pyramid_num_inference_steps_list", list[int], [10, 10, 10], False, "Steps of each stage.")
ZERO_INIT = InputParam("use_zero_init", bool, True, False, "Begin with steps of no prediction (CFG-Zero*).")
ZERO_STEPS = InputParam("zero_steps", int, 1, False, "The last of those steps.", minimum=0)
AMPLIFY = InputParam("is_amplify_first_chunk", bool, False, False, "Twice the steps for the first chunk.")
STAGE = OutputParam("stage", int, "The stage of the pyramid, from 0.")
START = OutputParam("stage_start", torch.Tensor, "The latents that this stage began with.")
CONFIGS = [ConfigSpec("is_cfg_zero_star", default=False), ConfigSpec("is_distilled", default=False)]


class SetPyramidGuidance(SetGuidance):
    """Gives the guider of this run its scale; a distilled model is used without guidance unless it is asked for."""

    expected_configs = CONFIGS

    def __call__(self, components: Components, state: BlockView) -> None:
        super().__call__(components, state)
        if state.guidance_scale is None and components.is_distilled and hasattr(components.guider, "guidance_scale"):
            components.guider.guidance_scale = 1.0


class SmallNoise(ChunkNoise):
    """Noise for a chunk, halved in size for every stage but the last."""

    inputs = [*ChunkNoise.inputs, STEPS]

    def check(self, components: Components, inputs: BlockView) -> None:
        stages = len(inputs.pyramid_num_inference_steps_list)
        step = (
            components.autoencoder.spatial_scale_factor * components.denoiser.config.patch_size[1] * 2 ** (stages - 1)
        )
        for name in ("height", "width"):
            if inputs[name] % step:
                raise InputError(f"{name!r} has to be a multiple of {step} for {stages} stages, got {inputs[name]}.")

    def __call__(self, components: Components, state: BlockView) -> None:
        super().__call__(components, state)
        for _ in state.pyramid_num_inference_steps_list[1:]:
            size = [side // 2 for side in state.latents.shape[-2:]]
            state.latents = by_frame(state.latents, size=size, mode="bilinear") * 2


class BeginStage(ModularPipelineBlocks):
    """The grid of a stage, without a memory of the one before; what that has made is enlarged and noised again."""

    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*needs("latents"), "generator", STEPS, AMPLIFY]
    outputs = ["timesteps", "latents", STAGE, START]

    def check(self, components: Components, inputs: BlockView) -> None:
        steps, known = inputs.pyramid_num_inference_steps_list, components.scheduler.config.get("stages")
        if known is None or len(steps) != known:
            raise InputError(
                f"{type(components.scheduler).__name__} has {known or 'no'} stages; "
                f"'pyramid_num_inference_steps_list' wants a number for each, got {steps}."
            )
        if min(steps) < 1:
            raise InputError(f"'pyramid_num_inference_steps_list' wants steps from 1 on, got {steps}.")

    def __call__(self, components: Components, state: BlockView, k: int, i: int) -> None:
        scheduler: Any = components.scheduler
        latents = state.latents
        scheduler.set_timesteps(
            state.pyramid_num_inference_steps_list[i],
            device=components.device,
            stage_index=i,
            mu=shift_for(components, *latents.shape[2:]),
            is_amplify_first_chunk=state.is_amplify_first_chunk and k == 0,
        )
        scheduler.set_begin_index(0)
        state.timesteps, state.stage = scheduler.timesteps, i
        if i > 0:
            latents = self.enlarged(components, state, latents, i)
        state.latents = state.stage_start = latents

    def enlarged(self, components: Components, state: BlockView, latents: Tensor, stage: int) -> Tensor:
        scheduler: Any = components.scheduler
        noise_share, gamma = scheduler.ori_start_sigmas[stage], scheduler.config.gamma
        large = by_frame(latents, size=[2 * side for side in latents.shape[-2:]], mode="nearest")
        noise = sample_block_noise(
            tuple(large.shape), gamma, components.denoiser.config.patch_size[1:], state.generator
        ).to(latents.device, components.denoiser.dtype)
        return renoised(large, noise, noise_share, gamma)


class PredictStage(PredictChunk):
    """The same in a stage; the first steps of the first stage may be left without a prediction (CFG-Zero*)."""

    expected_components = [*PredictChunk.expected_components, GUIDER]
    expected_configs = CONFIGS
    inputs = [*PredictChunk.inputs, made_input(STAGE), ZERO_INIT, ZERO_STEPS]

    def guider(self, components: Components, state: BlockView) -> BaseGuidance:
        plain = components.guider
        if not components.is_cfg_zero_star or type(plain) is not ClassifierFreeGuidance:
            return plain
        zero = state.zero_steps + 1 if state.use_zero_init and state.stage == 0 and plain.needs_unconditional else 0
        return ClassifierFreeZeroStarGuidance(guidance_scale=plain.guidance_scale, zero_init_steps=zero)

    def time(self, t: Tensor, rows: int) -> Tensor:
        return t.expand(rows).to(torch.int64)


class StageStep(SchedulerStep):
    """One step down in noise; a distilled model goes back to the noise that the stage began with."""

    inputs = [*SchedulerStep.inputs, made_input(START)]

    def further(self, state: BlockView) -> dict[str, Any]:
        return {"dmd_noisy_tensor": state.stage_start}


class Stages(LoopSequentialPipelineBlocks):
    """Stage after stage, from small to large."""

    block_classes = {"begin": BeginStage, "denoise": Denoise.with_parts(predict=PredictStage, step=StageStep)}
    loop_over = STEPS.name
    loop_inputs = [STEPS]

    def loop_items(self, components: Any, state: Any) -> Iterable[Any]:
        return list(range(len(state.pyramid_num_inference_steps_list)))


ChunksOfStages = Chunks.with_parts(latents=SmallNoise, timesteps=None, denoise=Stages)
