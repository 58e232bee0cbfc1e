"""What is Stable Diffusion 3's own in the loop: what the model is told, and a prediction without some of its layers."""

from __future__ import annotations

from typing import Any

import torch

from ...blocks import BlockView, InputParam
from ...errors import InputError
from ...guiders import GuiderOutput
from ..common.denoise import PredictWithPooled, with_prompt, without_lora_scale
from ..common.parts import Components

Tensor = torch.Tensor
SKIPPED = [
    InputParam(
        "skip_guidance_layers",
        list[int],
        description="Layers to leave out in a further prediction, from which the picture is steered away.",
    ),
    InputParam("skip_layer_guidance_scale", float, default=2.8, description="How strongly."),
    InputParam(
        "skip_layer_guidance_start", float, 0.01, description="Part of the steps after which.", minimum=0, maximum=1
    ),
    InputParam(
        "skip_layer_guidance_stop", float, 0.2, description="Part of the steps before which.", minimum=0, maximum=1
    ),
]


class PredictSD3(PredictWithPooled):
    """The prediction for each branch that the guider asks for; the one with layers left out is added to their mix."""

    inputs = [*PredictWithPooled.inputs, "guidance_scale", *SKIPPED]

    def check(self, components: Components, inputs: BlockView) -> None:
        super().check(components, inputs)
        layers, depth = inputs.skip_guidance_layers, components.denoiser.config.num_layers
        if layers is None:
            return
        guider = components.guider if inputs.guidance_scale is None else None
        if not (inputs.guidance_scale > 1.0 if guider is None else guider.needs_unconditional):
            raise InputError("'skip_guidance_layers' acts where guidance is on; raise 'guidance_scale' above 1.")
        if not layers or any(not 0 <= layer < depth for layer in layers):
            raise InputError(f"'skip_guidance_layers' are numbers from 0 to {depth - 1}, got {layers}.")

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        return self.call(components, state, t, inputs, repeats)

    def call(
        self,
        components: Components,
        state: BlockView,
        t: Tensor,
        inputs: dict[str, Tensor],
        repeats: int,
        skip_layers: list[int] | None = None,
    ) -> Tensor:
        sample = torch.cat([state.model_input] * repeats)
        kwargs = without_lora_scale(components.denoiser, state.joint_attention_kwargs)
        more = {"joint_attention_kwargs": kwargs, "skip_layers": skip_layers, "return_dict": False}
        more |= self.residuals(components, state, t, sample, inputs)
        return components.denoiser(sample, timestep=t.expand(len(sample)), **inputs, **more)[0]

    def residuals(
        self, components: Components, state: BlockView, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]
    ) -> dict[str, Any]:
        """What a ControlNet adds to the blocks."""
        return {}

    def mixed(self, components: Components, state: BlockView, t: Tensor, guided: GuiderOutput) -> Tensor:
        layers, step = state.skip_guidance_layers, components.guider.get_state()["step"] / len(state.timesteps)
        if layers is None or not state.skip_layer_guidance_start < step < state.skip_layer_guidance_stop:
            return guided.pred
        inputs = with_prompt(self.conditions(state))
        with components.denoiser.cache_context("skipped_layers"):
            skipped = self.call(components, state, t, inputs, 1, skip_layers=layers)
        assert guided.pred_cond is not None
        return guided.pred + state.skip_layer_guidance_scale * (guided.pred_cond - skipped)
