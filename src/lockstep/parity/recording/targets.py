"""What is being recorded: a module, a dict of modules, or any pipeline-like object with modules and a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ..errors import RecordError
from ..trace.names import TIME_NAMES, safe
from .values import parameter_names

COMPILED = "_orig_mod"  # the attribute under which a compiled module keeps what it was made from
MOST_TIMES = 4096  # of one call, where every token has its own


@dataclass
class Target:
    """The parts of an object that can be watched."""

    modules: dict[str, nn.Module] = field(default_factory=dict)  # root path -> module
    schedulers: dict[str, Any] = field(default_factory=dict)
    pipeline: Any = None  # the object itself, if it is called as a whole and is no module

    @property
    def is_paced(self) -> bool:
        """True for a pipeline without a scheduler: only the times that its models are given tell its steps apart."""
        return self.pipeline is not None and not self.schedulers

    def named_modules(self) -> dict[str, nn.Module]:
        """Every module by full path; a shared one keeps its first path."""
        found: dict[str, nn.Module] = {}
        seen: set[int] = set()
        for root, module in self.modules.items():
            for path, child in module.named_modules():
                path = as_written(path)
                if id(child) not in seen and f"{root}.{path}" not in found and (path or root not in found):
                    seen.add(id(child))
                    found[f"{root}.{path}" if path else root] = child
        return found


def as_written(path: str) -> str:
    """A path without the part that `torch.compile` puts around a module, and without signs that mean something else."""
    return safe(".".join(part for part in path.split(".") if part != COMPILED))


def is_compiled(module: nn.Module) -> bool:
    """True for what `torch.compile` or `module.compile()` runs as one graph."""
    return COMPILED in module._modules or getattr(module, "_compiled_call_impl", None) is not None


def takes_time(module: nn.Module) -> bool:
    """True for what is called once or more per step of a denoising loop."""
    return bool(TIME_NAMES & set(parameter_names(module)))


def time_of(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[float, ...] | None:
    """The moments that a model is given, each once; None for what takes none."""
    named = {**dict(zip(parameter_names(module), args, strict=False)), **kwargs}
    given = [named[name] for name in sorted(TIME_NAMES & named.keys())]
    numbers = [float(value) for value in given if isinstance(value, (int, float)) and not isinstance(value, bool)]
    for tensor in (value for value in given if isinstance(value, torch.Tensor)):
        numbers += set(tensor.detach().reshape(-1)[:MOST_TIMES].double().tolist())
    return tuple(sorted(numbers)) or None


def looks_like_scheduler(value: Any) -> bool:
    return callable(getattr(value, "step", None)) and callable(getattr(value, "set_timesteps", None))


def find_target(target: Any, name: str | None = None) -> Target:
    """Take an object apart without calling anything of it but its `components` property."""
    if isinstance(target, nn.Module):
        root = name or "model"
        schedulers = {key: value for key, value in vars(target).items() if looks_like_scheduler(value)}
        return Target({root: target}, schedulers)
    if isinstance(target, Mapping):
        parts, pipeline = dict(target), None
    else:
        parts, pipeline = _components(target), target
    modules = {key: value for key, value in parts.items() if isinstance(value, nn.Module)}
    schedulers = {key: value for key, value in parts.items() if looks_like_scheduler(value)}
    if not modules and not schedulers:
        raise RecordError(
            f"nothing to record in {type(target).__name__}: expected a torch module, a dict of modules, or an object "
            "whose attributes (or `components`) are modules"
        )
    return Target(modules, schedulers, pipeline)


def _components(target: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    declared = getattr(target, "components", None)
    if isinstance(declared, Mapping):
        parts.update(declared)
    for key, value in getattr(target, "__dict__", {}).items():
        if isinstance(value, nn.Module) or looks_like_scheduler(value):
            parts.setdefault(key.lstrip("_"), value)
    return parts
