"""Record what a model or pipeline computes, without editing it and without changing a bit of it."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from ..errors import RecordError
from ..trace.writer import TraceWriter
from . import effective
from .capture import Adjust, Capture, Keep
from .looping import Loop, RecordingStopped
from .operations import DrawHook, OperationMode
from .patching import watch_attribute, watch_methods
from .running_calls import RunningCalls
from .targets import Target, find_target, is_compiled, takes_time, time_of
from .values import (
    DTYPE_NAMES,
    arguments,
    clean,
    inputs,
    leaves,
    ordered_outputs,
    outputs,
    parameter_names,
    signature_names,
    untraced,
)

Given = TypeVar("Given")
LEVELS = ("module", "module+ops")
# These leave their fused kernel when a child has a hook or a function mode is on, which would change the bits.
FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
SCHEDULER_ARRAYS = ("timesteps", "sigmas")

_ACTIVE: contextvars.ContextVar[Recorder | None] = contextvars.ContextVar("parity_recorder", default=None)


def tap(name: str, tensor: torch.Tensor, step: str | None = None) -> None:
    """Record a value of your own code as `@name`; does nothing while nothing records."""
    recorder = _ACTIVE.get()
    if recorder is not None:
        recorder.tap(name, tensor, step)


class Recorder:
    """A context manager that writes everything `target` computes inside it to `path` (see `docs/trace-format.md`)."""

    def __init__(
        self,
        target: Any,
        path: str | Path,
        *,
        keep: str | Mapping[str, str] = "sketch",
        level: str = "module",
        steps: str | int | Iterable[int] = "all",
        stop_at: str | None = None,
        start_at: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        weights: bool = True,
        side: str = "",
        name: str | None = None,
        draw_hook: DrawHook | None = None,
        adjust: Adjust | None = None,
    ) -> None:
        if level not in LEVELS:
            raise RecordError(f"level must be one of {', '.join(LEVELS)}, got {level!r}")
        self.path = Path(path)
        self.stopped: str | None = None  # where `stop_at` ended the run
        self._target: Target = find_target(target, name)
        self._keep = Keep(keep)
        self._level = level
        self._weights = weights
        self._meta = {"side": side, "inputs": effective.plain(dict(inputs or {})), "level": level}
        self._loop = Loop(steps, stop_at, start_at)
        self._frames = RunningCalls(self._loop)
        self._draw_hook = draw_hook
        self._adjust = adjust
        self._stack = ExitStack()
        self._scheduler_calls: dict[tuple[str, str], int] = {}
        self._returned: list[torch.Tensor] = []  # by a root, last
        self._pipeline_called = False

    def __enter__(self) -> Recorder:
        modules = self._target.named_modules()
        self._writer = TraceWriter(self.path, {**effective.describe_target(self._target, modules), **self._meta})
        self._capture = Capture(self._writer, self._keep, self._loop, self._adjust)
        try:
            if self._weights:
                self._write_weights()
            self._watch_modules(modules)
            for name, scheduler in self._target.schedulers.items():
                self._watch_scheduler(name, scheduler)
            if self._target.pipeline is not None:
                watch_methods(self._stack, self._target.pipeline, {"__call__": self._around_pipeline})
            mode = OperationMode(self._capture, self._frames, self._level == "module+ops", self._draw_hook)
            self._stack.enter_context(mode)
        except BaseException as error:
            self._stack.close()
            self._writer.close(error)
            raise
        self._token = _ACTIVE.set(self)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        _ACTIVE.reset(self._token)
        self._stack.close()
        self._frames.clear()
        self._returned = []
        stopped = isinstance(error, RecordingStopped)
        ranks: dict[str, Any] = getattr(self._target.pipeline, "describe_ranks", dict)()
        if ranks:  # with which its trace is put together with those of the others
            self._writer.meta["ranks"] = ranks
        if stopped:
            self.stopped = str(error)
            self._writer.meta["stopped_at"] = self.stopped
        self._writer.close(None if stopped else error)
        return stopped

    def tap(self, name: str, tensor: torch.Tensor, step: str | None = None) -> None:
        """Record a pipeline value as `@name`."""
        self._record_named(f"@{clean(name.lstrip('@'))}", "out", tensor, step)

    def result(self, value: Given) -> Given:
        """Record what the run gave: as `@result`, where that is something else than what the model itself returned; as
        the pipeline's, where that was run by a method of its own."""
        if self._target.is_paced:
            self._loop.given(None)  # whatever loop there was is over
        if self._target.pipeline is not None and not self._pipeline_called:
            for slot, tensor in outputs(value):
                self._record_named("@pipeline", slot, tensor, full=True)
        tensors = [tensor for _, tensor in leaves(value, "out")]
        known = {id(tensor) for tensor in self._returned}
        if self._target.pipeline is None and not all(id(tensor) in known for tensor in tensors):
            for slot, tensor in outputs(value):
                self._record_named("@result", slot, tensor, full=True)
        return value

    def callback(self, pipeline: Any, index: int, timestep: Any, values: dict[str, Any]) -> dict[str, Any]:
        """Fits `callback_on_step_end`: every tensor that the pipeline hands out is recorded."""
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                self.tap(name, value)
        return values

    def _record_named(self, path: str, slot: str, value: Any, step: str | None = None, full: bool = False) -> None:
        if not self._loop.recording:
            return
        label = step or self._loop.label
        for leaf_slot, tensor in leaves(value, slot):
            self._capture.tensor(
                path, leaf_slot, tensor, step=label, call=self._count(label, path, leaf_slot), full=full
            )

    def _count(self, *key: str) -> int:
        """Values that belong to no module call are numbered one by one."""
        text = ("|".join(key), "")
        number = self._scheduler_calls.get(text, 0)
        self._scheduler_calls[text] = number + 1
        return number

    def _write_weights(self) -> None:
        for path, tensor in effective.weights(self._target):
            if tensor.dtype in DTYPE_NAMES:
                sketch, stats = effective.FINGERPRINTS(tensor, self._capture.sketcher)
                shape = tuple(tensor.shape)
                self._writer.put_measured("-", path, "param", DTYPE_NAMES[tensor.dtype], shape, sketch, stats)

    # Modules

    def _watch_modules(self, modules: Mapping[str, nn.Module]) -> None:
        fused_roots = [path for path, module in modules.items() if isinstance(module, FUSED) and not module.training]
        compiled = [path for path, module in modules.items() if is_compiled(module)]
        fused: dict[str, list[str]] = {}
        unwatched = []
        for path, module in modules.items():
            inside = [root for root in [*fused_roots, *compiled] if path.startswith(f"{root}.")]
            if inside:
                if inside[-1] in compiled:
                    fused.setdefault(inside[0], []).append(path)
                continue
            if path in fused_roots or path in compiled:
                self._watch_fused(path, module)
            elif not self._hook(path, module):
                unwatched.append(path)
        if fused:
            self._writer.meta["fused"] = fused
        if unwatched:
            self._writer.meta["unwatched"] = unwatched
        for root, module in self._target.modules.items():
            for method in ("encode", "decode"):
                if callable(getattr(module, method, None)):
                    watch_attribute(self._stack, module, method, self._around_method(f"{root}.{method}", method))

    def _hook(self, path: str, module: nn.Module) -> bool:
        is_root = path in self._target.modules
        begins_step = is_root and bool(self._target.schedulers) and takes_time(module)
        opaque = _is_opaque(module)
        op = type(module).__name__

        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if begins_step:
                self._loop.model_called()
            elif is_root and self._target.is_paced:
                self._loop.given(time_of(module, args, kwargs))
            frame = self._frames.push(path, opaque, module)
            if self._loop.recording:
                for slot, tensor in inputs(module, args, kwargs):
                    self._capture.tensor(path, slot, tensor, step=frame.step, call=frame.call, op=op, full=is_root)
            if begins_step:
                self._loop.inputs_seen()

        def after(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            frame = self._frames.pop(module)
            if frame is None:
                return
            found = outputs(result)
            if is_root:
                self._returned = [tensor for _, tensor in found]
            for slot, tensor in found if self._loop.recording else ():
                self._capture.tensor(path, slot, tensor, step=frame.step, call=frame.call, op=op)
            self._loop.module_done(path)

        try:
            self._stack.callback(module.register_forward_pre_hook(untraced(before), with_kwargs=True).remove)
            self._stack.callback(module.register_forward_hook(untraced(after), with_kwargs=True).remove)
        except (RuntimeError, AttributeError, TypeError):  # a scripted module takes no hooks
            return False
        return True

    def _watch_fused(self, path: str, module: nn.Module) -> None:
        """A module that runs as one kernel or one compiled graph: what goes in and comes out, and nothing inside."""
        original = module._modules.get("_orig_mod", module)
        op, names = type(original).__name__, parameter_names(original or module)
        is_root = path in self._target.modules
        begins_step = is_root and bool(self._target.schedulers) and takes_time(original or module)

        def around(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if begins_step:
                self._loop.model_called()
            elif is_root and self._target.is_paced:
                self._loop.given(time_of(module, args, kwargs))
            run = _without_modes(original)
            return self._around_call(path, op, names, run, args, kwargs, opaque=True, full=is_root)

        watch_attribute(self._stack, module, "_compiled_call_impl" if _compiles_itself(module) else "forward", around)

    def _around_method(self, path: str, op: str) -> Any:
        def around(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not self._frames.inside_model:
                self._loop.left(self._target.is_paced)
            return self._around_call(path, op, signature_names(original), original, args, kwargs, full=True)

        return around

    def _around_call(
        self, path: str, op: str, names: tuple[str, ...], original: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
        opaque: bool = False, full: bool = False, in_order: bool = False,
    ) -> Any:  # fmt: skip
        owner = object()
        frame = self._frames.push(path, opaque, owner)
        if self._loop.recording:
            for slot, tensor in arguments(names, args, kwargs):
                self._capture.tensor(path, slot, tensor, step=frame.step, call=frame.call, op=op, full=full)
        try:
            result = original(*args, **kwargs)
        finally:
            self._frames.pop(owner)
        found = ordered_outputs(result) if in_order else outputs(result)
        if path.partition(".")[0] in self._target.modules:
            self._returned = [tensor for _, tensor in found]
        for slot, tensor in found if self._loop.recording else ():
            self._capture.tensor(path, slot, tensor, step=frame.step, call=frame.call, op=op, full=full)
        self._loop.module_done(path)
        return result

    # Pipeline and scheduler

    def _around_pipeline(self, instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._pipeline_called = True
        names = signature_names(original)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        self._writer.meta["call"] = {str(key): _describe_argument(value) for key, value in given.items()}
        self._frames.inside_pipeline = True
        try:
            for key, value in given.items():
                for slot, tensor in leaves(value, f"in.{clean(str(key))}"):
                    self._record_named("@pipeline", slot, tensor, full=True)
            result = original(*args, **kwargs)
        finally:
            self._frames.inside_pipeline = False
            self._frames.clear()
        self._loop.left(self._target.is_paced)
        for slot, tensor in outputs(result):
            self._record_named("@pipeline", slot, tensor, full=True)
        return result

    def _watch_scheduler(self, name: str, scheduler: Any) -> None:
        def set_timesteps(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            owner = object()
            self._frames.push(f"@{name}.set_timesteps", True, owner)
            try:
                result = original(*args, **kwargs)
            finally:
                self._frames.pop(owner)
            timesteps = getattr(instance, "timesteps", None)
            self._loop.schedule_set(len(timesteps) if timesteps is not None else None)
            self._write_schedule(name, instance)
            return result

        def scale_model_input(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._loop.model_called()
            names = signature_names(original)
            return self._around_call(f"@{name}.scale_model_input", "scale_model_input", names, original, args, kwargs)

        def step(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._loop.step_begun()
            names = signature_names(original)
            result = self._around_call(f"@{name}.step", "step", names, original, args, kwargs, full=True, in_order=True)
            self._loop.step_done()
            return result

        def add_noise(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            names = signature_names(original)
            return self._around_call(f"@{name}.add_noise", "add_noise", names, original, args, kwargs)

        arounds = {
            "set_timesteps": set_timesteps,
            "scale_model_input": scale_model_input,
            "step": step,
            "add_noise": add_noise,
        }
        watch_methods(self._stack, scheduler, arounds)

    def _write_schedule(self, name: str, scheduler: Any) -> None:
        for array in SCHEDULER_ARRAYS:
            values = getattr(scheduler, array, None)
            if values is not None:
                self._record_named(f"@{name}.{array}", "out", values, full=True)
        self._writer.meta.setdefault("schedules", []).append(effective.describe_scheduler(scheduler))


record = Recorder  # the verb: `with record(model, path): model(x)`


def _is_opaque(module: nn.Module) -> bool:
    """A leaf's operations are its own, except where somebody wrote a leaf without parameters (positions)."""
    if any(True for _ in module.children()):
        return False
    return type(module).__module__.startswith("torch.") or any(True for _ in module.parameters(recurse=False))


def _compiles_itself(module: nn.Module) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


def _without_modes(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    return call


def _describe_argument(value: Any) -> Any:
    """Call arguments in words, so that two runs with other prompts or seeds are told apart."""
    if isinstance(value, torch.Generator):
        return {"generator": str(value.device), "seed": value.initial_seed()}
    if isinstance(value, torch.Tensor):
        return {"tensor": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, (list, tuple)):
        return [_describe_argument(item) for item in value[:64]]
    return effective.plain(value)
