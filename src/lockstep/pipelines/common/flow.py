"""What flow matching wants: a grid shifted by the number of tokens, and guidance beside the one that a model knows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...blocks import BlockView, InputParam, ModularPipelineBlocks
from ...errors import InputError
from ...notes import say_once
from ...schedulers.flow import mu_for_tokens
from .parts import AUTOENCODER_OUTLINE, DENOISER_OUTLINE, GUIDER, SCHEDULER, Components
from .sizes import num_tokens
from .timesteps import SetTimesteps, SetTimestepsByStrength, grid_takes

# off until a call gives a true scale and a negative prompt, or another guider takes its place
TRUE_GUIDER = replace(GUIDER, config={"enabled": False})
MU = InputParam("mu", float, description="Strength of the shift, in place of the one by the size of the picture.")
NEGATIVE_EMBEDS = InputParam.template("negative_prompt_embeds", required=False, given=True)


class SetFlowTimesteps(SetTimesteps):
    """The grid of timesteps; where the scheduler shifts by the size of the picture, it is told that.

    `even_sigmas` are those from 1 to 1 / steps, which some families hand over before the shift; others take the
    scheduler's own.
    """

    even_sigmas: ClassVar[bool] = False
    expected_components = [SCHEDULER, DENOISER_OUTLINE, AUTOENCODER_OUTLINE]
    inputs = [*SetTimesteps.inputs, *["height", "width"], MU]

    def grid(self, scheduler: Any, components: Components, state: BlockView) -> dict[str, Any]:
        told = super().grid(scheduler, components, state)
        config = scheduler.config
        own = not config.get("use_flow_sigmas")  # the solvers that know flow matching by a switch space it themselves
        if self.even_sigmas and own and told.keys() == {"num_inference_steps"} and grid_takes(scheduler, "sigmas"):
            told = {"sigmas": self.spaced(told["num_inference_steps"])}
        if config.get("use_dynamic_shifting") and grid_takes(scheduler, "mu"):
            told["mu"] = mu_for_tokens(config, self.tokens(components, state)) if state.mu is None else state.mu
        elif state.mu is not None:
            raise InputError(
                "'mu' goes with a scheduler that shifts by the size of the picture (use_dynamic_shifting=True); this "
                f"{type(scheduler).__name__} does not."
            )
        return told

    def spaced(self, steps: int) -> list[float]:
        """So many even sigmas; a family that was published with others in their last bits says so here."""
        return np.linspace(1.0, 1 / steps, steps).tolist()

    def tokens(self, components: Components, state: BlockView) -> int:
        """How many tokens the denoiser reads, as far as it is known before the run."""
        return num_tokens(components, state)


class SetFlowTimestepsByStrength(SetFlowTimesteps, SetTimestepsByStrength):
    """The end of the grid, by strength; a step that is begun is taken."""

    inputs = [*SetFlowTimesteps.inputs, "strength"]

    def left_out(self, steps: int, strength: float) -> int:
        return int(max(steps - min(steps * strength, steps), 0))


class SetFlowTimestepsForPainting(SetFlowTimestepsByStrength):
    """The end of the grid; painting starts from pure noise unless told otherwise."""

    inputs = [*SetFlowTimesteps.inputs, InputParam.template("strength", default=1.0)]


class SetEvenTimesteps(SetFlowTimesteps):
    """Even sigmas from 1, shifted by the scheduler."""

    even_sigmas = True


class SetEvenTimestepsByStrength(SetFlowTimestepsByStrength):
    """The same grid's end, by the strength that families with even sigmas are published with."""

    even_sigmas = True
    inputs = [*SetFlowTimesteps.inputs, InputParam.template("strength", default=0.6)]


class SetEvenTimestepsForPainting(SetFlowTimestepsForPainting):
    """The same; painting starts from pure noise unless told otherwise."""

    even_sigmas = True


class SetTrueGuidance(ModularPipelineBlocks):
    """Gives the guider of this run its scale, for models that were taught a guidance scale of their own beside it."""

    expected_components = [TRUE_GUIDER]
    inputs = ["true_cfg_scale", "negative_prompt", NEGATIVE_EMBEDS]

    def check(self, components: Components, inputs: BlockView) -> None:
        asked = "true_cfg_scale" in components.given_inputs and inputs.true_cfg_scale != 1.0
        if asked and not hasattr(components.guider, "guidance_scale"):
            kind = type(components.guider).__name__
            raise InputError(f"{kind} has no scale for 'true_cfg_scale'; give its settings: pipe.guider = {kind}(…).")

    def __call__(self, components: Components, state: BlockView) -> None:
        guider, scale = components.guider, state.true_cfg_scale
        if scale == 1.0:  # nothing is said: the guider is as it was made
            if state.negative_prompt and not guider.needs_unconditional:
                say_once("'negative_prompt' does nothing while 'true_cfg_scale' is 1; raise it to steer away from it.")
            return
        negative = state.negative_prompt is not None or state.negative_prompt_embeds is not None
        if scale > 1.0 and not negative and "true_cfg_scale" in components.given_inputs:
            say_once("'true_cfg_scale' does nothing without a 'negative_prompt', here as elsewhere; '' is one, too.")
        guider.guidance_scale, guider.enabled = max(scale, 1.0), scale > 1.0 and negative


class SetGuidanceByNegative(SetTrueGuidance):
    """The same with a scale from the beginning: a negative prompt alone switches the guidance on."""

    inputs = [InputParam.template("true_cfg_scale", default=4.0), *SetTrueGuidance.inputs[1:]]

    def __call__(self, components: Components, state: BlockView) -> None:
        if components.guider.enabled and "true_cfg_scale" not in components.given_inputs:
            return  # a guider that somebody has put in its place is as it was made
        super().__call__(components, state)
