"""`pipe.accelerate`: the models of a pipeline computed by Lockstep's own kernels, and not more often than needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from ..errors import InputError, UnknownNameError
from ..models import accelerated
from ..models.accelerated import Accelerated
from ..notes import say_once

FAST = "fast"
LEVELS = (*accelerated.LEVELS, FAST)
BOUND = 0.02  # of "fast": two fifths of the calls at 40 dB to the exact picture, with most samplers (docs/log.md)


class SpeedMixin:
    """The speed of a pipeline's models."""

    _level: str | None = None  # for models that are loaded later
    _foretell: float | None = None  # what runs are asked for that do not say it themselves
    _components: dict[str, Any]

    def accelerate(
        self, level: str = "exact", components: Iterable[str] | None = None, *, bound: float | None = None
    ) -> Self:
        """Compute the models (or the named ones) by Lockstep's own kernels; "off" goes back.

        "exact" gives the same numbers up to fp32's rounding; `pipe.unet.acceleration` says how exact each was found.
        "fast" does so, too, and leaves out calls of the denoiser whose result can be foretold: `bound` is the relative
        error that one may bring into the latents. Models that are loaded later are accelerated then. Anything but fp32
        on the processor stays with torch.
        """
        if level not in LEVELS:
            raise UnknownNameError("level of acceleration", level, LEVELS)
        if level != FAST and bound is not None:
            raise InputError(f"'bound' is for the level {FAST!r}; {level!r} leaves out nothing.")
        if level == FAST and components is not None:
            raise InputError(f"{FAST!r} is about the whole run; for some of the models alone there is 'exact'.")
        able = {name: model for name, model in self._components.items() if isinstance(model, Accelerated)}
        names = list(able) if components is None else list(components)
        for name in names:
            if name not in able:
                raise UnknownNameError("component that can be accelerated", name, able)
        of_models = self._level_of_models(level)
        for name in names:
            able[name].accelerate(of_models)
        if components is None:
            self._level = None if of_models == "off" else of_models
            self._foretell = None if level != FAST else _checked(BOUND if bound is None else bound)
        return self

    def _level_of_models(self, level: str) -> str:
        """What a model itself can do for a level; "fast" goes without the kernels where there are none."""
        if level != FAST:
            return level
        missing = accelerated.why_not()
        if missing is not None:
            say_once(
                f"There are no kernels of our own here ({missing}): 'fast' leaves out calls of the denoiser alone."
            )
        return "exact" if missing is None else "off"

    @property
    def speed_defaults(self) -> dict[str, float]:
        """Arguments that the level of acceleration suggests for calls that do not give them."""
        return {} if self._foretell is None else {"foretell": self._foretell}

    def accelerated(self) -> dict[str, str]:
        """Component -> level, for those that are accelerated."""
        found = ((name, getattr(model, "acceleration", None)) for name, model in self._components.items())
        return {name: acceleration.level for name, acceleration in found if acceleration is not None}

    def _speed_up(self, model: Any) -> None:
        if self._level is not None and isinstance(model, Accelerated):
            model.accelerate(self._level)


def _checked(bound: float) -> float:
    if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not 0 < bound <= 1:
        raise InputError(f"'bound' wants a number above 0 and at most 1, got {bound!r}.")
    return float(bound)
