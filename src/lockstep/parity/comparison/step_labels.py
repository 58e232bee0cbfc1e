"""What a scheduler's step is told of where it stands: an index, a timestep, a sigma are one step in other words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ..trace.container import Array
from ..trace.reader import Entry, Trace
from .align import Pair

NEAR = 1e-5  # relative: a number of a table, in whatever precision
UNITS = {"from 0 to 1000 instead of to 1": 1000.0, "from 0 to 1 instead of to 1000": 0.001}
TABLES = ("timesteps", "sigmas")


def said_otherwise(a: Trace, b: Trace, pairs: list[Pair]) -> tuple[set[int], list[str]]:
    """The numbers of the reference's values that name a step in other words than the candidate's, and what is to be
    said of that. Schedulers of one class mean the same by the same argument."""
    labels: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        path = pair.a.key.path
        if path.startswith("@") and path.endswith(".step") and pair.a.key.is_input and _is_number(pair):
            labels[path, pair.a.key.slot].append(pair)
    units, told = _in_other_units(a, b, pairs)
    dropped = {pair.a.seq for table in units.values() for pair in table}
    for (path, slot), members in labels.items():
        if _class(a, path) == _class(b, members[0].b.key.path):
            continue
        if path.rpartition(".")[0] in units and all(_unit(a, b, pair) for pair in members):
            dropped |= {pair.a.seq for pair in members}
            continue
        mine = set(_meanings(a, path, [_number(a, pair.a) for pair in members]))
        theirs = set(_meanings(b, members[0].b.key.path, [_number(b, pair.b) for pair in members]))
        if mine and theirs and not mine & theirs:
            dropped |= {pair.a.seq for pair in members}
            told.append(
                f"`{path}` {slot} is the {sorted(mine)[0]} of the step in the reference and its {sorted(theirs)[0]} in "
                "the candidate: not compared, what the step makes of it is"
            )
    return dropped, told


def _in_other_units(a: Trace, b: Trace, pairs: list[Pair]) -> tuple[dict[str, list[Pair]], list[str]]:
    """Schedulers that count the same timesteps from 0 to 1 here and to 1000 there; what a model is given of them is
    compared where it is given."""
    units: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        path, other = pair.a.key.path, pair.b.key.path
        is_table = path.startswith("@") and path.endswith(".timesteps")
        if is_table and _class(a, path) != _class(b, other) and _unit(a, b, pair):
            units[path.rpartition(".")[0]].append(pair)
    told = [
        f"`{name}.timesteps` count {_unit(a, b, tables[0])} in the candidate: not compared, what is made of them is"
        for name, tables in units.items()
    ]
    return units, told


def _unit(a: Trace, b: Trace, pair: Pair) -> str:
    """In which other unit the candidate has these numbers; "" where it is none, or they are the same."""
    if not (pair.a.has_data and pair.b.has_data) or math.prod(pair.a.shape) != math.prod(pair.b.shape):
        return ""
    mine, theirs = (np.asarray(t.array(e), np.float64).reshape(-1) for t, e in ((a, pair.a), (b, pair.b)))
    return next((words for words, factor in UNITS.items() if np.allclose(theirs, factor * mine, rtol=NEAR, atol=0)), "")


def _is_number(pair: Pair) -> bool:
    return all(math.prod(entry.shape) == 1 and entry.has_data for entry in (pair.a, pair.b))


def _number(trace: Trace, entry: Entry) -> float:
    return float(np.asarray(trace.array(entry)).reshape(-1)[0])


def _class(trace: Trace, path: str) -> str:
    described = (trace.meta.get("schedulers") or {}).get(path[1:].rpartition(".")[0]) or {}
    return str(described.get("class") or "")


def _meanings(trace: Trace, path: str, numbers: list[float]) -> Iterator[str]:
    """What the numbers of a loop are, by the side's own tables."""
    if numbers == [float(i) for i in range(len(numbers))]:
        yield "index"
    for name in TABLES:
        entries = [e for e in trace.entries if e.key.path == f"{path.rpartition('.')[0]}.{name}" and e.has_data]
        for table in (np.asarray(trace.array(entry), np.float64).reshape(-1) for entry in entries):
            for words, scaled in _scales(name, table):
                if len(table) >= len(numbers) and np.allclose(scaled[: len(numbers)], numbers, rtol=NEAR, atol=NEAR):
                    yield words


def _scales(name: str, table: Array) -> Iterator[tuple[str, Array]]:
    yield name[:-1], table
    if name == "timesteps":  # counted from 0 to 1
        yield "timestep / 1000", table / 1000
