"""How much a reference differs from itself: float64, last-bit perturbation, threads, attention kernels, batch size.

The floor of a value is what a *correct* other implementation may differ by (CESTAC/CADNA, Verificarlo 1509.01347).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from ..errors import FloorError
from ..recording.patching import watch_attribute
from ..recording.recorder import FUSED, record
from ..recording.replay import replay
from ..recording.targets import Target, find_target, is_compiled
from ..recording.values import inputs, map_tensors, to_torch
from ..trace.names import Key
from ..trace.reader import Trace
from ..trace.sketch import sketch_error
from ..trace.times import largest_times
from .file import Floor
from .held_tables import held_tables_moved
from .wide_tables import tables_in_float64

DEFAULT_RUNS = ("fp64", "ulp", "ulp")
KERNELS = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
OTHER_NOISE = 1e-3  # a draw that moves by more than this was not the same draw


def floor(
    target: Any,
    trace: str | Path | Trace,
    *,
    runs: Sequence[str] = DEFAULT_RUNS,
    call: Callable[[], Any] | None = None,
    path: str | Path | None = None,
    name: str | None = None,
) -> Floor:
    """Run the reference again under each variation and write `<trace>.floor`; `call` repeats the recorded run.

    A module needs no `call`: it is run on the inputs that the trace holds. Runs: fp64, ulp, rerun, batch, threads:N,
    sdpa:math|flash|efficient.
    """
    trace = Trace.open(trace)
    parts = find_target(target, name)
    if call is None:
        call = _replay_call(parts, trace)
    result = Floor()
    for number, run in enumerate(runs):
        result.add(run, _errors_of_run(parts, target, trace, run, number, call, name))
    result.save(path or trace.path.with_suffix(".floor"))
    return result


def _replay_call(parts: Target, trace: Trace) -> Callable[[], Any]:
    if parts.pipeline is not None or len(parts.modules) != 1:
        raise FloorError(
            "a pipeline's floor needs call=, a function that repeats the recorded run (with a new generator)"
        )
    (root, module), *_ = parts.modules.items()
    return lambda: replay(trace, module, root)


def _errors_of_run(
    parts: Target, target: Any, trace: Trace, run: str, number: int, call: Callable[[], Any], name: str | None
) -> dict[str, float]:
    variation = _variation(run, number, parts, trace)
    level, stop = trace.meta.get("level", "module"), trace.meta.get("stopped_at")
    with tempfile.TemporaryDirectory(prefix="parity-floor-") as folder:
        again = Path(folder, "run.trace")
        recorder = record(
            target, again, level=level, stop_at=stop, weights=False, name=name,
            draw_hook=variation.draw, adjust=variation.adjust,
        )  # fmt: skip
        with ExitStack() as stack:
            for context in variation.contexts:
                stack.enter_context(context())
            stack.enter_context(recorder)
            recorder.result(call())
        return _errors(trace, Trace.open(again), run)


def _errors(reference: Trace, again: Trace, run: str) -> dict[str, float]:
    found = {}
    for entry in reference.entries:
        other = again.get(entry.key)
        if other is None or other.shape != entry.shape or not entry.is_float:
            continue
        norm = reference.stats(entry).l2
        error = sketch_error(reference.sketch(entry), again.sketch(other), norm)
        if entry.key.slot == "rng" and error > OTHER_NOISE:
            raise FloorError(
                f"run {run!r} drew other random numbers at `{entry.key}`: make the generator (or seed) inside call=, "
                "so that every run repeats the recorded one"
            )
        if error < float("inf"):
            found[str(entry.key)] = error
    if not found:
        raise FloorError(
            f"run {run!r} has no value in common with {reference.path.name}: record and repeat the same thing"
        )
    return found


class _Variation:
    """How one re-run differs from the recorded run."""

    def __init__(self) -> None:
        self.contexts: list[Callable[[], Any]] = []
        self.draw: Callable[[int, torch.Tensor], torch.Tensor] | None = None
        self.adjust: Callable[[Key, torch.Tensor], torch.Tensor] | None = None


def _variation(run: str, number: int, parts: Target, trace: Trace) -> _Variation:
    kind, _, detail = run.partition(":")
    variation = _Variation()
    if kind == "fp64":
        variation.contexts += [
            lambda: in_float64(list(parts.modules.values())),
            lambda: _setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
            lambda: _changed_inputs(parts, lambda x: x.double() if x.is_floating_point() else x),
            _Upcast,
            lambda: tables_in_float64(parts.schedulers.values()),
        ]
        variation.draw = _recorded_draws(trace)
    elif kind == "ulp":
        generator = torch.Generator().manual_seed(number)
        times = largest_times(trace)
        variation.contexts.append(lambda: _changed_inputs(parts, lambda x: x if is_exact(x) else one_ulp(x, generator)))
        variation.contexts.append(lambda: _moved_times(parts, times, generator))
        owners = [*parts.schedulers.values(), *([parts.pipeline] if parts.pipeline is not None else [])]
        variation.contexts.append(lambda: held_tables_moved(owners, parts.modules.values(), generator))
        variation.draw = lambda index, tensor: one_ulp(tensor, generator)
    elif kind == "threads" and detail.isdigit() and int(detail) > 0:
        variation.contexts.append(lambda: _setting(torch.get_num_threads, torch.set_num_threads, int(detail)))
    elif kind == "sdpa" and detail in KERNELS:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        variation.contexts.append(lambda: sdpa_kernel(getattr(SDPBackend, KERNELS[detail])))
    elif kind == "batch":
        variation.contexts.append(lambda: _doubled_batch(parts))
        variation.adjust = _first_half(trace)
    elif run != "rerun":
        raise FloorError(f"unknown run {run!r}; known are fp64, ulp, rerun, batch, threads:N, sdpa:{'|'.join(KERNELS)}")
    return variation


def one_ulp(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every finite, non-zero element one unit in the last place up or down, at random."""
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}.get(tensor.element_size())
    if not tensor.is_floating_point() or integers is None:
        return tensor
    with torch._C.DisableTorchFunction(), torch.no_grad():
        bits = tensor.detach().to("cpu", copy=True).contiguous().view(integers)
        sign = torch.randint(0, 2, bits.shape, generator=generator).mul_(2).sub_(1).to(integers)
        values = tensor.detach().to("cpu").contiguous().to(torch.float64)
        movable = values.isfinite() & (values != 0) & (values.abs() < torch.finfo(tensor.dtype).max)
        return (bits + sign * movable.to(integers)).view(tensor.dtype).to(tensor.device)


@contextmanager
def _moved_times(parts: Target, largest: Mapping[tuple[str, str], float], generator: torch.Generator) -> Iterator[None]:
    """Every time that a model is given, moved by a last bit of the largest one of its loop."""

    def before(root: str) -> Callable[..., tuple[Any, dict[str, Any]]]:
        def moved(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            bounds = {id(x): largest.get((root, slot), 0.0) for slot, x in inputs(module, args, kwargs)}

            def change(x: torch.Tensor) -> torch.Tensor:
                with torch._C.DisableTorchFunction():  # not a draw of the run
                    sign = 2 * int(torch.randint(0, 2, (), generator=generator)) - 1
                bound = bounds.get(id(x), 0.0)
                exact = not bound or is_exact(x)
                return x if exact else x + sign * bound * torch.finfo(x.dtype).eps

            return map_tensors(args, change), map_tensors(kwargs, change)

        return moved

    handles = [
        module.register_forward_pre_hook(before(root), with_kwargs=True, prepend=True)
        for root, module in parts.modules.items()
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def is_exact(tensor: torch.Tensor) -> bool:
    """Whole numbers (in float32 also such over 256): a timestep is what it is, and another library is given the same
    one."""
    if not tensor.is_floating_point() or not tensor.numel():
        return True
    with torch._C.DisableTorchFunction(), torch.no_grad():
        grid = tensor if tensor.dtype in (torch.float16, torch.bfloat16) else tensor * 256
        return bool((grid == grid.round()).all())


def _recorded_draws(trace: Trace) -> Callable[[int, torch.Tensor], torch.Tensor]:
    draws = [entry for entry in trace.entries if entry.key.slot == "rng"]

    def draw(index: int, tensor: torch.Tensor) -> torch.Tensor:
        if index >= len(draws) or draws[index].shape != tuple(tensor.shape):
            raise FloorError(
                f"the run draws random number {index} of shape {tuple(tensor.shape)}, which the trace does not have"
            )
        return to_torch(trace.array(draws[index]), tensor.dtype).to(tensor.device)

    return draw


@contextmanager
def in_float64(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Buffers, and weights that no function mode sees, as float64 for a while; the tensors themselves come back.

    All other weights are raised where they are used (`_Upcast`), one at a time: a model is never in memory twice.
    """
    swapped: list[tuple[torch.Tensor, torch.Tensor]] = []
    seen: set[int] = set()
    try:
        for tensor in [*_buffers(modules), *_weights_of_kernels(modules)]:
            if tensor.is_floating_point() and id(tensor) not in seen:
                seen.add(id(tensor))
                swapped.append((tensor, tensor.data))
                tensor.data = tensor.data.double()
        yield
    finally:
        for tensor, data in swapped:
            tensor.data = data


def _buffers(modules: Iterable[nn.Module]) -> list[torch.Tensor]:
    return [buffer for module in modules for buffer in module.buffers()]


def _weights_of_kernels(modules: Iterable[nn.Module]) -> list[torch.Tensor]:
    """Of modules that run as one kernel or one compiled graph."""
    inner = [part for module in modules for part in module.modules()]
    return [p for part in inner if isinstance(part, FUSED) or is_compiled(part) for p in part.parameters()]


class _Upcast(TorchFunctionMode):
    """Every cast to a smaller float becomes one to float64, and float inputs of any function are float64."""

    _SMALLER = (torch.float32, torch.float16, torch.bfloat16)
    _CASTS = ("float", "half", "bfloat16")
    _DTYPE = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__"):
            found = func(*args, **(kwargs or {}))
            # weights are raised where they are used: a model that asks for their dtype is told what it computes in
            return self._raise(found) if func == self._DTYPE and isinstance(args[0], nn.Parameter) else found
        if name in self._CASTS:
            return args[0].double()
        args = tuple(self._raise(value) for value in args)
        return func(*args, **{key: self._raise(value) for key, value in (kwargs or {}).items()})

    def _raise(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in self._SMALLER:
            return value.double()
        if isinstance(value, torch.dtype) and value in self._SMALLER:
            return torch.float64
        if type(value) in (list, tuple):
            return type(value)(self._raise(item) for item in value)
        return value


@contextmanager
def _setting(read: Callable[[], Any], write: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """A setting of torch for the time of one run."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


@contextmanager
def _changed_inputs(parts: Target, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Every tensor that enters a root module goes through `change`."""

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return map_tensors(args, change), map_tensors(kwargs, change)

    def around(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return original(*map_tensors(args, change), **map_tensors(kwargs, change))

    with ExitStack() as stack:
        for module in parts.modules.values():
            stack.callback(module.register_forward_pre_hook(before, with_kwargs=True, prepend=True).remove)
            for method in ("encode", "decode"):
                if callable(getattr(module, method, None)):
                    watch_attribute(stack, module, method, around)
        yield


@contextmanager
def _doubled_batch(parts: Target) -> Iterator[None]:
    """The batch is padded by a copy of itself: kernels choose other blockings, the first half must not care."""
    sizes: list[int] = []

    def before(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        first = next((t for t in [*args, *kwargs.values()] if isinstance(t, torch.Tensor) and t.ndim), None)
        size = first.shape[0] if first is not None else 0
        sizes.append(size)

        def double(tensor: torch.Tensor) -> torch.Tensor:
            return torch.cat([tensor, tensor]) if tensor.ndim and size and tensor.shape[0] == size else tensor

        return map_tensors(args, double), map_tensors(kwargs, double)

    def after(module: nn.Module, args: tuple[Any, ...], result: Any) -> Any:
        size = sizes.pop()

        def halve(tensor: torch.Tensor) -> torch.Tensor:
            return tensor[:size] if tensor.ndim and size and tensor.shape[0] == 2 * size else tensor

        return _map_outputs(result, halve)

    handles = []
    for module in parts.modules.values():
        handles.append(module.register_forward_pre_hook(before, with_kwargs=True, prepend=True))
        handles.append(module.register_forward_hook(after))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _map_outputs(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Like `map_tensors`, also for result objects with fields, which are changed in place."""
    mapped = map_tensors(value, change)
    if mapped is value and hasattr(value, "__dict__"):
        for name, item in list(vars(value).items()):
            setattr(value, name, map_tensors(item, change))
    return mapped


def _first_half(trace: Trace) -> Callable[[Key, torch.Tensor], torch.Tensor]:
    """Only the rows that the recorded run had are written."""

    def adjust(key: Key, tensor: torch.Tensor) -> torch.Tensor:
        entry = trace.get(key)
        if entry is None or not entry.shape or not tensor.ndim or tuple(tensor.shape) == entry.shape:
            return tensor
        if tensor.shape[0] == 2 * entry.shape[0] and tuple(tensor.shape[1:]) == entry.shape[1:]:
            return tensor[: entry.shape[0]]
        return tensor

    return adjust
