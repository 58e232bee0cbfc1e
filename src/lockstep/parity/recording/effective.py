"""What is really in force: module attributes, configs, code and weights, read from the live objects."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import sys
import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from ..trace.sketch import Stats
from .sketch_torch import Sketcher
from .targets import Target, as_written
from .values import DTYPE_NAMES

_MAX_ITEMS = 64


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON, or None if it is no setting (tensors, modules, open files)."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value).removeprefix("torch.")
    if isinstance(value, (torch.Tensor, nn.Module, np.ndarray)):
        return None
    if depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in list(value)[:_MAX_ITEMS]]
    if depth < 4 and isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in list(value.items())[:_MAX_ITEMS]}
    if callable(value) or hasattr(value, "__dict__"):
        return f"{getattr(value, '__qualname__', None) or type(value).__qualname__}"
    return str(value)[:200]


def attributes(module: nn.Module) -> dict[str, Any]:
    """Effective settings of one module: eps, num_groups, heads, scale, approximate, padding, …"""
    found = {}
    for name, value in vars(module).items():
        if name.startswith("_") or name in ("training", "processor") or isinstance(value, (torch.Tensor, nn.Module)):
            continue  # a processor is code, which has its own hash
        setting = plain(value)
        if setting is not None:
            found[name] = setting
    return found


def code_hash(function: Any) -> str:
    """Hash of what a function does; comments and formatting do not count, constants do."""
    code = getattr(function, "__code__", None)
    digest = hashlib.sha256()

    def feed(part: Any) -> None:
        digest.update(part.co_code)
        for constant in part.co_consts:
            feed(constant) if hasattr(constant, "co_code") else digest.update(repr(constant).encode())
        digest.update(repr((part.co_names, part.co_varnames)).encode())

    if code is None:
        return ""
    feed(code)
    return digest.hexdigest()[:16]


def describe_modules(modules: Mapping[str, nn.Module]) -> dict[str, Any]:
    """Class, settings and code hash per path; the hash of `forward` is taken once per class."""
    hashes: dict[type, str] = {}
    described = {}
    for path, module in modules.items():
        cls = type(module)
        if cls not in hashes:
            hashes[cls] = code_hash(cls.forward)
        described[path] = {"class": cls.__qualname__, "attrs": attributes(module), "code": hashes[cls]}
    return described


def describe_config(value: Any) -> dict[str, Any]:
    config: Any = getattr(value, "config", None)
    if not isinstance(config, Mapping):
        to_dict = getattr(config, "to_dict", None)
        config = to_dict() if callable(to_dict) else {}
    return {str(key): plain(item) for key, item in config.items() if not str(key).startswith("_")}


def describe_scheduler(scheduler: Any) -> dict[str, Any]:
    """Class, config and every plain attribute: state that was not reset shows here."""
    state = {k: plain(v) for k, v in vars(scheduler).items() if not isinstance(v, (torch.Tensor, np.ndarray))}
    state.pop("config", None)
    return {
        "class": type(scheduler).__qualname__,
        "config": describe_config(scheduler),
        "state": {k: v for k, v in state.items() if v is not None},
    }


def describe_host() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "pid": os.getpid(),
    }


def describe_target(target: Target, modules: Mapping[str, nn.Module]) -> dict[str, Any]:
    """Everything of `trace.json` that the objects themselves tell."""
    dtypes = Counter(
        DTYPE_NAMES.get(p.dtype, str(p.dtype))
        for m in target.modules.values()
        for p in m.parameters()
        if p.is_floating_point()
    )
    return {
        "framework": f"torch {torch.__version__}",
        "dtype": dtypes.most_common(1)[0][0] if dtypes else "",
        "dtypes": dict(dtypes),
        "config": {name: describe_config(part) for name, part in {**target.modules, **target.schedulers}.items()},
        "sources": {name: source for name, part in target.modules.items() if (source := weights_source(part))},
        "modules": describe_modules(modules),
        "schedulers": {name: describe_scheduler(s) for name, s in target.schedulers.items()},
        "pipeline": type(target.pipeline).__qualname__ if target.pipeline is not None else "",
        "host": describe_host(),
        "libraries": {
            name: _version(name) for name in ("diffusers", "transformers", "lockstep") if name in sys.modules
        },
    }


def _version(name: str) -> str:
    return str(getattr(sys.modules.get(name), "__version__", ""))


def weights_source(module: nn.Module) -> str:
    """The folder or name that the weights were loaded from, if the object remembers it."""
    config = getattr(module, "config", None)
    inside = config.get("_name_or_path") if isinstance(config, Mapping) else getattr(config, "_name_or_path", None)
    known = [value for value in (getattr(module, "name_or_path", None), inside) if isinstance(value, str) and value]
    return known[0] if known else ""


class Fingerprints:
    """Sketch and moments per parameter, remembered while the tensor lives and stays unchanged."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, int, tuple[np.ndarray, Stats]]] = {}

    def __call__(self, tensor: torch.Tensor, sketcher: Sketcher) -> tuple[np.ndarray, Stats]:
        version = 0 if tensor.is_inference() else tensor._version
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor and known[1:3] == (version, tensor.data_ptr()):
            return known[3]
        measured = sketcher(tensor)
        key = id(tensor)
        self._known[key] = (
            weakref.ref(tensor, lambda _: self._known.pop(key, None)),
            version,
            tensor.data_ptr(),
            measured,
        )
        return measured

    def clear(self) -> None:
        self._known.clear()


FINGERPRINTS = Fingerprints()  # a cache alone: the same tensors give the same numbers with or without it


def weights(target: Target) -> list[tuple[str, torch.Tensor]]:
    """Parameters and buffers by full path, shared ones once."""
    seen: set[int] = set()
    found = []
    for root, module in target.modules.items():
        for path, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if id(tensor) not in seen and not tensor.is_meta:
                seen.add(id(tensor))
                found.append((f"{root}.{as_written(path)}", tensor))
    return found
