"""Another sampler for the same model: what the model was trained for stays, how its noise falls changes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ..configuration import FrozenDict, config_defaults
from ..errors import UnsupportedError
from ..notes import say_once
from .scheduling import FLOW, SchedulerMixin

# the same sampler for models of flow matching
OF_FLOW = {
    "EulerDiscreteScheduler": "FlowMatchEulerDiscreteScheduler",
    "HeunDiscreteScheduler": "FlowMatchHeunDiscreteScheduler",
    "LCMScheduler": "FlowMatchLCMScheduler",
}
# what turns a solver that knows flow matching by a switch into one of flow matching
AS_FLOW = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}


def exchanged(own: SchedulerMixin, kind: type[SchedulerMixin], **settings: Any) -> SchedulerMixin:
    """A scheduler of another class for the model of this one; refused where the class cannot serve such a model."""
    config = own.config
    if own.trained_for == FLOW:
        kind = _for_flow(kind, settings)
        shift = config.get("shift", config.get("flow_shift", 1.0))
        config = FrozenDict({name: value for name, value in config.items() if name not in ("shift", "flow_shift")})
        switched = {**AS_FLOW, "flow_shift": shift} if _can_flow(kind) else {"shift": shift}
        settings = {**{name: value for name, value in switched.items() if name in config_defaults(kind)}, **settings}
    if not _serves(kind, own.trained_for):
        raise _refusal(own, kind, kind.training)
    made = kind.from_config(config, **settings)
    require_same_training(own, made)
    return made


def _for_flow(kind: type[SchedulerMixin], settings: Mapping[str, Any]) -> type[SchedulerMixin]:
    """The class itself, or the one of the same sampler for flow matching."""
    if kind.__name__ not in OF_FLOW:
        return kind
    twin: type[SchedulerMixin] = getattr(importlib.import_module(__package__), OF_FLOW[kind.__name__])
    lost = [name for name in settings if name not in config_defaults(twin)]
    if lost:
        raise UnsupportedError(
            f"For this model of flow matching {kind.__name__} is {twin.__name__}, which has no {' and no '.join(lost)}."
        )
    say_once(f"This model was trained by flow matching: {kind.__name__} is {twin.__name__} here.")
    return twin


def require_same_training(own: SchedulerMixin, other: SchedulerMixin) -> None:
    """Refuse a scheduler that is for models trained in another way."""
    if other.trained_for != own.trained_for:
        raise _refusal(own, type(other), other.trained_for)


def check_assigned(own: SchedulerMixin, other: SchedulerMixin) -> None:
    """The same for one that a script assigns; one of another scaling of the same noise runs there, and is told."""
    if FLOW in (own.trained_for, other.trained_for):
        require_same_training(own, other)
    elif other.trained_for != own.trained_for:
        say_once(f"{_refusal(own, type(other), other.trained_for)} It is used all the same, and draws noise.")


def _refusal(own: SchedulerMixin, kind: type[SchedulerMixin], training: str) -> UnsupportedError:
    fitting = ", ".join(sorted(one.__name__ for one in _classes() if _serves(one, own.trained_for)))
    return UnsupportedError(
        f"This model wants a scheduler for {own.trained_for}, as its {type(own).__name__} is, got {kind.__name__}, "
        f"which is for {training}. Choose one of: {fitting}. They are made with exchanged(pipe.scheduler, …) from "
        "lockstep.schedulers; from_pretrained(…, scheduler=…) takes any."
    )


def _classes() -> list[type[SchedulerMixin]]:
    home = importlib.import_module(__package__)
    return [getattr(home, name) for name in home.__all__ if name.endswith("Scheduler")]


def _can_flow(kind: type[SchedulerMixin]) -> bool:
    """Whether a class knows flow matching by a switch, on a grid that ends without noise."""
    return {"use_flow_sigmas", "final_sigmas_type"} <= config_defaults(kind).keys()


def _serves(kind: type[SchedulerMixin], training: str) -> bool:
    return kind.training == training or (training == FLOW and _can_flow(kind))
