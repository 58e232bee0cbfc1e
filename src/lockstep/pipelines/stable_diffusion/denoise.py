"""The loop: scale, predict, guide, step."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from ...blocks import (
    AutoPipelineBlocks,
    InputParam,
    LoopSequentialPipelineBlocks,
    ModularPipelineBlocks,
    needs,
)
from ...errors import InputError
from ...guiders import predict_branches
from ...models.controlnets.multi import MultiControlNetModel
from .before_denoise import CONTROLNET, SCHEDULER, UNET, control_nets
from .encoders import GUIDER

Tensor = torch.Tensor
ONE_BATCH = InputParam("batch_guidance", bool, default=True,
                       description="Run the branches of the guidance as one batch; off needs less memory.")  # fmt: skip

CONTROL: list[Any] = [
    InputParam("control_pixels", list[Tensor], required=True, description="The control picture of each ControlNet."),
    *["controlnet_conditioning_scale", "control_guidance_start", "control_guidance_end", "guess_mode"],
]


class ScaleModelInput(ModularPipelineBlocks):
    """The latents as the denoiser was trained to see them."""

    expected_components = [SCHEDULER]
    inputs = needs("latents")
    outputs = ["model_input"]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> None:
        state.model_input = components.scheduler.scale_model_input(state.latents, t)


class AppendMask(ModularPipelineBlocks):
    """Mask and masked picture beside the latents, for a denoiser with 9 input channels."""

    expected_components = [UNET]
    inputs = needs("model_input", "mask", "masked_image_latents")
    outputs = ["model_input"]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> None:
        wide = components.unet.config.in_channels == 9
        parts = [state.model_input, state.mask, state.masked_image_latents] if wide else [state.model_input]
        state.model_input = torch.cat(parts, dim=1)


class Predict(ModularPipelineBlocks):
    """The denoiser's prediction for each branch that the guider asks for, and the guider's mix of them."""

    expected_components = [UNET, GUIDER]
    inputs = [
        *needs("model_input", "timesteps", "prompt_embeds"),
        "negative_prompt_embeds",
        "timestep_cond",
        "cross_attention_kwargs",
        ONE_BATCH,
    ]
    outputs = ["noise_pred"]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> None:
        components.guider.set_state(step=i, num_inference_steps=len(state.timesteps), timestep=t)
        branches = components.guider.prepare_inputs(self.conditions(state))

        def predict(inputs: dict[str, Tensor], repeats: int) -> Tensor:
            return self.denoise(components, state, t, inputs, repeats)

        predict_branches(components.guider, branches, components.unet, predict, batched=state.batch_guidance)
        state.noise_pred = components.guider(branches)[0]

    def conditions(self, state: Any) -> dict[str, tuple[Tensor, Tensor | None]]:
        """What differs between the branches: with the prompt, and without it."""
        return {"encoder_hidden_states": (state.prompt_embeds, state.negative_prompt_embeds)}

    def denoise(self, components: Any, state: Any, t: Tensor, inputs: dict[str, Tensor], repeats: int) -> Tensor:
        """One call of the denoiser for `repeats` branches."""
        sample = torch.cat([state.model_input] * repeats)
        residuals = self.residuals(components, state, t, sample, inputs)
        condition = state.timestep_cond
        return components.unet(
            sample,
            t,
            encoder_hidden_states=inputs["encoder_hidden_states"],
            timestep_cond=None if condition is None else torch.cat([condition] * repeats),
            cross_attention_kwargs=state.cross_attention_kwargs,
            added_cond_kwargs=self.added_conditions(inputs),
            return_dict=False,
            **residuals,
        )[0]

    def added_conditions(self, inputs: dict[str, Tensor]) -> dict[str, Tensor] | None:
        """Conditions that are added to the time embedding."""
        return None

    def residuals(
        self, components: Any, state: Any, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]
    ) -> dict[str, Any]:
        """What a ControlNet adds to the denoiser's skips."""
        return {}


class PredictWithControl(Predict):
    """The same, steered by a ControlNet (arXiv:2302.05543)."""

    expected_components = [*Predict.expected_components, CONTROLNET]
    inputs = [*Predict.inputs, *CONTROL]

    def check(self, components: Any, inputs: Any) -> None:
        for start, end, _ in self.settings(components, inputs):
            if start >= end:
                raise InputError(f"'control_guidance_start' ({start}) has to be before 'control_guidance_end' ({end}).")

    @staticmethod
    def settings(components: Any, state: Any) -> list[tuple[float, float, float]]:
        """Begin, end and weight of each net."""
        nets = len(control_nets(components.controlnet))
        columns = []
        for name in ("control_guidance_start", "control_guidance_end", "controlnet_conditioning_scale"):
            values = state[name] if isinstance(state[name], (list, tuple)) else [state[name]] * nets
            if len(values) != nets:
                raise InputError(f"{name!r} wants a number for each ControlNet, {nets}, or one for all; got {values}.")
            columns.append(values)
        return list(zip(*columns, strict=True))

    def residuals(
        self, components: Any, state: Any, t: Tensor, sample: Tensor, inputs: dict[str, Tensor]
    ) -> dict[str, Any]:
        nets, steps = control_nets(components.controlnet), len(state.timesteps)
        step = components.guider.get_state()["step"]
        scales = [
            scale * float(step / steps >= start and (step + 1) / steps <= end)
            for start, end, scale in self.settings(components, state)
        ]
        guess = state.guess_mode or nets[0].config.global_pool_conditions
        rows = len(state.prompt_embeds)
        if guess and components.guider.is_unconditional and len(sample) == rows:
            return {}
        # guessing, the nets see the branch with the prompt alone: it comes last
        seen = (sample[-rows:] if guess else sample)[:, : nets[0].config.in_channels]
        told = {name: value[-len(seen) :] for name, value in inputs.items()}
        down, mid = MultiControlNetModel(nets)(
            seen,
            t,
            told["encoder_hidden_states"],
            [torch.cat([pixels] * (len(seen) // rows)) for pixels in state.control_pixels],
            scales,
            added_cond_kwargs=self.added_conditions(told),
            guess_mode=guess,
            return_dict=False,
        )
        if len(seen) < len(sample):
            down = [_with_zeros(one, len(sample)) for one in down]
            mid = _with_zeros(mid, len(sample))
        return {"down_block_additional_residuals": down, "mid_block_additional_residual": mid}


def _with_zeros(rows: Tensor, total: int) -> Tensor:
    return torch.cat([rows.new_zeros(total - len(rows), *rows.shape[1:]), rows])


class SchedulerStep(ModularPipelineBlocks):
    """One step down in noise."""

    expected_components = [SCHEDULER]
    inputs = [*needs("noise_pred", "latents"), "eta", "generator"]
    outputs = ["latents"]

    def check(self, components: Any, inputs: Any) -> None:
        if inputs.eta and "eta" not in _step_arguments(components.scheduler):
            raise InputError(
                f"{type(components.scheduler).__name__} takes no 'eta'; it belongs to DDIM. Leave it out, or use DDIMScheduler."
            )

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> None:
        given = {"eta": state.eta, "generator": state.generator}
        taken = {name: value for name, value in given.items() if name in _step_arguments(components.scheduler)}
        state.latents = components.scheduler.step(state.noise_pred, t, state.latents, **taken, return_dict=False)[0]


def _step_arguments(scheduler: Any) -> Any:
    return inspect.signature(type(scheduler).step).parameters


class KeepUnmasked(ModularPipelineBlocks):
    """Outside of the mask: the start picture with as much noise as the next step has."""

    expected_components = [SCHEDULER, UNET]
    inputs = [*needs("latents", "noise", "mask", "timesteps"), InputParam.template("image_latents", required=False)]
    outputs = ["latents"]

    def __call__(self, components: Any, state: Any, i: int, t: Tensor) -> None:
        if components.unet.config.in_channels != 4:  # a denoiser that sees the mask keeps the rest by itself
            state.latents = state.latents
            return
        kept = state.image_latents
        if i < len(state.timesteps) - 1:
            kept = components.scheduler.add_noise(kept, state.noise, state.timesteps[i + 1 : i + 2])
        state.latents = (1 - state.mask) * kept + state.mask * state.latents


class AutoAppendMask(AutoPipelineBlocks):
    """Only when painting."""

    block_classes = [AppendMask]
    block_names = ["append"]
    block_trigger_inputs = ["mask_image"]


class AutoKeepUnmasked(AutoPipelineBlocks):
    """Only when painting."""

    block_classes = [KeepUnmasked]
    block_names = ["keep"]
    block_trigger_inputs = ["mask_image"]


class AutoPredict(AutoPipelineBlocks):
    """With a ControlNet where there is a control picture."""

    block_classes = [PredictWithControl, Predict]
    block_names = ["with_control", "plain"]
    block_trigger_inputs = ["control_image", None]


class Denoise(LoopSequentialPipelineBlocks):
    """Scale, predict, guide, step: once per timestep."""

    block_classes = [ScaleModelInput, AutoAppendMask, AutoPredict, SchedulerStep, AutoKeepUnmasked]
    block_names = ["scale", "append_mask", "predict", "step", "keep_unmasked"]
    loop_over = "timesteps"
