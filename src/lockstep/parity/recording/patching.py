"""Watching methods of an instance without editing its class, and giving everything back afterwards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

Around = Callable[..., Any]  # around(instance, original bound method, args, kwargs) -> result


def watch_methods(stack: ExitStack, instance: Any, arounds: Mapping[str, Around]) -> None:
    """Give the instance a subclass of its class whose methods go through `arounds`.

    A subclass rather than attributes on the instance: a pipeline may copy its scheduler for a run, and the copy
    must be watched too and must not call back into the original.
    """
    original = type(instance)
    methods = {
        name: _wrapped(getattr(original, name), around) for name, around in arounds.items() if hasattr(original, name)
    }
    if not methods:
        return
    naming = {"__module__": original.__module__, "__qualname__": original.__qualname__, "__doc__": original.__doc__}
    try:
        instance.__class__ = type(original.__name__, (original,), {**naming, **methods})
    except TypeError:  # slots or a C class: watch this one instance
        for name, around in arounds.items():
            if hasattr(instance, name):
                watch_attribute(stack, instance, name, around)
        return
    stack.callback(setattr, instance, "__class__", original)


def watch_attribute(stack: ExitStack, instance: Any, name: str, around: Around) -> None:
    """Shadow one method of one instance by an attribute of the instance."""
    bound = getattr(instance, name)
    had = name in vars(instance)

    @functools.wraps(bound)
    def watched(*args: Any, **kwargs: Any) -> Any:
        return around(instance, bound, args, kwargs)

    vars(instance)[name] = watched
    stack.callback(_restore, instance, name, bound, had)


def _restore(instance: Any, name: str, bound: Any, had: bool) -> None:
    if had:
        vars(instance)[name] = bound
    else:
        vars(instance).pop(name, None)


def _wrapped(function: Any, around: Around) -> Any:
    @functools.wraps(function)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(self, functools.partial(function, self), args, kwargs)

    return watched
