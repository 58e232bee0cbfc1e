"""`pipe.accelerate`: the models of a pipeline computed by Lockstep's own kernels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ..errors import UnknownNameError
from ..models.accelerated import Accelerated


class SpeedMixin:
    """The speed of a pipeline's models."""

    _level: str | None = None  # for models that are loaded later
    _components: dict[str, Any]

    def accelerate(self, level: str = "exact", components: Iterable[str] | None = None) -> Self:
        """Compute the models (or the named ones) by Lockstep's own kernels; "off" goes back.

        "exact" gives the same numbers up to fp32's rounding; `pipe.unet.acceleration` says how exact each was found.
        Models that are loaded later are accelerated then. Anything but fp32 on the processor stays with torch.
        """
        able = {name: model for name, model in self._components.items() if isinstance(model, Accelerated)}
        names = list(able) if components is None else list(components)
        for name in names:
            if name not in able:
                raise UnknownNameError("component that can be accelerated", name, able)
        for name in names:
            able[name].accelerate(level)
        if components is None:
            self._level = None if level == "off" else level
        return self

    def accelerated(self) -> dict[str, str]:
        """Component -> level, for those that are accelerated."""
        found = ((name, getattr(model, "acceleration", None)) for name, model in self._components.items())
        return {name: acceleration.level for name, acceleration in found if acceleration is not None}

    def _speed_up(self, model: Any) -> None:
        if self._level is not None and isinstance(model, Accelerated):
            model.accelerate(self._level)
