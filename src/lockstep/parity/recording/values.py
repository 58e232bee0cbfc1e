"""Nested call arguments and results to flat (slot, tensor) pairs."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

MAX_ITEMS = 256  # of one container; longer ones are data sets, not arguments
MAX_DEPTH = 6
MAX_KEY = 1 << 20

DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


def outputs(value: Any) -> list[tuple[str, torch.Tensor]]:
    """`out` if exactly one tensor came back, however wrapped; else `out.0`, `out.1.0`, `out.sample`, …"""
    found = list(leaves(value, "out"))
    return [("out", found[0][1])] if len(found) == 1 else found


def ordered_outputs(value: Any) -> list[tuple[str, torch.Tensor]]:
    """`out`, `out.1`, … whether a tuple or an object with fields came back."""
    return [(f"out.{i}" if i else "out", tensor) for i, (_, tensor) in enumerate(leaves(value, "out"))]


def inputs(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """`in.<parameter name>` for every tensor and number that goes into `module.forward`."""
    return arguments(parameter_names(module), args, kwargs)


def arguments(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    found: list[tuple[str, torch.Tensor]] = []
    for index, value in enumerate(args):
        found.extend(leaves(value, f"in.{names[index] if index < len(names) else index}"))
    for name, value in kwargs.items():
        found.extend(leaves(value, f"in.{name}"))
    return found


def parameter_names(module: nn.Module) -> tuple[str, ...]:
    """Positional parameters of the class's own `forward`; empty where it takes `*args`."""
    return _forward_names(type(module).forward)


@lru_cache(maxsize=4096)
def _forward_names(forward: Any) -> tuple[str, ...]:
    return signature_names(forward)[1:]  # without self


def signature_names(function: Any) -> tuple[str, ...]:
    """Positional parameter names of a function or bound method."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in parameters if p.kind in positional)


def leaves(value: Any, slot: str, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors, arrays and numbers inside; flags, text and unknown objects are no values."""
    if isinstance(value, torch.Tensor):
        yield slot, value
    elif isinstance(value, bool) or value is None or isinstance(value, (str, bytes)):
        return
    elif isinstance(value, (int, float)):
        yield slot, torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)
    elif isinstance(value, np.ndarray):
        if value.dtype.kind in "fiub" and value.dtype not in (np.uint16, np.uint32, np.uint64):
            yield slot, torch.from_numpy(np.ascontiguousarray(value))
    elif hasattr(type(value), "__array_interface__"):  # a picture
        yield slot, torch.from_numpy(np.array(value))
    elif depth < MAX_DEPTH:
        yield from _container_leaves(value, slot, depth)


def _container_leaves(value: Any, slot: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, Mapping):
        items = [(_key(key, place), item) for place, (key, item) in enumerate(value.items())]
    elif isinstance(value, (list, tuple)):
        items = [(str(index), item) for index, item in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    elif callable(getattr(type(value), "keys", None)) and hasattr(type(value), "__getitem__"):
        items = [(str(key), value[key]) for key in value.keys()]  # noqa: SIM118 - a result object, not a dict
    else:
        return
    if len(items) > MAX_ITEMS:
        return
    for key, item in items:
        yield from leaves(item, f"{slot}.{clean(key)}", depth + 1)


def _key(key: Any, place: int) -> str:
    """A name or a small number as it is; anything else (an address, an object) is another one in every run."""
    named = isinstance(key, str) or (isinstance(key, int) and abs(key) < MAX_KEY)
    return str(key) if named else str(place)


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nested lists, tuples and dicts with every tensor changed; other objects as they are."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)(map_tensors(item, change) for item in value)
    if type(value) is dict:
        return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def with_leaves(value: Any, new: Iterator[Any]) -> Any:
    """The same containers and result objects with each of its `leaves` as the next of `new`."""
    if isinstance(value, torch.Tensor):
        return next(new)
    if type(value) in (list, tuple):
        return type(value)(with_leaves(item, new) for item in value)
    if type(value) is dict:
        return {key: with_leaves(item, new) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = list(value) if isinstance(value, Mapping) else [f.name for f in dataclasses.fields(value)]
        return dataclasses.replace(value, **{name: with_leaves(getattr(value, name), new) for name in names})
    for _ in leaves(value, ""):
        next(new)  # a number or a picture stays as it is
    return value


def clean(text: str) -> str:
    """A key as part of a slot name: no separators, no blanks."""
    return "".join(c if c.isprintable() and c not in "| ." else "_" for c in text) or "_"


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """Little-endian bytes in row-major order."""
    flat = tensor.detach().to("cpu").resolve_conj().resolve_neg().contiguous().reshape(-1)
    flat = flat.as_strided(flat.shape, (1,))  # a single value may have been spread out by `expand`
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def to_torch(array: np.ndarray, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A tensor of its own from a (mapped, read-only) array."""
    tensor = torch.from_numpy(np.array(array))
    return tensor if dtype is None else tensor.to(dtype)


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that a compiler of torch leaves alone, if one is loaded: a graph ends where it is called."""
    if "torch._dynamo" not in sys.modules:
        return function
    disabled: Callable[..., Any] = torch.compiler.disable(function)
    return disabled
