"""Pyramids of sizes: small first, then enlarged, noised again and refined, stage by stage (arXiv:2410.05954)."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...blocks import BlockView, InputParam, ModularPipelineBlocks, OutputParam, needs
from ...errors import InputError
from ...schedulers.flow import mu_for_tokens
from .chunks import by_frame, made_input, renoised, sample_block_noise
from .denoise import SchedulerStep
from .parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, SCHEDULER, Components

Tensor = torch.Tensor
STEPS = InputParam("pyramid_num_inference_steps_list", list[int], [10, 10, 10], False, "Steps of each stage.")
AMPLIFY = InputParam("is_amplify_first_chunk", bool, False, False, "Twice the steps for the first chunk.")
STAGE = OutputParam("stage", int, "The stage of the pyramid, from 0.")
START = OutputParam("stage_start", torch.Tensor, "The latents that this stage began with.")


def shift_for(components: Components, *sizes: int) -> float:
    """The strength of the scheduler's shift for latents of so many frames, rows and columns."""
    tokens = math.prod(sizes) // math.prod(components.denoiser.config.patch_size)
    return mu_for_tokens(components.scheduler.config, tokens)


class HalveNoise(ModularPipelineBlocks):
    """The noise of a chunk, half as large for every stage but the last."""

    expected_components = [DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*needs("latents"), "height", "width", STEPS]
    outputs = ["latents"]

    def check(self, components: Components, inputs: BlockView) -> None:
        stages, patch = len(inputs.pyramid_num_inference_steps_list), components.denoiser.config.patch_size[1]
        step = components.autoencoder.spatial_scale_factor * patch * 2 ** (stages - 1)
        for name in ("height", "width"):
            if inputs[name] is not None and inputs[name] % step:
                raise InputError(f"{name!r} has to be a multiple of {step} for {stages} stages, got {inputs[name]}.")

    def __call__(self, components: Components, state: BlockView) -> None:
        latents = state.latents
        for _ in state.pyramid_num_inference_steps_list[1:]:
            latents = by_frame(latents, size=[side // 2 for side in latents.shape[-2:]], mode="bilinear") * 2
        state.latents = latents


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
            raise InputError(f"'pyramid_num_inference_steps_list' wants at least 1 step a stage, got {steps}.")

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


class StageStep(SchedulerStep):
    """One step down in noise; a distilled model goes back to the noise that the stage began with."""

    inputs = [*SchedulerStep.inputs, made_input(START)]

    def further(self, state: BlockView, t: Tensor) -> dict[str, Any]:
        return {"dmd_noisy_tensor": state.stage_start}
