"""Settings of old folders that the published pipelines correct when they are made: data, and how it is told.

Early folders of Stable Diffusion carry configs that were written before these settings existed, or with other defaults.
What is assigned to a pipeline later is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..notes import say_once


@dataclass(frozen=True)
class Correction:
    """A config value that has to be another one."""

    component: str
    setting: str
    wanted: Any

    def applies(self, config: Any) -> bool:
        return self.setting in config and config[self.setting] != self.wanted


STEPS_OFFSET = Correction("scheduler", "steps_offset", 1)
NO_CLIPPING = Correction("scheduler", "clip_sample", False)
NO_RUNGE_KUTTA = Correction("scheduler", "skip_prk_steps", True)
SCALE_OF_LARGE_LATENTS = Correction("vae", "scaling_factor", 0.08333)


def corrected(owner: str, name: str, component: Any, corrections: tuple[Correction, ...]) -> Any:
    """The component, or one of the same class with the settings corrected."""
    config: Any = getattr(component, "config", None) or {}
    wrong = [one for one in corrections if one.component == name and one.applies(config)]
    if not wrong:
        return component
    values = {one.setting: one.wanted for one in wrong}
    told = ", ".join(f"{one.setting} {config[one.setting]!r} is taken as {one.wanted!r}" for one in wrong)
    say_once(
        f"{owner}: the config of {type(component).__name__} is one of the old ones: {told}, as the published pipelines "
        f"do. To keep it as it is, assign it afterwards: pipe.{name} = …"
    )
    kind = type(component)
    if isinstance(component, torch.nn.Module):
        return kind.sharing(component, {**config, **values})  # the same weights
    return kind.from_config(config, **values)
