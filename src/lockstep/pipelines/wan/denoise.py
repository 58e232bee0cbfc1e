"""Wan in the loop: what the denoiser is told, and which of two experts runs at a timestep."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import (
    AutoPipelineBlocks,
    BlockView,
    ComponentSpec,
    ConditionalPipelineBlocks,
    ConfigSpec,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    SequentialPipelineBlocks,
    needs,
)
from ...errors import InputError
from ...models.transformers.transformer_wan import WanTransformer3DModel
from ...notes import say_once
from ..common.denoise import Predict, ScaleModelInput, SchedulerStep, without_lora_scale
from ..common.parts import GUIDER, SCHEDULER, Components
from .conditions import EXPAND

Tensor = torch.Tensor
FIRST = ComponentSpec("transformer", WanTransformer3DModel)
SECOND = ComponentSpec("transformer_2", WanTransformer3DModel, optional=True)
SECOND_OUTLINE = ComponentSpec("transformer_2", WanTransformer3DModel, optional=True, outline=True)


class SetBoundary(ModularPipelineBlocks):
    """The timestep below which the second expert takes over; none where there is one denoiser alone."""

    expected_components = [SCHEDULER, GUIDER, SECOND_OUTLINE]
    expected_configs = [ConfigSpec("boundary_ratio", type_hint=float | None)]
    inputs = ["guidance_scale_2"]
    outputs = ["boundary_timestep"]

    def check(self, components: Components, inputs: BlockView) -> None:
        ratio = components.boundary_ratio
        if ratio is not None and (not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1):
            raise InputError(f"'boundary_ratio' wants a number from 0 to 1, or None for one denoiser, got {ratio!r}.")
        if inputs.guidance_scale_2 is None:
            return
        if components.boundary_ratio is None:
            raise InputError("'guidance_scale_2' is for two experts; this pipeline has no 'boundary_ratio'.")
        if not hasattr(components.guider, "guidance_scale"):
            raise InputError(f"{type(components.guider).__name__} has no 'guidance_scale' that could change.")

    def __call__(self, components: Components, state: BlockView) -> None:
        ratio = components.boundary_ratio
        if ratio is not None and components.transformer_2 is None:
            say_once(f"boundary_ratio is {ratio}, but there is no 'transformer_2': one denoiser makes every step.")
            ratio = None
        if ratio is None and components.transformer_2 is not None:
            say_once(
                "There is a 'transformer_2', but no 'boundary_ratio' that says when it takes over: it is not used."
            )
        trained = components.scheduler.config.num_train_timesteps
        state.boundary_timestep = None if ratio is None else ratio * trained


class PredictVideo(Predict):
    """The denoiser's prediction for each branch that the guider asks for, and the guider's mix of them."""

    expected_configs = [EXPAND]
    inputs = [*Predict.inputs, "attention_kwargs"]

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        dtype = components.denoiser.dtype
        sample = self.sample(state, inputs, repeats).to(dtype)
        return components.denoiser(
            sample,
            self.times(components, state, t, sample),
            inputs["encoder_hidden_states"].to(dtype),
            **self.image_tokens(state, repeats, dtype),
            attention_kwargs=without_lora_scale(components.denoiser, state.attention_kwargs),
            return_dict=False,
        )[0]

    def times(self, components: Components, state: BlockView, t: Tensor, sample: Tensor) -> Tensor:
        """The time of each sample; of each of its tokens where the model was taught so."""
        if not components.expand_timesteps:
            return t.expand(len(sample))
        _, rows, columns = components.denoiser.config.patch_size
        noisy = self.noisy(state, sample)[0, 0, :, ::rows, ::columns]
        return (noisy * t).flatten().expand(len(sample), -1)

    def noisy(self, state: BlockView, sample: Tensor) -> Tensor:
        """One where a latent has noise."""
        return torch.ones(sample.shape, device=sample.device)

    def image_tokens(self, state: BlockView, repeats: int, dtype: torch.dtype) -> dict[str, Any]:
        return {}


class PredictFromImage(PredictVideo):
    """The same where a first frame is given."""

    inputs = [*PredictVideo.inputs, *needs("condition"), "first_frame_mask", "image_embeds"]

    def sample(self, state: BlockView, inputs: dict[str, Tensor], repeats: int) -> Tensor:
        mask = state.first_frame_mask
        if mask is None:
            seen = torch.cat([state.model_input, state.condition], dim=1)
        else:
            seen = (1 - mask) * state.condition + mask * state.model_input
        return torch.cat([seen] * repeats)

    def noisy(self, state: BlockView, sample: Tensor) -> Tensor:
        return state.first_frame_mask

    def image_tokens(self, state: BlockView, repeats: int, dtype: torch.dtype) -> dict[str, Any]:
        if state.image_embeds is None:
            return {}
        return {"encoder_hidden_states_image": torch.cat([state.image_embeds.to(dtype)] * repeats)}


class AutoPredict(AutoPipelineBlocks):
    """With the first frame where there is an image."""

    block_classes = [PredictFromImage, PredictVideo]
    block_names = ["with_image", "plain"]
    block_trigger_inputs = ["image", None]


class SetSecondGuidance(ModularPipelineBlocks):
    """Gives the guider the scale of the second expert."""

    expected_components = [GUIDER]
    inputs = ["guidance_scale_2", "negative_prompt_embeds"]

    def __call__(self, components: Components, state: BlockView) -> None:
        if state.guidance_scale_2 is not None and state.negative_prompt_embeds is not None:
            components.guider.guidance_scale = max(state.guidance_scale_2, 1.0)


class LowNoise(SequentialPipelineBlocks):
    """The last steps, by the second expert."""

    roles = {"denoiser": SECOND}
    block_classes = {"guidance": SetSecondGuidance, "predict": AutoPredict}


class HighNoise(SequentialPipelineBlocks):
    """Every step, or the first ones where there are two experts."""

    roles = {"denoiser": FIRST}
    block_classes = {"predict": AutoPredict}


class ChooseExpert(ConditionalPipelineBlocks):
    """The second expert below the boundary."""

    block_classes = {"low": LowNoise, "high": HighNoise}
    block_trigger_inputs = ["t", "boundary_timestep"]
    default_block_name = "high"

    def select_block(self, **triggers: Any) -> str | None:
        boundary = triggers.get("boundary_timestep")
        return "low" if boundary is not None and triggers["t"] < boundary else None


class DenoiseVideo(LoopSequentialPipelineBlocks):
    """Scale, predict, guide, step: once per timestep."""

    block_classes = {"scale": ScaleModelInput, "predict": ChooseExpert, "step": SchedulerStep}
    loop_over = "timesteps"
