"""Running a module again on what a trace holds."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..errors import TeacherForcingError
from ..trace.names import Key, literal
from ..trace.reader import Entry, Trace
from .values import TORCH_DTYPES, parameter_names, to_torch


def call_entries(trace: Trace, path: str, step: str | None = None, call: int = 0) -> list[Entry]:
    """The recorded inputs of one call; the first step that has it if none is named."""
    found = [e for e in trace.find(path=literal(path), slot="in*") if e.key.call == call]
    if step is None and found:
        step = found[0].key.step
    found = [e for e in found if e.key.step == step]
    if not found:
        raise TeacherForcingError(f"{trace.path.name} has no inputs of `{path}`" + (f" at {step}" if step else ""))
    return found


def recorded_arguments(trace: Trace, entries: list[Entry], dtype: torch.dtype | None = None) -> dict[str, Any]:
    """`in.*` slots back to arguments: nested ones become dicts and lists, 0-d numbers stay tensors."""
    tree: dict[str, Any] = {}
    for entry in entries:
        if not entry.has_data:
            raise TeacherForcingError(
                f"{trace.path.name} holds only the sketch of `{entry.key}`; record it again with "
                f'keep={{"{entry.key.path}": "full"}} to run this node alone'
            )
        value = to_torch(trace.array(entry))
        if entry.dtype in TORCH_DTYPES:
            value = value.to(TORCH_DTYPES[entry.dtype])
        if dtype is not None and value.is_floating_point():
            value = value.to(dtype)
        _put(tree, entry.key.slot.split(".")[1:], value)
    return {name: _lists(value) for name, value in tree.items()}


def _put(tree: dict[str, Any], parts: list[str], value: Any) -> None:
    for part in parts[:-1]:
        tree = tree.setdefault(part, {})
    tree[parts[-1]] = value


def _lists(value: Any) -> Any:
    """{"0": a, "1": b} back to [a, b]."""
    if not isinstance(value, dict):
        return value
    items = {key: _lists(item) for key, item in value.items()}
    if all(key.isdigit() for key in items):
        return [items[key] for key in sorted(items, key=int)]
    return items


def call_module(module: nn.Module, arguments: dict[str, Any]) -> Any:
    """Named arguments by name, numbered ones (`*args`) by position."""
    names = parameter_names(module)
    positional = [arguments[key] for key in sorted((k for k in arguments if k.isdigit()), key=int)]
    named = {key: value for key, value in arguments.items() if not key.isdigit()}
    if positional:
        leading = [named.pop(name) for name in names if name in named]
        positional = leading + positional
    return module(*positional, **named)


def replay(trace: Trace, module: nn.Module, path: str, key: Key | None = None) -> Any:
    """Call `module` with the recorded inputs of `path`."""
    entries = call_entries(trace, path, key.step if key else None, key.call if key else 0)
    with torch.no_grad():
        return call_module(module, recorded_arguments(trace, entries))
