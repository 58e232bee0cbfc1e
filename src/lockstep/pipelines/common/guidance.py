"""The guider of a run gets its scale."""

from __future__ import annotations

from ...blocks import LATER, BlockView, ModularPipelineBlocks
from ...errors import InputError
from ...guiders import BaseGuidance
from .parts import GUIDER, Components


class SetGuidance(ModularPipelineBlocks):
    """Gives the guider of this run its scale."""

    expected_components = [GUIDER]
    inputs = ["guidance_scale", "guidance_rescale"]

    def check(self, components: Components, inputs: BlockView) -> None:
        for name in self.input_names:
            unset = 0.0 if name == "guidance_rescale" else None
            if getattr(inputs, name) != unset and not hasattr(components.guider, name):
                kind = type(components.guider).__name__
                raise InputError(
                    f"{kind} has no {name!r}; give its own settings when you make it: pipe.guider = {kind}(…)."
                )
        if LATER not in (inputs.guidance_scale, inputs.guidance_rescale):
            self.give(components, inputs)  # the guider is this run's own: what is checked next sees it as it will be

    def __call__(self, components: Components, state: BlockView) -> None:
        self.give(components, state)

    def give(self, components: Components, state: BlockView) -> None:
        """Give the guider what a call says of it."""
        guider: BaseGuidance = components.guider
        give_scale(guider, state.guidance_scale)
        if state.guidance_rescale > 0.0:
            guider.guidance_rescale = state.guidance_rescale  # type: ignore[attr-defined]


def give_scale(guider: BaseGuidance, scale: float | None) -> None:
    """Set a guider's scale, where one is given."""
    if scale is not None:
        floor = 0.0 if getattr(guider, "use_original_formulation", False) else 1.0
        guider.guidance_scale = max(scale, floor)  # type: ignore[attr-defined]
