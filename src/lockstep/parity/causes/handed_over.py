"""What a part is given, put right: the proof that handing over the wrong thing is all that is wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from ..comparison.results import Cause, Comparison, NodeResult, Role, Standing
from ..recording.values import inputs, to_torch
from ..trace.names import Key
from .edits import Edit, ModuleChange
from .failures import noted
from .hypotheses.schedule_change import TableChange
from .observed.transplant import replaced
from .schedules import TABLES

UNITS = (1.0, 1000.0, 0.001)  # in which a model may be told a time
HANDED = "; with the reference's handed over instead, wherever it differs, everything behind it agrees"

Given = dict[tuple[str, str], dict[int, torch.Tensor]]  # by module and slot, and by call


def prove_handed_over(search: Any, comparison: Comparison, cause: Cause) -> bool:
    """True, and told, if with the reference's value handed over wherever it differs the whole run agrees."""
    key = Key.parse(cause.at)
    if key.path.rpartition(".")[2] in TABLES:
        return _prove_schedule(search, comparison, cause)
    given = _right_values(search, comparison, key)
    if not key.is_input or not given:
        return False
    theirs = {n.other.path: n.key.path for n in comparison.nodes if n.other is not None and n.key.is_input}
    changes = [
        _handed(search.modules[path], path, slot, values, _is_joined(search, path, theirs.get(path, "")))
        for (path, slot), values in given.items()
    ]
    # what a part is given is written down before it is put right
    return _agrees(search, cause, changes, lambda n: n.other is not None and (n.other.path, n.other.slot) in given)


def _prove_schedule(search: Any, comparison: Comparison, cause: Cause) -> bool:
    """The reference's tables as the candidate's, all that differ."""
    changes = []
    for node in comparison.nodes:
        part, _, name = node.other.path[1:].rpartition(".") if node.other is not None else ("", "", "")
        entry = search.foreign.get(node.key)
        if node.bad and name in TABLES and part in search.live.parts.schedulers and entry and entry.has_data:
            values = np.asarray(search.foreign.array(entry), np.float64).reshape(-1)
            changes.append(TableChange(part, name, tuple(values.tolist())))
    return bool(changes) and _agrees(search, cause, changes, lambda n: n.key.path.rpartition(".")[2] in TABLES)


def prove_own_schedule(search: Any, comparison: Comparison, cause: Cause) -> bool:
    """True, and told, if with the times that the candidate's models are given as the reference's schedule the whole run
    agrees: the candidate has a schedule of its own, and no table that could be put right."""
    key, changes = Key.parse(cause.at), []
    series = [n for n in comparison.nodes if (n.key.path, n.key.slot, n.key.call) == (key.path, key.slot, 0)]
    entries = [(search.own.get(n.key), search.foreign.get(n.other)) for n in series if n.other is not None]
    if not key.is_input or not entries or not all(x and y and x.has_data and y.has_data for x, y in entries):
        return False
    mine, theirs = (
        np.array([np.asarray(trace.array(pair[side]), np.float64).reshape(-1)[0] for pair in entries])
        for side, trace in enumerate((search.own, search.foreign))
    )
    for part in search.live.parts.schedulers:
        for name in TABLES:
            entry = search.own.get(Key("-", f"@{part}.{name}", "out"))
            table = (
                np.asarray(search.own.array(entry), np.float64).reshape(-1) if entry and entry.has_data else mine[:0]
            )
            for unit in UNITS if len(table) >= len(mine) else ():
                if np.allclose(table[: len(mine)] * unit, mine, rtol=1e-4, atol=1e-6):
                    values = (*(theirs / unit).tolist(), *table[len(mine) :].tolist())
                    changes.append(TableChange(part, name, values))
                    break
    words = "; with these times in the reference's schedule, too, the whole run agrees"
    return bool(changes) and _agrees(search, cause, changes, lambda n: n.key.path.startswith("@"), words=words)


def prove_draws(search: Any, comparison: Comparison, cause: Cause) -> bool:
    """True, and told, if with the reference's random numbers in the place of the candidate's the whole run agrees."""
    drawn = [entry for entry in search.own.entries if entry.key.slot == "rng"]
    number = {entry.key: i for i, entry in enumerate(drawn)}
    right: dict[int, torch.Tensor] = {}
    for node in comparison.nodes:
        entry = search.foreign.get(node.key) if node.other in number else None
        if entry is not None and entry.has_data and node.other is not None:
            right[number[node.other]] = to_torch(search.foreign.array(entry))

    def draw(index: int, tensor: torch.Tensor) -> torch.Tensor:
        value = right.get(index)
        same = value is not None and value.numel() == tensor.numel()
        return value.to(tensor.dtype).reshape(tensor.shape) if value is not None and same else tensor

    return bool(right) and _agrees(search, cause, (), lambda n: False, draw)


def _agrees(
    search: Any, cause: Cause, changes: Iterable[Any], is_written_before: Any, draw: Any = None, words: str = HANDED
) -> bool:
    again = search.whole.compared_again([Edit("put_right", cause.name, tuple(changes))], draw)
    if again is None or not again.nodes:
        return False
    bad = [n for n in again.nodes if n.bad and n.role is not Role.HEALED and not n.key.is_operation]
    if any(not is_written_before(n) for n in bad):
        return False
    cause.standing, cause.evidence["accepted"] = Standing.PROVEN, True
    cause.why = cause.why.removeprefix("cause not proven; this fits the value only: ")
    cause.why += words
    return True


def _right_values(search: Any, comparison: Comparison, key: Key) -> Given:
    """What the reference's parts are given in this slot, for every call where the candidate's get something else.

    Inside of a model only those parts that are given the very tensor that is wrong first: with everything put right
    that comes behind it a run would prove itself.
    """
    given_to = [n for n in comparison.nodes if n.bad and n.other is not None and n.other.is_input]
    given_to = [n for n in given_to if n.other is not None and n.other.path in search.modules]
    places = _given_the_same(search, key, given_to)
    nodes = [node for node in given_to if _place(node) in places]
    seen = _seen_again(search, nodes)
    given: Given = defaultdict(dict)
    for node in nodes:
        entry = search.foreign.get(node.key)
        value = to_torch(search.foreign.array(entry)) if entry.has_data else seen.get(str(node.key))
        if value is not None and node.other is not None:
            number = search.call_number(node.other.path, node.other)
            given[node.other.path, node.other.slot][number] = value
    return given


def _place(node: NodeResult) -> tuple[str, ...]:
    return (node.key.path, node.key.slot, *((node.other.path, node.other.slot) if node.other is not None else ()))


def _given_the_same(search: Any, key: Key, nodes: list[NodeResult]) -> set[tuple[str, ...]]:
    """Models are given it under one name; parts of a model are given the same tensor on either side, in the step where
    it is wrong first."""
    if "." not in key.path:
        return {_place(n) for n in nodes if "." not in n.key.path and _list_of(n.key.slot) == _list_of(key.slot)}
    first = next((node for node in nodes if node.key == key), None)
    now = [node for node in nodes if node.key.step == key.step and first is not None and node.shape == first.shape]
    wanted = [_sketches(search, first)] if first is not None else []
    return {_place(node) for node in now if _sketches(search, node) in wanted}


def _list_of(slot: str) -> str:
    """What is handed over as one list has one name."""
    return re.sub(r"(\.\d+)+$", "", slot)


def _sketches(search: Any, node: NodeResult) -> tuple[bytes, ...]:
    entries = (search.foreign.get(node.key), search.own.get(node.other))
    return tuple(t.sketch(e).tobytes() for t, e in zip((search.foreign, search.own), entries, strict=True) if e)


def _seen_again(search: Any, nodes: list[NodeResult]) -> dict[str, torch.Tensor]:
    """What only sketches were kept of, from one more run of the reference."""
    across = search.across
    if across is None or all(search.foreign.get(node.key).has_data for node in nodes):
        return {}
    wanted = {(n.key.path, across.call_number(n.key.path, n.key)): n.key for n in nodes}
    found: dict[str, torch.Tensor] = {}

    def watched(path: str) -> Any:
        count = iter(range(1 << 30))

        def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            key = wanted.get((path, next(count)))
            value = dict(inputs(module, args, kwargs)).get(key.slot) if key is not None else None
            if value is not None:
                found[str(key)] = value.detach().clone()

        return before

    with ExitStack() as stack, torch.no_grad(), noted(search.log, (), "the reference"):
        for path in {path for path, _ in wanted if path in across.modules}:
            hook = across.modules[path].register_forward_pre_hook(watched(path), with_kwargs=True)
            stack.callback(hook.remove)
        across.live.run(across.own)
    search.log.spent += across.whole.cost
    return found


def _is_joined(search: Any, path: str, theirs: str) -> bool:
    """True if the recorded calls of a part are as many as the reference's: several of one step are one, then."""
    return search.across is not None and len(search._calls(path)) == len(search.across._calls(theirs))


def _handed(module: Any, path: str, slot: str, values: dict[int, torch.Tensor], joined: bool) -> ModuleChange:
    count = iter(range(1 << 30))

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
        value = _of_this_call(values, next(count), dict(inputs(module, args, kwargs)).get(slot), joined)
        return (args, kwargs) if value is None else replaced(module, slot, args, kwargs, value)

    return ModuleChange(path, before, before=True)


def _of_this_call(
    values: dict[int, torch.Tensor], call: int, old: torch.Tensor | None, joined: bool
) -> torch.Tensor | None:
    """What the reference hands over in this call: its own rows of it, where the candidate makes a call for some of the
    reference's rows each."""
    rows = next(iter(values.values())).shape[:1].numel()
    calls = rows // old.shape[0] if joined and old is not None and old.ndim and old.shape[0] else 1
    value = values.get(call // max(1, calls))
    if value is None or old is None or calls <= 1 or value.shape[0] != calls * old.shape[0]:
        return value
    return value.chunk(calls)[call % calls]
