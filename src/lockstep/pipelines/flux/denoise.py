"""What is FLUX's own in the loop: what the model is told, and what it reads beside or behind the latents."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import BlockView, InputParam, needs
from ...notes import say_once
from ..common.denoise import PredictWithPooled, without_lora_scale
from ..common.painting import AppendMask
from ..common.parts import Components
from ..common.start import reads_more

Tensor = torch.Tensor


class PredictFlux(PredictWithPooled):
    """The prediction for each branch that the guider asks for, told the guidance scale that the model was taught."""

    inputs = [
        *PredictWithPooled.inputs,
        *needs("latents", "img_ids"),
        InputParam.template("guidance_scale", "what the model was taught", default=3.5),
    ]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        asked = "guidance_scale" in components.given_inputs and inputs.guidance_scale
        if asked and not components.denoiser.config.guidance_embeds:
            say_once(f"guidance_scale={asked} does nothing: this denoiser was not taught one (guidance_embeds is off).")

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        sample = torch.cat([state.model_input] * repeats)
        told = {**inputs, **self.told(components.denoiser, state, t, sample, inputs)}
        residuals = self.residuals(components, state, t, sample)
        predicted = components.denoiser(sample, **told, **residuals, return_dict=False)[0]
        return predicted[:, : state.latents.shape[1]]  # a reference picture's tokens come after the picture's

    @staticmethod
    def told(model: Any, state: BlockView, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]) -> dict[str, Any]:
        """Time, places and, for a model that was taught it, the guidance scale."""
        text = inputs["encoder_hidden_states"]
        scale = torch.full([len(sample)], state.guidance_scale, device=sample.device, dtype=torch.float32)
        return {
            "timestep": t.expand(len(sample)).to(sample.dtype) / 1000,
            "guidance": scale if model.config.guidance_embeds else None,
            "txt_ids": text.new_zeros(text.shape[1], 3),
            "img_ids": state.img_ids,
            "joint_attention_kwargs": without_lora_scale(model, state.joint_attention_kwargs),
        }

    def residuals(self, components: Components, state: BlockView, t: Tensor, sample: Tensor) -> dict[str, Any]:
        """What a ControlNet adds to the blocks."""
        return {}


class AppendFill(AppendMask):
    """Masked picture and mask beside the latents, for a Fill model."""

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        parts = [state.masked_image_latents, state.mask] if reads_more(components.denoiser) else []
        state.model_input = torch.cat([state.model_input, *parts], dim=2)
