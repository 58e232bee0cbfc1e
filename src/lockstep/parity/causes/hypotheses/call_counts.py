"""A call made twice or left out: told by how often each side calls a module or a method of a scheduler."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from ...trace.reader import Trace
from ..edits import Edit, ModuleChange
from .catalogue import same_as_input
from .frames import again
from .method_calls import MethodChange

_NEVER_LEFT_OUT = ("step", "set_timesteps")


def call_count_edits(search: Any) -> Iterator[Edit]:
    """Every path that the two runs call a different number of times, though what contains it is called as often.

    Those of the same name in alike places (`blocks.*.norm`) are one fault.
    """
    mine, theirs = _counts(search.own), _counts(search.foreign)
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
