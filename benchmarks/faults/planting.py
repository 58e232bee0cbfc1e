"""Planting a fault: a line of a method written otherwise, a setting or a weight changed. One copy,
never the original."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Fault:
    """One planted change; `causes` are the names that are right, `where` says which nodes are."""

    name: str
    model: str
    plant: Callable[[Any], set[str]]  # changes the copy, returns the paths it changed
    causes: frozenset[str] = frozenset()
    where: tuple[str, ...] = ()  # fnmatch patterns on `path|slot`, for what no module contains
    only: str = ""  # "fp32" for faults that do not exist in bfloat16
    harmless: bool = False
    run: str = ""  # for controls: how the candidate runs instead


def line(cls: type, *swaps: tuple[str, str], method: str = "forward") -> Callable[[Any], set[str]]:
    """Every instance of `cls` gets `method` with each old text replaced by the new one."""

    def plant(target: Any) -> set[str]:
        source = textwrap.dedent(inspect.getsource(getattr(cls, method)))
        for old, new in swaps:
            if old not in source:
                raise ValueError(f"{cls.__name__}.{method} has no text {old!r}")
            source = source.replace(old, new)
        scope: dict[str, Any] = {}
        exec(compile(source, f"<{cls.__name__} planted>", "exec"), sys.modules[cls.__module__].__dict__, scope)
        mutant = type(cls.__name__, (cls,), {method: scope[method]})
        changed = set()
        for path, instance in instances(target):
            if type(instance) is cls:
                instance.__class__ = mutant
                changed.add(path)
        return changed

    return plant


def several(*plants: Callable[[Any], set[str]]) -> Callable[[Any], set[str]]:
    return lambda target: set().union(*(plant(target) for plant in plants))


def setting(cls: type, child: str, name: str, value: Any) -> Callable[[Any], set[str]]:
    """One attribute of `child` (or of the instance itself) in every instance of `cls`."""

    def plant(target: Any) -> set[str]:
        changed = set()
        for path, instance in instances(target):
            if type(instance) is cls:
                part = getattr(instance, child) if child else instance
                setattr(part, name, value)
                changed.add(f"{path}.{child}" if child else path)
        return changed

    return plant


def weight(
    cls: type, child: str, name: str, change: Callable[[torch.Tensor, Any], torch.Tensor]
) -> Callable[[Any], set[str]]:
    """`change(tensor, instance)` becomes the weight of `child` in every instance of `cls`."""

    def plant(target: Any) -> set[str]:
        changed = set()
        for path, instance in instances(target):
            if type(instance) is cls:
                part = getattr(instance, child) if child else instance
                old = getattr(part, name)
                setattr(part, name, nn.Parameter(change(old.detach(), instance).clone().to(old.dtype)))
                changed.add(f"{path}.{child}" if child else path)
        return changed

    return plant


def instances(target: Any) -> Iterator[tuple[str, Any]]:
    """Everything that a fault can be in, by the path that a trace gives it."""
    if isinstance(target, nn.Module):
        for path, module in target.named_modules():
            yield (f"model.{path}" if path else "model"), module
        return
    yield "@pipeline", target
    for name, part in list(vars(target).items()):
        if isinstance(part, nn.Module):
            for path, module in part.named_modules():
                yield (f"{name}.{path}" if path else name), module
        else:
            yield f"@{name}", part


@dataclass
class Planted:
    """A candidate with its fault."""

    target: Any
    paths: set[str] = field(default_factory=set)
