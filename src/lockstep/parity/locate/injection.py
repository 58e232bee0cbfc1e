"""Teacher forcing: give a module or a step the reference's values, so that what remains is its own error.

An injection that leaves a consumed value neither injected nor proven equal says nothing, and is refused.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import nn

from ..comparison.priors import UNKNOWN_LENGTH, prior
from ..errors import TeacherForcingError
from ..recording.looping import Loop
from ..recording.patching import watch_methods
from ..recording.sketch_torch import Sketcher
from ..recording.targets import find_target, takes_time, time_of
from ..recording.values import DTYPE_NAMES, arguments, leaves, parameter_names, signature_names, to_torch
from ..trace.names import NO_STEP, Key
from ..trace.reader import Trace
from ..trace.sketch import sketch_error

POSTLOOP = "post_loop"


@dataclass(frozen=True)
class Injected:
    """One value that was replaced (or proven equal), and how far the candidate's own was from it."""

    key: Key
    error: float
    proven_equal: bool = False


def inject(
    target: Any,
    trace: str | Path | Trace,
    at: str,
    *,
    what: str = "inputs",
    require_closure: bool = True,
    name: str | None = None,
    map: dict[str, str] | None = None,
) -> Injection:
    """Inside it, `target` runs on the reference's values `at` a module path, 'denoise:02', 'denoise:*' or 'post_loop'.

    `what="outputs"` replaces what a module returns instead of what it is given. `map` takes the target's paths to the
    trace's where they differ.
    """
    if what not in ("inputs", "outputs"):
        raise TeacherForcingError(f'what must be "inputs" or "outputs", got {what!r}')
    return Injection(target, Trace.open(trace), at, what, require_closure, name, map or {})


class Injection:
    """One injection; made by `inject`. `values` lists what was replaced."""

    def __init__(
        self,
        target: Any,
        trace: Trace,
        at: str,
        what: str,
        require_closure: bool,
        name: str | None,
        map: dict[str, str],
    ) -> None:
        self.values: list[Injected] = []
        self._target = find_target(target, name)
        self._trace, self._at, self._what, self._strict, self._map = trace, at, what, require_closure, map
        self._loop = Loop()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._stack = ExitStack()
        self._sketcher = Sketcher()
        self._fresh: dict[str, Any] = {}
        self._is_step = ":" in at
        if not self._is_step and at != POSTLOOP:
            self._check_path()

    def _check_path(self) -> None:
        if self._at not in self._target.named_modules():
            raise TeacherForcingError(
                f"nothing called {self._at!r} to inject at; expected a module path, denoise:N or {POSTLOOP}"
            )
        if not self._trace.find(path=self._path(self._at), slot="in*" if self._what == "inputs" else "out*"):
            raise TeacherForcingError(f"{self._trace.path.name} holds no {self._what} of {self._path(self._at)!r}")

    def _path(self, path: str) -> str:
        return self._map.get(path, path)

    def __enter__(self) -> Injection:
        for path, module in self._target.named_modules().items():
            root = path in self._target.modules
            wanted = path == self._at or (self._is_step and root)
            if wanted or root:
                self._watch_module(path, module, wanted)
        for name, scheduler in self._target.schedulers.items():
            self._watch_scheduler(name, scheduler)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._stack.close()
        if error is None and not self.values:
            raise TeacherForcingError(f"nothing was injected: the run never reached {self._at!r}")

    def _watch_module(self, path: str, module: nn.Module, wanted: bool) -> None:
        begins_step = path in self._target.modules and bool(self._target.schedulers) and takes_time(module)
        calls: list[tuple[str, int]] = []

        def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if begins_step:
                self._loop.model_called()
            elif path in self._target.modules and self._target.is_paced:
                self._loop.given(time_of(module, args, kwargs))
            step = self._loop.label
            call = self._calls[step, path]
            self._calls[step, path] += 1
            calls.append((step, call))
            if not wanted or self._what != "inputs" or (self._is_step and not self._step_wanted(step)):
                return None
            return self._replace_arguments(
                Key(step, self._path(path), "in", call), parameter_names(module), args, kwargs
            )

        def after(module: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
            step, call = calls.pop()
            if not wanted or self._what != "outputs" or (self._is_step and not self._step_wanted(step)):
                return None
            return self._replace_result(Key(step, self._path(path), "out", call), result)

        self._stack.callback(module.register_forward_pre_hook(before, with_kwargs=True, prepend=True).remove)
        self._stack.callback(module.register_forward_hook(after).remove)

    def _step_wanted(self, step: str) -> bool:
        return step != NO_STEP and fnmatchcase(step, self._at)

    def _watch_scheduler(self, name: str, scheduler: Any) -> None:
        def set_timesteps(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = original(*args, **kwargs)
            timesteps = getattr(instance, "timesteps", None)
            self._loop.schedule_set(len(timesteps) if timesteps is not None else None)
            self._fresh = dict(vars(instance))
            return result

        def step(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._loop.step_begun()
            label = self._loop.label
            last = self._loop.is_last
            if self._is_step and self._what == "inputs" and self._step_wanted(label):
                self._refuse_carried_state(instance, label)
                key = Key(label, self._path(f"@{name}.step"), "in", 0)
                args, kwargs = self._replace_sample(key, signature_names(original), args, kwargs)
            result = original(*args, **kwargs)
            if self._at == POSTLOOP and last:
                result = self._replace_first(Key(label, self._path(f"@{name}.step"), "out", 0), result)
            self._loop.step_done()
            return result

        def scale_model_input(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._loop.model_called()
            return original(*args, **kwargs)

        arounds = {"set_timesteps": set_timesteps, "step": step, "scale_model_input": scale_model_input}
        watch_methods(self._stack, scheduler, arounds)

    def _refuse_carried_state(self, scheduler: Any, label: str) -> None:
        """Tensors that the scheduler kept from earlier steps are inputs of this step too, and no trace holds them."""
        carried = [
            name
            for name, value in vars(scheduler).items()
            if (value is not self._fresh.get(name) and isinstance(value, torch.Tensor))
            or (isinstance(value, list) and any(isinstance(item, torch.Tensor) for item in value))
        ]
        every_step = self._at.endswith("*")
        if carried and self._strict and not label.endswith(":00") and not every_step:
            raise TeacherForcingError(
                f"at {label} the scheduler holds {', '.join(sorted(carried))} from earlier steps, the trace does not: "
                'inject from the first step on (at="denoise:*"), or pass require_closure=False'
            )

    def _replace_arguments(
        self, key: Key, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = dict(self._match(key, arguments(names, args, kwargs)))
        new_args = tuple(
            substitute(value, f"in.{names[i] if i < len(names) else i}", found) for i, value in enumerate(args)
        )
        return new_args, {name: substitute(value, f"in.{name}", found) for name, value in kwargs.items()}

    def _replace_sample(
        self, key: Key, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Of a step's inputs only the sample comes from before; the model's output is what is being tested."""
        sample = [(s, t) for s, t in arguments(names, args, kwargs) if s == "in.sample"]
        found = dict(self._match(key, sample))
        new_args = tuple(substitute(v, f"in.{names[i]}", found) if i < len(names) else v for i, v in enumerate(args))
        return new_args, {name: substitute(value, f"in.{name}", found) for name, value in kwargs.items()}

    def _replace_result(self, key: Key, result: Any) -> Any:
        found = list(leaves(result, "out"))
        if len(found) == 1:  # a single tensor is called `out`, however wrapped
            own_slot, tensor = found[0]
            replaced = dict(self._match(key, [("out", tensor)]))
            return substitute(result, "out", {own_slot: replaced["out"]} if "out" in replaced else {})
        return substitute(result, "out", dict(self._match(key, found)))

    def _replace_first(self, key: Key, result: Any) -> Any:
        slot, tensor = next(iter(leaves(result, "out")))
        replaced = dict(self._match(key, [("out", tensor)]))
        return substitute(result, "out", {slot: replaced["out"]}) if "out" in replaced else result

    def _match(self, key: Key, found: list[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
        """The reference's values for these slots; raises where the closure has a hole."""
        replaced = []
        for slot, own in found:
            value_key = Key(key.step, key.path, slot, key.call)
            entry = self._trace.get(value_key)
            if entry is None:
                self._hole(f"`{value_key}` is consumed here but is not in {self._trace.path.name}")
                continue
            if entry.shape != tuple(own.shape):
                raise TeacherForcingError(
                    f"`{value_key}` has shape {list(entry.shape)} in the reference, {list(own.shape)} here"
                )
            sketch, _ = self._sketcher(own)
            error = sketch_error(self._trace.sketch(entry), sketch, self._trace.stats(entry).l2)
            if not entry.has_data:
                limit = prior((entry.dtype, DTYPE_NAMES.get(own.dtype, "F32")), UNKNOWN_LENGTH)
                if error > limit:
                    self._hole(f"`{value_key}` differs by {error:.1e} and the reference holds only its sketch")
                self.values.append(Injected(value_key, error, proven_equal=error <= limit))
                continue
            self.values.append(Injected(value_key, error))
            replaced.append((slot, to_torch(self._trace.array(entry), own.dtype).to(own.device)))
        return replaced

    def _hole(self, what: str) -> None:
        if self._strict:
            raise TeacherForcingError(
                f"incomplete injection: {what}; record it with keep full, or pass require_closure=False"
            )


def substitute(value: Any, slot: str, found: dict[str, torch.Tensor]) -> Any:
    """The same nested value with the slots in `found` replaced; result objects keep their type."""
    if slot in found and not isinstance(value, (dict, list)) and type(value) is not tuple:
        new = found[slot]
        return new.item() if isinstance(value, (int, float)) else new
    if isinstance(value, tuple):
        items = [substitute(item, f"{slot}.{i}", found) for i, item in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return [substitute(item, f"{slot}.{i}", found) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in list(value):
            replaced = substitute(value[key], f"{slot}.{key}", found)
            if replaced is not value[key]:
                value[key] = replaced
        return value
    if hasattr(value, "__dataclass_fields__"):
        for field in value.__dataclass_fields__:
            object.__setattr__(value, field, substitute(getattr(value, field), f"{slot}.{field}", found))
    return value
