"""What a callback sees and sets: values under their published names, and the run of this thread behind the pipeline.

State belongs to a run here. A callback that asks the pipeline (`pipe.guidance_scale`, `pipe.num_timesteps`) or sets it
(`pipe._interrupt = True`) reaches the run that called it; afterwards the pipeline tells of the last run of the thread.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch

# published name -> our value
ALIASES = {
    "add_text_embeds": "pooled_prompt_embeds",
    "add_neg_time_ids": "negative_add_time_ids",
    "w_embedding": "timestep_cond",
}
CONTROL = "control_pixels"  # what `image` or `control_image` mean to a callback of a pipeline with a ControlNet
# values that a callback sees with those of the branch without the prompt before them, while guidance is on, where a
# pipeline's published form runs both branches as one batch
PAIRED = ("prompt_embeds", "pooled_prompt_embeds", "add_time_ids")
SETTABLE = ("_interrupt", "_guidance_scale")


def known_names(names: Collection[str]) -> set[str]:
    """What a callback can ask for, where a run has these values."""
    aliases = {alias for alias, name in ALIASES.items() if name in names}
    return {*names, *aliases, *(("image", "control_image") if CONTROL in names else ())}


def value_behind(name: str, values: Any) -> str:
    """The value that a published name means in this run."""
    if name in ("image", "control_image") and getattr(values, CONTROL, None) is not None:
        return CONTROL
    return ALIASES.get(name, name)


def shown(name: str, values: Any, paired: bool) -> Any:
    """A value as a callback sees it."""
    own = value_behind(name, values)
    value = getattr(values, own, None)
    if own == CONTROL and isinstance(value, list) and len(value) == 1:
        return value[0]
    negative = getattr(values, f"negative_{own}", None) if paired and own in PAIRED else None
    return value if negative is None or value is None else torch.cat([negative, value])


def taken(name: str, value: Any, values: Any) -> dict[str, Any]:
    """What a callback returned for a name, as our values."""
    own = value_behind(name, values)
    if own == CONTROL:
        return {own: value if isinstance(value, list) else [value]}
    before: Any = getattr(values, own, None)
    negative: Any = getattr(values, f"negative_{own}", None)
    if own in PAIRED and negative is not None and len(value) == len(before) + len(negative):
        return {f"negative_{own}": value[: len(negative)], own: value[len(negative) :]}
    return {own: value}


def all_shown(run: Any, names: Iterable[str], values: Any) -> dict[str, Any]:
    """The values that a callback asked for."""
    guider = run.components.own.get("guider")
    paired = run.pipe.pairs_for_callbacks and guider is not None and guider.needs_unconditional
    return {name: shown(name, values, paired) for name in names}


def all_taken(changed: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """All that a callback returned."""
    return {own: one for name, value in changed.items() for own, one in taken(name, value, values).items()}


class CurrentRun(threading.local):
    """The run of this thread, as the pipeline shows it."""

    run: Any = None
    last: Mapping[str, Any] | None = None

    def begins(self, run: Any) -> None:
        self.run, self.last = run, None

    def ends(self) -> None:
        """Keep what a person may still ask for; the run and its tensors are let go."""
        if self.run is not None:
            self.last = {name: value for name, value in self._values().items() if not isinstance(value, torch.Tensor)}
        self.run = None

    def _values(self) -> dict[str, Any]:
        run, guider = self.run, self.run.components.own.get("guider")
        timesteps = run.state.get("timesteps")
        told = {name: run.state.get(name) for name in run.plan.inputs}
        taught = "true_cfg_scale" in told  # a model that was taught a scale of its own is told that one
        scale = told.get("guidance_scale") if taught else getattr(guider, "guidance_scale", None)
        return {
            **told,
            "guidance_scale": scale,
            "num_timesteps": None if timesteps is None else len(timesteps),
            "do_classifier_free_guidance": bool(guider is not None and guider.needs_unconditional),
            "interrupt": run.leaves_loops,
        }

    def tells(self, name: str) -> bool:
        return (self.run is not None or self.last is not None) and name.removeprefix("_") in self._known()

    def _known(self) -> Mapping[str, Any]:
        return self._values() if self.run is not None else self.last or {}

    def tell(self, name: str) -> Any:
        return self._known()[name.removeprefix("_")]

    def set(self, name: str, value: Any) -> bool:
        """Whether it was this run's to set."""
        if self.run is None or name not in SETTABLE:
            return False
        if name == "_interrupt":
            self.run.leaves_loops = bool(value)
        else:
            guider = self.run.components.own["guider"]
            guider.guidance_scale = max(float(value), 1.0)
        return True
