"""What is LTX-Video's own in the loop: how the model is called, and a first frame that stays as it is."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import BlockView, InputParam, LoopSequentialPipelineBlocks
from ..common.denoise import PredictWithMask, ScaleModelInput, SchedulerStep, without_lora_scale
from ..common.parts import AUTOENCODER_OUTLINE, Components
from .before_denoise import HELD, SIZE, latent_grid

Tensor = torch.Tensor
RATE = InputParam.template("frame_rate", default=25, type_hint=int | float)


class PredictTokens(PredictWithMask):
    """The flow of every token for each branch; a token's place is a time in seconds and a place in pixels."""

    expected_components = [*PredictWithMask.expected_components, AUTOENCODER_OUTLINE]
    inputs = [*PredictWithMask.inputs, "attention_kwargs", *SIZE, *[RATE, HELD]]

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        denoiser = components.denoiser
        tokens = self.sample(state, inputs, repeats).to(denoiser.dtype)
        return denoiser(
            tokens,
            inputs["encoder_hidden_states"].to(denoiser.dtype),
            self.times(state, t, len(tokens)),
            inputs["counted"],
            **self.places(components, state, len(tokens)),
            attention_kwargs=without_lora_scale(denoiser, state.attention_kwargs),
            return_dict=False,
        )[0].float()

    def places(self, components: Components, state: BlockView, samples: int) -> dict[str, Any]:
        """What the denoiser is told of the places of its tokens: the size of the video, and what a step in it is."""
        vae, pixels = components.autoencoder, components.autoencoder.spatial_scale_factor
        size = dict(zip(("num_frames", "height", "width"), latent_grid(components, state), strict=True))
        return {
            **size,
            "rope_interpolation_scale": (vae.temporal_scale_factor / state.frame_rate, pixels, pixels),
        }

    def times(self, state: BlockView, t: Tensor, samples: int) -> Tensor:
        """The time of each sample; of each of its tokens where a first frame, which has no noise, is given."""
        if state.first_frame_mask is None:
            return t.expand(samples)
        return (t * state.first_frame_mask).expand(samples, -1)


class StepTokens(SchedulerStep):
    """One step down in noise; the tokens of a first frame stay."""

    expected_components = [*SchedulerStep.expected_components, AUTOENCODER_OUTLINE]
    inputs = [*SchedulerStep.inputs, *SIZE, HELD]

    def moving(self, components: Components, state: BlockView) -> tuple[Tensor, Tensor]:
        held = self.held(components, state)
        return state.noise_pred[:, held:], state.latents[:, held:]

    def stepped(self, components: Components, state: BlockView, t: Tensor) -> Any:
        moved, *rest = super().stepped(components, state, t)
        return torch.cat([state.latents[:, : self.held(components, state)], moved], dim=1), *rest

    @staticmethod
    def held(components: Components, state: BlockView) -> int:
        """How many tokens stay."""
        if state.first_frame_mask is None:
            return 0
        _, rows, columns = latent_grid(components, state)
        return rows * columns


class Denoise(LoopSequentialPipelineBlocks):
    """Scale, predict, guide, step: once per timestep."""

    block_classes = {"scale": ScaleModelInput, "predict": PredictTokens, "step": StepTokens}
    loop_over = "timesteps"
