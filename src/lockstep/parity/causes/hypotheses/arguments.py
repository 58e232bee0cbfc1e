"""An argument that a model is not given: told by what goes into the same model on both sides."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from torch import nn

from ...comparison.results import Comparison
from ...recording.values import parameter_names
from ...trace.reader import Trace
from ..edits import Edit, ModuleChange
from ..failures import noted
from ..observed.graph import graph_of, shown_line
from ..pipeline_probe import PIPELINE

NAME = "argument_left_out"


def argument_edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    """On the reference's side: a whole model called without what the candidate does not give it either."""
    if search.turned or search.across is None:
        return
    mine, theirs = _given(search.own), _given(search.foreign)
    names = {n.key.path: n.other.path for n in comparison.nodes if n.other is not None}
    for path, module in search.live.parts.modules.items():
        other = names.get(path, path)
        there = search.across.live.parts.modules.get(other)
        if there is None or not theirs[other]:
            continue
        for name in sorted(mine[path] - theirs[other]):
            if _is_optional(module, name) and _is_optional(there, name):
                line = _line_of(search.across, other)
                at = f"in the port at {line}: " if line else "in the port: "
                words, fix = f"`{other}` is called without `{name}`", f"{at}`{other}` has to be given `{name}`"
                yield Edit(NAME, words, (_without(path, module, name),), rank=0, line=line, fix=fix)


def _given(trace: Trace) -> dict[str, set[str]]:
    """By module the names of what goes in."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in trace.entries:
        if entry.key.is_input and not entry.key.is_operation:
            found[entry.key.path].add(entry.key.slot.split(".")[1])
    return found


def _is_optional(module: nn.Module, name: str) -> bool:
    parameter = inspect.signature(type(module).forward).parameters.get(name)
    return parameter is not None and parameter.default is None


def _without(path: str, module: nn.Module, name: str) -> ModuleChange:
    place = parameter_names(module).index(name)

    def before(values: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        args = tuple(None if i == place else value for i, value in enumerate(args))
        return args, {key: value for key, value in kwargs.items() if key != name}

    return ModuleChange(path, before, before=True)


def _line_of(search: Any, path: str) -> str:
    """Where the code between the models calls one of them first."""
    graph = None
    with noted(search.log, (), PIPELINE):
        graph = graph_of(search, PIPELINE, 0) if search.live.parts.pipeline is not None else None
    calls = (step for step in graph.steps if step.place == path and step.line) if graph is not None else iter(())
    first = next(calls, None)
    return shown_line(first.lines[0]) if first is not None else ""
