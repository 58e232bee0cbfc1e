"""Attributes of a pipeline's parts that differ when the run gets there: a count that goes on, a cache that is kept."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ...comparison.results import Comparison
from ...recording.targets import Target
from ..edits import Edit
from ..failures import noted

MOST_LOOKED = 200  # attributes


@dataclass(frozen=True)
class StateChange:
    """One attribute of one part, set when a model is called for the n-th time in the run."""

    part: str
    name: str
    visit: int
    value: Any


def state_edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    """Attributes that are not what the other side has when the first bad value comes to be, though they were once."""
    other, first = search.other, comparison.first
    if other is None or first is None or search.live.parts.pipeline is None or other.parts.pipeline is None:
        return
    here = _calls_before(search, first.other if search.turned else first.key)
    if not here:
        return
    mine, theirs = _visits(search.live, search), _visits(other, search)
    last = min(here, len(mine), len(theirs)) - 1
    if last < 0:  # nothing is kept beside the models
        return
    for key in [k for k in mine[last] if k in theirs[last]][:MOST_LOOKED]:
        differ = [mine[v].get(key) != theirs[v].get(key) for v in range(last + 1)]
        if differ[-1] and not differ[0]:  # what differs from the very begin was there before the run
            visit = max(v for v in range(last + 1) if not differ[v]) + 1
            yield _edit(key, visit, mine[visit][key], theirs[visit][key])


def _calls_before(search: Any, key: Any) -> int:
    """How often a model was called before a value came to be."""
    entry = search.own.get(key) if key is not None else None
    roots = search.live.parts.modules
    begun = {e.key.node for e in search.own.entries if entry is not None and e.key.path in roots and e.seq <= entry.seq}
    return len(begun)


def _edit(key: tuple[str, str], visit: int, before: Any, value: Any) -> Edit:
    part, name = key
    words = f"`{part}.{name}` is {value!r} instead of {before!r} at the {_nth(visit)} call of a model"
    cause = "guider_state" if "guid" in part.lower() else "stale_state"
    return Edit(cause, words, (StateChange(part, name, visit, value),), rank=0)  # type: ignore[arg-type]


def _nth(index: int) -> str:
    number = index + 1
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def keeping_parts(parts: Target) -> dict[str, Any]:
    """What may keep something from run to run: schedulers, and all that a pipeline holds beside its models."""
    return {**parts.schedulers, **held_parts(parts.pipeline)}


def parts_of(live: Any) -> dict[str, Any]:
    return held_parts(live.parts.pipeline)


def held_parts(pipeline: Any) -> dict[str, Any]:
    """What a pipeline holds beside its models: schedulers, guiders, helpers."""
    held = vars(pipeline) if hasattr(pipeline, "__dict__") else {}
    plain = (bool, int, float, str, bytes, list, tuple, dict, set, type(None), torch.Tensor, type)
    return {
        name.lstrip("_"): part
        for name, part in held.items()
        if not isinstance(part, (nn.Module, *plain)) and hasattr(part, "__dict__")
    }


def _visits(live: Any, search: Any) -> list[dict[tuple[str, str], Any]]:
    """The plain attributes of every part at each call of a model."""
    found: list[dict[tuple[str, str], Any]] = []
    parts = parts_of(live)
    if not parts:
        return found

    def before(module: nn.Module, args: Any) -> None:
        found.append(
            {
                (name, key): value
                for name, part in parts.items()
                for key, value in vars(part).items()
                if isinstance(value, (bool, int, float, str))
            }
        )

    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, (), "the run"):
        warnings.simplefilter("ignore")
        for module in live.parts.modules.values():
            stack.callback(module.register_forward_pre_hook(before).remove)
        live.call()
    search.log.spent += search.whole.cost
    return found


@contextmanager
def states_in_force(live: Any, changes: list[StateChange]) -> Iterator[None]:
    """Each attribute is set once, when its call comes."""
    if not changes:
        yield
        return
    parts, visits = parts_of(live), iter(range(1 << 30))

    def before(module: nn.Module, args: Any) -> None:
        visit = next(visits)
        for change in changes:
            if change.visit == visit and change.part in parts:
                setattr(parts[change.part], change.name, change.value)

    with ExitStack() as stack:
        for module in live.parts.modules.values():
            stack.callback(module.register_forward_pre_hook(before).remove)
        yield
