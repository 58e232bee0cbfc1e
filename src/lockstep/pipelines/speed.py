"""`pipe.accelerate`: the models of a pipeline computed by Lockstep's own kernels, and not more often than needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import torch

from .. import memory
from ..blocks.params import ComponentSpec
from ..errors import BackendError, InputError, UnknownNameError, UnsupportedError
from ..models import accelerated
from ..models.accelerated import EXACT, HIGH, OFF, OWN_ENGINE, Accelerated, checked_bound
from ..models.weights import parse_size
from ..notes import say_once
from .bounded import Bounded
from .example_text import text_call_of

FAST = "fast"
LEVELS = (EXACT, HIGH, FAST, OFF)
BOUND = 0.012  # of "fast": 64 pictures of five samplers keep 32 dB and an SSIM of 0.95 each (docs/log.md)


class SpeedMixin:
    """The speed of a pipeline's models."""

    _level: str | None = None  # for models that are loaded later
    _bound_of_models: float | None = None  # of "high"
    _engine: str = OWN_ENGINE
    _foretell: float | None = None  # what runs are asked for that do not say it themselves
    _bounded: Bounded | None = None  # what keeps the process within max_memory
    _components: dict[str, Any]
    held: Callable[[str], Any]
    _unloaded: dict[str, ComponentSpec]

    def accelerate(
        self,
        level: str = EXACT,
        components: Iterable[str] | str | None = None,
        *,
        bound: float | None = None,
        engine: str = OWN_ENGINE,
        max_memory: int | str | None = None,
    ) -> Self:
        """Compute the models (or the named ones) by Lockstep's own kernels; "off" goes back.

        "exact" gives the same numbers up to fp32's rounding; `pipe.unet.acceleration` says how exact each was found.
        "high" multiplies in bf16 where the processor does so natively, layer by layer as far as `bound` allows: the
        relative L2 of a model's result to that in fp32, measured on the model. "fast" does so, too, and
        leaves out calls of the denoiser whose result can be foretold: `bound` is the relative error that one may bring
        into the latents. Another `engine` ("inductor", "openvino", "onnxruntime", or "auto" for the fastest) computes
        models whose graphs it can have; the others are as they were. Models that this pipeline itself loads later (by
        `load_components`, or when one is first used) are accelerated then; one that you put into it (`pipe.unet = …`)
        is as you give it. Anything but fp32 on the processor stays with torch.

        `max_memory` (bytes, or as "6GB") is the most that the process may hold, with "exact" or "fast": weights that a
        file holds leave memory once they are prepared, transformed ones are kept as far as there is room, and models
        that are not in use let go of what they have.
        """
        if level not in LEVELS:
            raise UnknownNameError("level of acceleration", level, LEVELS)
        if level not in (HIGH, FAST) and bound is not None:
            raise InputError(f"'bound' is for the levels {HIGH!r} and {FAST!r}; {level!r} gives up nothing.")
        if level == FAST and components is not None:
            raise InputError(f"{FAST!r} is about the whole run; for some of the models alone there is 'exact'.")
        able = {name: model for name, model in self._components.items() if isinstance(model, Accelerated)}
        names = list(able) if components is None else _names(components)
        for name in names:
            if name not in able:
                raise UnknownNameError("component that can be accelerated", name, able)
        checked = None if bound is None else checked_bound(bound)
        self._bind(max_memory, level, components, engine)
        of_models, of_model = self._level_of_models(level), checked if level == HIGH else None
        for name in names:
            self._accelerate(able[name], of_models, of_model, engine, named=components is not None)
        if components is None:
            self._level, self._bound_of_models = None if of_models == OFF else of_models, of_model
            self._engine = engine
            self._foretell = None if level != FAST else BOUND if checked is None else checked
        if self._bounded is not None:
            self._bounded.share()
        return self

    def _bind(self, max_memory: int | str | None, level: str, components: Iterable[str] | None, engine: str) -> None:
        """Bound the memory of the process from now on, or no more."""
        if max_memory is None:
            self._bounded = None
            return
        if level not in (EXACT, FAST) or components is not None or engine != OWN_ENGINE:
            raise InputError(
                f"'max_memory' is for all models of a pipeline by our own kernels, at {EXACT!r} or {FAST!r}."
            )
        bounded = Bounded(parse_size(max_memory, "'max_memory'"), self._components)
        bounded.check()
        self._bounded = bounded
        memory.give_back_freed_memory()  # for the whole process, whose memory this is about

    def _level_of_models(self, level: str) -> str:
        """What a model itself can do for a level; "fast" goes without the kernels where there are none."""
        if level != FAST:
            return level
        missing = accelerated.why_not()
        if missing is not None:
            say_once(
                f"There are no kernels of our own here ({missing}): 'fast' leaves out calls of the denoiser alone."
            )
        if missing is not None:
            return OFF
        if self._bounded is not None:
            return EXACT  # to choose layers for bf16 takes memory
        return HIGH if accelerated.why_not_high() is None else EXACT

    @property
    def speed_defaults(self) -> dict[str, float]:
        """Arguments that the level of acceleration suggests for calls that do not give them."""
        return {} if self._foretell is None else {"foretell": self._foretell}

    def peak_memory(self) -> int:
        """The most memory that this process has taken so far, in bytes; 0 where the system does not say."""
        return max(memory.peak(), 0 if self._bounded is None else self._bounded.peak)

    def accelerated(self) -> dict[str, str]:
        """Component -> level (with bound or engine: `high=0.02`, `exact@openvino`), for those that are accelerated.

        A model none of whose layers our kernels take (its weights are bf16, say) is as torch computes it.
        """
        found = ((name, getattr(model, "acceleration", None)) for name, model in self._components.items())
        return {name: one.name for name, one in found if one is not None and getattr(one, "layers", None) != 0}

    def kernels_used(self) -> str | None:
        """The instructions of our own kernels, which decide the last bits, where these compute a model."""
        told = (getattr(model, "acceleration", None) for model in self._components.values())
        return accelerated.instructions() if any(getattr(one, "layers", None) for one in told) else None

    def _speed_up(self, model: Any) -> None:
        if self._level is not None and isinstance(model, Accelerated):
            if self._bounded is not None:
                self._bounded.check()
            self._accelerate(model, self._level, self._bound_of_models, self._engine)
            if self._bounded is not None:
                self._bounded.share()

    def _accelerate(
        self, model: Accelerated, level: str, bound: float | None, engine: str, named: bool = False
    ) -> None:
        """A model that an engine cannot have goes by our own kernels, unless it was asked for by its name."""
        example = text_call_of(model, self._held_if_any) if level == HIGH else None
        try:
            frugal = level != OFF and self._bounded is not None
            model.accelerate(level, bound=bound, example=example, engine=engine, frugal=frugal)
            self._tell(model)
        except (BackendError, UnsupportedError) as problem:
            if engine == OWN_ENGINE or named:
                raise
            say_once(f"{problem} Our own kernels compute it.")
            model.accelerate(level, bound=bound, example=example)

    def _tell(self, model: Accelerated) -> None:
        """Say it where nothing has become faster."""
        dtype = next((one.dtype for one in model.parameters()), torch.float32)
        if getattr(model.acceleration, "layers", None) == 0 and dtype != torch.float32:
            told = str(dtype).removeprefix("torch.")
            say_once(
                f"Weights are {told}, and our own kernels take fp32: torch computes as before. Load fp32 weights "
                "(dtype='float32') for more speed."
            )

    def _held_if_any(self, name: str) -> Any:
        """A component, loaded now if it was not yet; None where there is none of this name."""
        return self.held(name) if name in self._unloaded or name in self._components else None


def _names(components: Any) -> list[str]:
    """One name or several, as they were given."""
    given = [components] if isinstance(components, str) else components
    names = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"'components' wants the name of a component, or several, got {components!r}.")
    return names
