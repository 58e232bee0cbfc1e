"""Modules that are not run again for the inputs of the recorded run: only what calls them is tried."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn

from ..recording.patching import watch_attribute

MOST_ELEMENTS = 1 << 26  # of all results together
CHANGED = 1e-4  # relative: more than a hypothesis may change of what is right


class Refuted(Exception):
    """A hypothesis changes what both sides have alike."""


class Remembered:
    """Results of modules by what went in: written in the run without changes, read in the others.

    `right` are modules and which of their calls are given the same on both sides: where a hypothesis changes that, it
    is wrong, and the rest need not be run.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        watched: tuple[str, int] | None = None,
        right: frozenset[tuple[str, int]] = frozenset(),
    ) -> None:
        self._modules, self._right = modules, right
        self._arguments: dict[tuple[str, int], list[torch.Tensor]] = {}  # of right calls
        self._watched = watched  # a module and which of its calls: never skipped, since something inside is waited for
        self._given: Any = None  # to that call, in the run without changes
        self._results: dict[Any, Any] = {}
        self._left = MOST_ELEMENTS

    def in_force(self, stack: ExitStack, writing: bool, unchanged: Callable[[], None] | None = None) -> None:
        """`unchanged` is called where the watched call is given what it was given before."""
        if self._modules and (writing or self._results or self._given is not None):
            for path, module in self._modules.items():
                watch_attribute(stack, module, "forward", self._around(path, writing, unchanged))

    def _around(self, path: str, writing: bool, unchanged: Callable[[], None] | None) -> Any:
        calls = iter(range(1 << 30))

        def around(instance: nn.Module, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # without function modes: what is done here is no operation of the model
            with torch._C.DisableTorchFunction():
                key, call = _fingerprint(path, args, kwargs), (path, next(calls))
                watched = call == self._watched
                if watched and writing:
                    self._given = key
                elif watched and unchanged is not None and key is not None and key == self._given:
                    unchanged()
                known = self._results.get(key) if key is not None and not writing and not watched else None
                if known is not None:
                    return known.clone() if isinstance(known, torch.Tensor) else copy.deepcopy(known)
                self._check(call, [*args, *kwargs.values()], writing)
                before = torch.get_rng_state() if writing else None
            result = original(*args, **kwargs)
            if before is not None and key is not None:
                with torch._C.DisableTorchFunction():
                    # neither drawn nor written into what was given: nothing but the result is to be had again
                    quiet = torch.equal(before, torch.get_rng_state()) and key == _fingerprint(path, args, kwargs)
                    self._write(key, result, quiet)
            return result

        return around

    def _check(self, call: tuple[str, int], given: list[Any], writing: bool) -> None:
        if call not in self._right:
            return
        tensors = [value.detach() for value in given if isinstance(value, torch.Tensor)]
        if writing:
            self._arguments[call] = [tensor.clone() for tensor in tensors]
        elif any(_changed(x, y) for x, y in zip(self._arguments.get(call, ()), tensors, strict=False)):
            raise Refuted(f"what goes into `{call[0]}` is right, and would not be with it")

    def _write(self, key: Any, result: Any, quiet: bool) -> None:
        size = _elements(result)
        if quiet and size is not None and size <= self._left:
            self._left -= size
            self._results[key] = copy.deepcopy(result)


def _changed(before: torch.Tensor, after: torch.Tensor) -> bool:
    if before.shape != after.shape:
        return True
    before, after = before.double(), after.double()
    return not bool((after - before).norm() <= CHANGED * before.norm())


def _elements(result: Any) -> int | None:
    """How many numbers a result holds; None for what cannot be kept."""
    if isinstance(result, torch.Tensor):
        return None if result.requires_grad else result.numel()
    if result is None or isinstance(result, (bool, int, float, str)):
        return 0
    parts = result.values() if isinstance(result, dict) else result if isinstance(result, (list, tuple)) else None
    if parts is None and hasattr(result, "__dict__"):
        parts = vars(result).values()
    if parts is None:
        return None
    sizes = [_elements(part) for part in parts]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def _fingerprint(root: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """None if something goes in that cannot be told apart by its bytes."""
    parts: list[Any] = [root]
    for name, value in [*enumerate(args), *sorted(kwargs.items())]:
        part = _part(value)
        if part is None:
            return None
        parts.append((name, part))
    return tuple(parts)


def _part(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        flat = value.detach().to("cpu").reshape(-1).clone(memory_format=torch.contiguous_format)
        data = flat.view(torch.uint8).numpy()  # of an expanded number, too, once it is a copy
        return (str(value.dtype), tuple(value.shape), hashlib.blake2b(data.data, digest_size=16).digest())
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype, torch.device)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        inner = [_part(item) for item in value]
        return None if None in inner else tuple(inner)
    if isinstance(value, dict):
        items = [(key, _part(item)) for key, item in sorted(value.items())]
        return None if any(part is None for _, part in items) else tuple(items)
    return None
