"""`accelerate` on a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import nn

from ..errors import InputError, UnknownNameError, UnsupportedError
from ..notes import say_once

if TYPE_CHECKING:
    from .acceleration import Acceleration
    from .device_speed import DeviceSpeed
    from .driven import Drive
    from .streamed import Streamed

Tensor = torch.Tensor
EXACT, HIGH, OFF = "exact", "high", "off"
OWN_ENGINE, AUTO = "own", "auto"
LEVELS = (EXACT, HIGH, OFF)
OF_A_RUN = "fast"  # a level that a pipeline has, not a model


def why_not() -> str | None:
    """Why there are no kernels of our own here; None where there are."""
    from .. import kernels

    return kernels.why_not()


def instructions() -> str | None:
    """The instructions that our kernels here were compiled for, by their name; None where there are none."""
    from .. import kernels

    own = kernels.library()
    return None if own is None else own.name


def why_not_high() -> str | None:
    """Why "high" can do no more than "exact" here; None where it can."""
    from .. import kernels

    own = kernels.library()
    if own is None:
        return kernels.why_not()
    return None if own.bf16 else "the processor, or the kernels that were compiled here, do not multiply bf16"


def checked_bound(bound: float) -> float:
    """A bound on a relative error."""
    if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not 0 < bound <= 1:
        raise InputError(f"'bound' wants a number above 0 and at most 1, got {bound!r}.")
    return float(bound)


def checked_level(level: str) -> None:
    """A level that a model itself has."""
    if level not in LEVELS:
        advice = f"{OF_A_RUN!r} is about a whole run: pipe.accelerate({OF_A_RUN!r})." if level == OF_A_RUN else ""
        raise UnknownNameError("level of acceleration", level, LEVELS, advice)


def check_frugal(frugal: bool, level: str, engine: str, device: str) -> None:
    """Refuse what a model that takes little memory cannot be."""
    if not isinstance(frugal, bool):
        raise InputError(f"'frugal' wants True or False, got {frugal!r}.")
    if frugal and level == OFF:
        raise InputError(f"'frugal' is about what our own kernels prepare; {OFF!r} has nothing prepared.")
    if frugal and engine != OWN_ENGINE:
        raise InputError(f"'frugal' is about our own kernels; the engine {engine!r} has the memory that it takes.")
    if frugal and device != "cpu":
        raise InputError(f"'frugal' is for models on the processor; on {device} there is stream_blocks().")


class Accelerated(nn.Module):
    """What `ModelMixin` can do about its speed."""

    _acceleration: Acceleration | DeviceSpeed | Drive | None = None
    _streamed: Streamed | None = None

    @property
    def acceleration(self) -> Acceleration | DeviceSpeed | Drive | None:
        """What was accelerated, and how exact it is; as many layers as our kernels compute with the weights of now."""
        told = self._acceleration
        if told is None:
            return None
        from .acceleration import Acceleration, recounted

        return recounted(self, told) if isinstance(told, Acceleration) else told

    @acceleration.setter
    def acceleration(self, told: Acceleration | DeviceSpeed | Drive | None) -> None:
        self._acceleration = told

    def accelerate(
        self,
        level: str = EXACT,
        *,
        bound: float | None = None,
        example: Callable[[Any], Tensor] | None = None,
        engine: str = OWN_ENGINE,
        frugal: bool = False,
        max_memory: int | str | None = None,
    ) -> Self:
        """Compute the layers by Lockstep's own kernels; "off" goes back.

        "exact" gives the same numbers up to fp32's rounding. "high" multiplies in bf16 where the processor does so
        natively, layer by layer as far as `bound` allows: the relative L2 of the model's result to that in fp32,
        measured on a small call of noise, or on `example`, which calls the model it is given and returns a tensor; our
        own kernels at "exact" are not measured by it.

        Names, files, hooks and training stay as they are: where a gradient is recorded, and for other dtypes and
        devices than fp32 on the processor, torch computes as before. Each kind of layer is tried on its own weights
        against fp64 first; `model.acceleration` says what was found.

        Another `engine` ("inductor", "openvino", "onnxruntime") computes the model as one graph for each shape of a
        call, which is compared with torch's result before it is used; "auto" takes the fastest one that passes here.

        On an accelerator torch's compiler has the blocks that repeat, and "high" multiplies in fp8 where the device
        does and `bound` allows.

        `frugal` takes less memory and some more time: a layer prepares its weights when it is first called, those that
        a file holds leave memory then, and convolutions transform theirs while they compute. `max_memory` is the
        pipeline's, and refused here.
        """
        from .examples import checked_example

        checked_level(level)
        if max_memory is not None:
            raise InputError(
                "'max_memory' belongs to a pipeline: pipe.accelerate(max_memory=…). A model has frugal=True."
            )
        if level != HIGH and bound is not None:
            raise InputError(f"'bound' of a model is for the level {HIGH!r}, which {level!r} is not.")
        example = checked_example(example)
        most = None if bound is None else checked_bound(bound)
        device = next((one.device.type for one in self.parameters()), "cpu")
        check_frugal(frugal, level, engine, device)
        self._change(lambda: self._by(engine, level, most, example, frugal, device), off=level == OFF)
        return self

    def _change(self, make: Callable[[], Acceleration | DeviceSpeed | Drive], off: bool) -> None:
        """Take another level; what fails halfway leaves the model as it was (on an accelerator: as torch computes)."""
        from . import acceleration, device_speed

        compiled = isinstance(self.acceleration, device_speed.DeviceSpeed)
        before, told = acceleration.state_of(self), self.acceleration
        try:
            self._undo()
            self.acceleration = None if off else make()
        except BaseException:
            self._undo()
            if not compiled:
                acceleration.put_back(before)
                self.acceleration = told
            raise

    def _by(
        self,
        engine: str,
        level: str,
        bound: float | None,
        example: Callable[[Any], Tensor] | None,
        frugal: bool,
        device: str,
    ) -> Acceleration | DeviceSpeed | Drive:
        from . import acceleration

        chosen = self._tuned(level, bound, example) if engine == AUTO else engine
        if chosen == OWN_ENGINE and device != "cpu":
            return self._on_device(level, bound, example)
        if chosen != OWN_ENGINE:
            return self._driven(chosen, level, bound, example)
        if level == EXACT:
            return acceleration.make_fast(self, EXACT, frugal=frugal)
        return self._high(bound, example, frugal)

    def _undo(self) -> None:
        """As torch computes it."""
        from . import acceleration, device_speed, driven

        driven.undrive(self)
        acceleration.make_plain(self)
        if isinstance(self.acceleration, device_speed.DeviceSpeed):
            device_speed.slow_down(self)
        self.acceleration = None

    def _on_device(self, level: str, bound: float | None, example: Callable[[Any], Tensor] | None) -> DeviceSpeed:
        from .bf16_layers import BOUND
        from .device_speed import speed_up
        from .examples import example_call

        return speed_up(self, level, example or example_call(self), BOUND if bound is None else bound)

    def stream_blocks(self, device: str | torch.device | None) -> Self:
        """Compute on a device with the weights of blocks that repeat in main memory; None goes back.

        The next block is copied while one computes, where the device can do both.
        """
        from .modeling import resolve_device
        from .streamed import Streamed

        target = None if device is None else resolve_device(device)
        if self._streamed is not None:
            self._streamed.stop()
            self._streamed = None
        if target is not None:
            self._streamed = Streamed(self, target)
        return self

    def _example(self, example: Callable[[Any], Tensor] | None) -> Callable[[Any], Tensor]:
        from .examples import example_call

        call = example or example_call(self)
        if call is None:
            name = type(self).__name__
            raise UnsupportedError(f"An engine for {name} wants a call to measure it by: example=lambda model: …")
        return call

    def _tuned(self, level: str, bound: float | None, example: Callable[[Any], Tensor] | None) -> str:
        from .tuning import tune

        found = tune(self, level, self._example(example), bound)
        say_once(f"{type(self).__name__}: {found}.")
        return found.engine

    def _driven(self, engine: str, level: str, bound: float | None, example: Callable[[Any], Tensor] | None) -> Drive:
        from . import driven
        from .engines import ENGINES

        if engine not in ENGINES:
            raise UnknownNameError("engine", engine, [OWN_ENGINE, *ENGINES, AUTO])
        return driven.drive(self, ENGINES[engine], level, self._example(example), bound)

    def _high(self, bound: float | None, example: Callable[[Any], Tensor] | None, frugal: bool) -> Acceleration:
        """As "exact" with a line that says why, where there is nothing to gain or nothing to measure by."""
        from . import acceleration
        from .bf16_layers import BOUND
        from .examples import TextCall, example_call

        most = BOUND if bound is None else bound
        call, weight = example or example_call(self), next(self.parameters())
        reason = why_not_high()
        if reason is None and (weight.dtype, weight.device.type) != (torch.float32, "cpu"):
            reason = f"its weights are {weight.dtype} on {weight.device.type}, not fp32 on the processor"
        if reason is None and call is None:
            reason = "nothing to measure it by; give a call of the model: accelerate('high', example=lambda model: …)"
        if reason is not None:
            say_once(f"{type(self).__name__} is accelerated as 'exact', not as 'high': {reason}.")
            return acceleration.make_fast(self, EXACT, frugal=frugal)
        known = example is None or isinstance(example, TextCall)
        return acceleration.make_fast(self, HIGH, call, most, frugal, remember=known)
