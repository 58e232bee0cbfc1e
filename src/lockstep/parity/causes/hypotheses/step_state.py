"""What a scheduler remembers from one step of the loop to the next, where both sides keep it under the same name."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch

from ...comparison.results import Comparison
from ...recording.values import leaves
from ..edits import Edit
from ..failures import noted
from ..observed.own_values import made_values
from ..observed.variables import attribute_of, names_of
from .step_changes import MOST_PLACES, STEP, AtPlace, StateHanded, watch_places

NEAR = 1e-4  # relative: one value, whatever rounding both sides have had until then
MOST = 4  # attributes
NAME = "remembered_value"


def step_state_edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    """On the candidate's side: attributes that are not what the reference's scheduler keeps at the same place, though
    every step until then gave the right thing."""
    if not search.turned or search.across is None or search.live.call is None:
        return
    mine, theirs = _states(search), _states(search.across)
    pairs = [(part, part) for part in sorted(mine.keys() & theirs.keys())]
    if len(mine) == len(theirs) == 1:
        pairs = list(zip(mine, theirs, strict=True))
    for part, other in pairs:
        methods = _as_often(mine[part], theirs[other])
        places = [[p for p in all_ if p.method in (*methods, STEP)] for all_ in (mine[part], theirs[other])]
        if len(places[0]) == len(places[1]):
            yield from _of_part(search, part, places[0], places[1], methods)


def _as_often(mine: list[_Place], theirs: list[_Place]) -> frozenset[str]:
    """Methods that both sides call in the same order; none where only the steps are the same."""
    counts = [Counter(place.method for place in places) for places in (mine, theirs)]
    common = {name for name in counts[0].keys() & counts[1].keys() if counts[0][name] == counts[1][name]}
    rows = [[p.method for p in places if p.method in common] for places in (mine, theirs)]
    return frozenset(common - {STEP}) if rows[0] == rows[1] else frozenset()


@dataclass
class _Place:
    """Where a method of a scheduler begins, or a step ends, with what it gives."""

    method: str
    result: list[torch.Tensor]
    state: dict[str, Any]


def _of_part(
    search: Any, part: str, mine: list[_Place], theirs: list[_Place], methods: frozenset[str]
) -> Iterator[Edit]:
    apart = [i for i, (x, y) in enumerate(zip(mine, theirs, strict=True)) if not alike(x.result, y.result)]
    wrong: dict[str, int] = {}
    for place in range(apart[0] if apart else 0):
        for name in sorted(mine[place].state.keys() & theirs[place].state.keys()):
            if not alike(mine[place].state[name], theirs[place].state[name]):
                wrong.setdefault(name, place)
    names = sorted(wrong, key=lambda name: wrong[name])[:MOST]
    for chosen in [*[(name,) for name in names], *([tuple(names)] if len(names) > 1 else [])]:
        handed = tuple(StateHanded(part, name, tuple(p.state.get(name) for p in theirs), methods) for name in chosen)
        first = min(chosen, key=lambda name: wrong[name])
        until = apart[0] if apart else len(mine)
        states = [(x.state[first], y.state[first]) for x, y in zip(mine[:until], theirs, strict=False)]
        said = _words(search, part, first, *_most_telling([pair for pair in states if not alike(*pair)]))
        if said is None:
            continue
        fault, fix, line = said
        others = "".join(f", and so `{part}.{name}`" for name in chosen if name != first)
        with_it = "with what the reference's keeps there, that"
        yield Edit(NAME, with_it, handed, rank=0, fault=fault + others, line=line, fix=fix)  # type: ignore[arg-type]


def _most_telling(pairs: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The first place where both sides hold a tensor there; else the first."""
    held = (pair for pair in pairs if all(isinstance(v, torch.Tensor) for v in _first_apart(*pair)[1:]))
    return next(held, pairs[0])


def _words(search: Any, part: str, name: str, wrong: Any, right: Any) -> tuple[str, str, str] | None:
    """What it is and what belongs there, by the names that the candidate's code has for both; None for a tensor that
    the candidate never makes: then it is made otherwise, not remembered otherwise."""
    place, wrong, right = _first_apart(wrong, right)
    made = made_values(search, (wrong, right))
    if isinstance(right, torch.Tensor) and made[1] is None:
        return None
    told = names_of(search, made[0], made[1], attribute_of(search.live.parts.schedulers[part], STEP, name))
    shown = [w if v is not None else _shown(x) for w, v, x in zip(told.words, made, (wrong, right), strict=True)]
    kept, at = f"`{part}.{name}{place}`", f"in the port at {told.line}" if told.line else "in the port"
    fault = f"what is remembered as {kept} is {shown[0]} and not {shown[1]} in the candidate"
    return fault, f"{at}: {shown[1]} belongs there as {kept}, not {shown[0]}", told.line


def _shown(value: Any) -> str:
    return "another tensor" if isinstance(value, torch.Tensor) else f"`{value!r}`"


def _first_apart(a: Any, b: Any) -> tuple[str, Any, Any]:
    """Inside of a list the last entry that differs: it is the newest."""
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i in reversed(range(len(a))):
            if not alike(a[i], b[i]):
                return f"[{i}]", a[i], b[i]
    return "", a, b


def _states(search: Any) -> dict[str, list[_Place]]:
    """The attributes of schedulers wherever one of their methods begins, and after each step."""
    found: dict[str, list[_Place]] = {}
    kept: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def noting(part: str) -> AtPlace:
        def note(instance: Any, method: str, result: Any) -> None:
            with torch._C.DisableTorchFunction():
                given = [value.clone() for _, value in leaves(result, "out") if isinstance(value, torch.Tensor)]
                places = found.setdefault(part, [])
                if len(places) < MOST_PLACES:
                    places.append(_Place(method, given, {k: _kept(v, kept) for k, v in vars(instance).items()}))

        return note

    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, (), "the run"):
        warnings.simplefilter("ignore")
        for part, scheduler in search.live.parts.schedulers.items():
            watch_places(stack, scheduler, noting(part))
        search.live.run(search.own)
    search.log.spent += search.whole.cost
    return found


def _kept(value: Any, known: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]]) -> Any:
    """A copy of what may be written into later; one for all places where it is the same."""
    if isinstance(value, torch.Tensor):
        key = (id(value), 0 if value.is_inference() else int(value._version))
        return known.setdefault(key, (value, value.detach().clone()))[1]
    if type(value) in (list, tuple):
        return type(value)(_kept(item, known) for item in value)
    return value if isinstance(value, (bool, int, float, str, type(None))) else None


def alike(a: Any, b: Any) -> bool:
    """Equal but for rounding, all the way down."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or not (a.is_floating_point() and b.is_floating_point()):
            return a.shape == b.shape and bool((a == b).all())
        x, y = a.double(), b.double()
        return bool((x - y).norm() <= NEAR * max(float(x.norm()), float(y.norm()))) or torch.equal(x, y)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b or abs(a - b) <= NEAR * max(abs(a), abs(b))
    if a is None or b is None or isinstance(a, (str, torch.Tensor)) or isinstance(b, torch.Tensor):
        return a is b or (isinstance(a, str) and bool(a == b))
    return True
