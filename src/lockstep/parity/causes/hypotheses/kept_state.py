"""What a scheduler keeps from one loop to the next: attributes that a new schedule does not put back."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch

from ...recording.patching import watch_methods
from ..edits import Edit
from ..failures import noted

SCHEDULE = "set_timesteps"
MOST = 4  # attributes tried one by one


@dataclass(frozen=True)
class FreshState:
    """Attributes of a scheduler as they were before its first schedule, whenever it is given another one."""

    part: str
    names: tuple[str, ...]


class Begun:
    """The attributes of a scheduler (or of a run's copy of it) before its first schedule."""

    def __init__(self, first: dict[str, Any] | None = None) -> None:
        self.first = first  # before any run, where that is known; else before the first schedule of this one

    def earlier(self, instance: Any) -> dict[str, Any] | None:
        """None at the first schedule."""
        before, self.first = self.first, self.first or copied(vars(instance))
        return before

    def put_back(self, instance: Any, names: tuple[str, ...]) -> None:
        before = self.earlier(instance)
        for name in names if before is not None else ():
            if before is not None and name in before:
                vars(instance)[name] = copy.deepcopy(before[name])
            else:
                vars(instance).pop(name, None)


def kept_state_edits(search: Any) -> Iterator[Edit]:
    """On the candidate's side: what a loop leaves behind, and the next one's schedule does not clear."""
    if not search.turned or search.live.call is None:
        return
    for part, names in _kept(search).items():
        for chosen in [*[(name,) for name in names[:MOST]], *([tuple(names)] if len(names) > 1 else [])]:
            shown = " and ".join(f"`{part}.{name}`" for name in chosen[:3])
            fault = f"{shown} is kept from one loop to the next in the candidate ({SCHEDULE} does not clear it)"
            detail = f"clearing {shown} whenever {SCHEDULE} is called"
            yield Edit("stale_state", detail, (FreshState(part, chosen),), rank=0, fault=fault)  # type: ignore[arg-type]


def _kept(search: Any) -> dict[str, list[str]]:
    """Attributes by scheduler that are neither as they were before the first schedule nor made by a later one."""
    found: dict[str, list[str]] = {}

    def around(part: str) -> Any:
        begun = Begun(search.live.begun.get(part))

        def watched(instance: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            before, left = begun.earlier(instance), dict(vars(instance))
            result = original(*args, **kwargs)
            for name, value in vars(instance).items() if before is not None else ():
                unmade = name in left and value is left[name]
                if unmade and before is not None and not (name in before and same(value, before[name])):
                    known = found.setdefault(part, [])
                    known += [name] if name not in known else []
            return result

        return watched

    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, (), "the run"):
        warnings.simplefilter("ignore")
        for part, scheduler in search.live.parts.schedulers.items():
            watch_methods(stack, scheduler, {SCHEDULE: around(part)})
        search.live.run(search.own)
    search.log.spent += search.whole.cost
    return found


def copied(state: dict[str, Any]) -> dict[str, Any]:
    """What can be copied of a state."""
    found = {}
    for name, value in state.items():
        with suppress(Exception):  # a lock, a handle: nothing that a loop would keep
            found[name] = copy.deepcopy(value)
    return found


def same(a: Any, b: Any) -> bool:
    """Equal all the way down."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
    if type(a) is not type(b):
        return False
    if is_dataclass(a) and not isinstance(a, type):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (bool, int, float, str, bytes, type(None))):
        return bool(a == b)
    return hasattr(a, "tolist") and hasattr(b, "tolist") and bool(a.shape == b.shape) and bool((a == b).all())
