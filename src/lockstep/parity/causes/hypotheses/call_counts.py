"""A call made twice or left out: told by how often each side calls a module or a method of a scheduler."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from torch import nn

from ...trace.reader import Trace
from ..edits import Edit, ModuleChange
from .catalogue import same_as_input
from .frames import again
from .method_calls import MethodChange

OTHER_MODULE = "wrong_module"
_NEVER_LEFT_OUT = ("step", "set_timesteps")


def call_count_edits(search: Any) -> Iterator[Edit]:
    """Every path that the two runs call a different number of times, though what contains it is called as often.

    Those of the same name in alike places (`blocks.*.norm`) are one fault.
    """
    mine, theirs = _counts(search.own), _counts(search.foreign)
    yield from _one_for_another(search, mine, theirs)
    alike: dict[tuple[str, str], list[Edit]] = defaultdict(list)
    for path, count in mine.items():
        other = theirs.get(path, 0)
        if other == count or (not other and not _is_known(path, theirs)):
            continue
        parent = path.rpartition(".")[0]
        if parent in mine and mine[parent] != theirs.get(parent, 0):
            continue
        edit = _edit(search, path, count, other)
        if edit is not None:
            alike[edit.name, re.sub(r"\d+", "*", path)].append(edit)
    for members in alike.values():
        more = f" (in all {len(members)} such places)" if len(members) > 1 else ""
        changes = tuple(change for edit in members for change in edit.changes)
        yield Edit(members[0].name, f"{members[0].detail}{more}", changes, rank=0)


def _one_for_another(search: Any, mine: Counter[str], theirs: Counter[str]) -> Iterator[Edit]:
    """A module that is never called beside one of its kind that is called the more often; wherever it is so."""
    alike: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    never = [path for path in mine if path in search.modules and not theirs.get(path, 0)]
    more = [path for path in mine if path in search.modules and theirs.get(path, 0) > mine[path]]
    for path, other in ((path, other) for path in never for other in more):
        parent = path.rpartition(".")[0]
        as_often = theirs[other] == mine[other] + mine[path] and mine[parent] == theirs.get(parent, 0)
        if as_often and other.rpartition(".")[0] == parent and _is_like(search.modules[path], search.modules[other]):
            alike[path.rpartition(".")[2], other.rpartition(".")[2]].append((path, other))
    for pairs in alike.values():
        places = f" (in all {len(pairs)} such places)" if len(pairs) > 1 else ""
        words = f"`{pairs[0][1]}` is called in the place of `{pairs[0][0]}`{places}"
        yield Edit(OTHER_MODULE, words, tuple(_taking(p, search.modules[other]) for p, other in pairs), rank=0)


def _taking(path: str, module: nn.Module) -> ModuleChange:
    return ModuleChange(path, lambda values, args, kwargs, result: module(*args, **kwargs))


def _is_like(one: nn.Module, other: nn.Module) -> bool:
    shapes = [[(name, p.shape) for name, p in module.named_parameters()] for module in (one, other)]
    return type(one) is type(other) and shapes[0] == shapes[1] != []


def _is_known(path: str, counts: Counter[str]) -> bool:
    """True if the other side has the names of what is around this one: it has no other names for everything."""
    parent = path.rpartition(".")[0]
    return path.startswith("@") or any(other.startswith(f"{parent}.") for other in counts)


def _edit(search: Any, path: str, count: int, other: int) -> Edit | None:
    twice = other > count
    name, words = ("call_twice", "run twice") if twice else ("call_left_out", "left out")
    detail = f"`{path}` {words} ({other} calls instead of {count})"
    if path.startswith("@"):
        part, _, method = path[1:].partition(".")
        if part not in search.live.parts.schedulers or (method in _NEVER_LEFT_OUT):
            return None
        return Edit(name, detail, (MethodChange(part, method, twice),), rank=0)  # type: ignore[arg-type]
    module = search.modules.get(path)
    if module is None or (not twice and other):
        return None
    change = ModuleChange(path, again(module) if twice else same_as_input)
    return Edit("call_twice" if twice else "left_out", detail, (change,), rank=0)


def _counts(trace: Trace) -> Counter[str]:
    counted = [e.key.node for e in trace.entries if "/" not in e.key.path and e.key.slot != "rng"]
    return Counter(path for _, path, _ in dict.fromkeys(counted))
