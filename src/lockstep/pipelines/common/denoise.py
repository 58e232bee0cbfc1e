"""The loop: scale, predict, guide, step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ...blocks import BlockView, InputParam, LoopSequentialPipelineBlocks, ModularPipelineBlocks, needs
from ...errors import InputError
from ...guiders import BaseGuidance, Condition, GuiderOutput, predict_branches
from . import foretelling
from .painting import AutoAppendMask, AutoKeepUnmasked
from .parts import DENOISER, GUIDER, SCHEDULER, Components
from .timesteps import signatures

Tensor = torch.Tensor
STEP = ("model_output", "timestep", "sample")  # what a scheduler's step needs
ONE_BATCH = InputParam("batch_guidance", bool, default=True,
                       description="Run the branches of the guidance as one batch; off needs less memory.")  # fmt: skip


class ScaleModelInput(ModularPipelineBlocks):
    """The latents as the denoiser was trained to see them."""

    expected_components = [SCHEDULER]
    inputs = needs("latents")
    outputs = ["model_input"]

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        state.model_input = components.scheduler.scale_model_input(state.latents, t)


class Predict(ModularPipelineBlocks):
    """The denoiser's prediction for each branch that the guider asks for, and the guider's mix of them."""

    expected_components = [DENOISER, GUIDER, SCHEDULER]
    inputs = [
        *needs("model_input", "timesteps", "prompt_embeds"),
        *["negative_prompt_embeds", ONE_BATCH],
        *foretelling.READS,
    ]
    outputs = ["noise_pred", *foretelling.MAKES]
    num_places: ClassVar[int] = 2  # of a condition: with the prompt, without it

    def check(self, components: Components, inputs: BlockView) -> None:
        foretelling.check(components.scheduler, inputs.foretell)
        if isinstance(components.guider, BaseGuidance):
            components.guider.check_places(self.num_places)
            if components.denoiser is not None:  # a second expert may be left out
                components.guider.check_model(components.denoiser)
        for name in (name for name in self.input_names if name.endswith("attention_kwargs")):
            if inputs[name] and hasattr(components.denoiser, "check_processor_kwargs"):
                components.denoiser.check_processor_kwargs(name, without_lora_scale(components.denoiser, inputs[name]))

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        told = foretelling.foretell(components.scheduler, state, i, t)
        state.noise_pred = self.predicted(components, state, i, t) if told is None else told
        foretelling.remember(components.scheduler, state, i, t, was_computed=told is None)

    def predicted(self, components: Components, state: BlockView, i: int, t: Tensor) -> Tensor:
        """What the denoiser says for each branch, mixed by the guider."""
        guider = self.guider(components, state, t)
        guider.set_state(step=i, num_inference_steps=len(state.timesteps), timestep=t)
        branches = guider.prepare_inputs(self.conditions(state))

        def predict(inputs: dict[str, Tensor], repeats: int) -> Tensor:
            return self.denoise(components, state, t, inputs, repeats)

        predict_branches(guider, branches, components.denoiser, predict, batched=state.batch_guidance)
        return self.mixed(components, state, t, guider(branches))

    def guider(self, components: Components, state: BlockView, t: Tensor) -> BaseGuidance:
        """Who says which branches there are; a family whose guidance changes on the way says so here."""
        return components.guider

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        """What differs between the branches: with the prompt, and without it."""
        return {"encoder_hidden_states": (state.prompt_embeds, state.negative_prompt_embeds)}

    def mixed(self, components: Components, state: BlockView, t: Tensor, guided: GuiderOutput) -> Tensor:
        """What the guider made of the branches; a family that adds to it does so here."""
        return guided.pred

    def denoise(
        self, components: Components, state: BlockView, t: Tensor, inputs: dict[str, Tensor], repeats: int
    ) -> Tensor:
        """One call of the denoiser for `repeats` branches; a family whose denoiser is told more says so here."""
        sample = self.sample(state, inputs, repeats)
        return components.denoiser(sample, t.expand(len(sample)), **inputs, return_dict=False)[0]

    def sample(self, state: BlockView, inputs: dict[str, Tensor], repeats: int) -> Tensor:
        """What the denoiser sees of the picture, once for each branch."""
        return torch.cat([state.model_input] * repeats)


def without_lora_scale(denoiser: Any, kwargs: dict[str, Any] | None) -> dict[str, Any] | None:
    """Where LoRAs are merged, the weights have their scale already; elsewhere the denoiser says that it has none."""
    if not kwargs or getattr(denoiser, "merged_loras", None) is None:
        return kwargs
    return {key: value for key, value in kwargs.items() if key != "scale"}


def with_prompt(conditions: Mapping[str, Condition]) -> dict[str, Tensor]:
    """Of what differs between the branches, that of the branch with the prompt."""
    first = {name: value[0] if isinstance(value, tuple) else value for name, value in conditions.items()}
    return {name: value for name, value in first.items() if value is not None}


class PredictWithPooled(Predict):
    """The same for denoisers that read a pooled vector beside the text."""

    inputs = [
        *Predict.inputs,
        *needs("pooled_prompt_embeds"),
        *["negative_pooled_prompt_embeds", "joint_attention_kwargs"],
    ]

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        return {
            **super().conditions(state),
            "pooled_projections": (state.pooled_prompt_embeds, state.negative_pooled_prompt_embeds),
        }


class PredictWithMask(Predict):
    """The same for texts of which not every token counts: `counted` says of each branch which do."""

    inputs = [*Predict.inputs, *needs("prompt_embeds_mask"), "negative_prompt_embeds_mask"]

    def conditions(self, state: BlockView) -> dict[str, Condition]:
        return {**super().conditions(state), "counted": (state.prompt_embeds_mask, state.negative_prompt_embeds_mask)}


class SchedulerStep(ModularPipelineBlocks):
    """One step down in noise."""

    expected_components = [SCHEDULER]
    inputs = [*needs("noise_pred", "latents"), "eta", "generator"]
    outputs = ["latents"]

    def check(self, components: Components, inputs: BlockView) -> None:
        parameters = step_arguments(components.scheduler).values()
        more = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        if more[1:] != list(STEP):
            raise InputError(
                f"{type(components.scheduler).__name__} steps by more than {', '.join(STEP)}: its step wants "
                f"{', '.join(more[1:])}. It belongs to a pipeline of its own; give this one another scheduler."
            )
        if inputs.eta and "eta" not in step_arguments(components.scheduler):
            raise InputError(
                f"{type(components.scheduler).__name__} takes no 'eta'; it belongs to DDIM. Leave it out, or use "
                "DDIMScheduler."
            )

    def __call__(self, components: Components, state: BlockView, i: int, t: Tensor) -> None:
        state.latents = self.stepped(components, state, t)[0]

    def stepped(self, components: Components, state: BlockView, t: Tensor) -> Any:
        """What the scheduler's step gives: the latents with less noise, then what else it has."""
        given = {"eta": state.eta, "generator": state.generator, **self.further(state, t)}
        taken = {name: value for name, value in given.items() if name in step_arguments(components.scheduler)}
        prediction, latents = self.moving(components, state)
        return components.scheduler.step(prediction, t, latents, **taken, return_dict=False)

    def moving(self, components: Components, state: BlockView) -> tuple[Tensor, Tensor]:
        """What is predicted, and the latents that it moves; a family that holds some of them leaves these out here."""
        return state.noise_pred, state.latents

    def further(self, state: BlockView, t: Tensor) -> dict[str, Any]:
        """What a family's schedulers are told besides, where they take it."""
        return {}


def step_arguments(scheduler: Any) -> Any:
    """What `step` takes; of one that hands on whatever it is given (*args), what the class before it takes."""
    taken = signatures(scheduler, "step")
    return next((one for one in taken if not any(p.kind is p.VAR_POSITIONAL for p in one.values())), taken[0])


class Denoise(LoopSequentialPipelineBlocks):
    """Scale, predict, guide, step: once per timestep."""

    block_classes = [ScaleModelInput, Predict, SchedulerStep]
    block_names = ["scale", "predict", "step"]
    loop_over = "timesteps"


class DenoiseOrPaint(LoopSequentialPipelineBlocks):
    """Scale, predict, guide, step: once per timestep; where there is a mask, what it leaves out stays."""

    block_classes = [ScaleModelInput, AutoAppendMask, Predict, SchedulerStep, AutoKeepUnmasked]
    block_names = ["scale", "append_mask", "predict", "step", "keep_unmasked"]
    loop_over = "timesteps"
