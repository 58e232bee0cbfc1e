"""A schedule in the candidate's own code that is not the reference's: found by its numbers, proven by putting the right
ones in its place, and told by the choice that makes the one of the other."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from ..comparison.results import Comparison
from ..trace.container import Array
from .edits import Edit
from .failures import noted
from .hypotheses.written_tables import RETURNED, SeenTable, TableWritten, numbers_of, tables_seen
from .observed.variables import VariableName, assigned_at
from .schedule_tables import TRAINED, table_causes

SAME = 1e-5  # relative: one table, in whatever precision it was made
NEAR = 0.7  # relative: a table that may stand for the other
LEAST_EVEN = 3  # numbers: fewer lie evenly by chance
NEAREST = 2  # of the reference's that it may stand for
MOST = 6  # tables that are written over
SHOWN = 6
NAME = "schedule_table"


def own_table_edits(search: Any, comparison: Comparison, explained: bool) -> Iterator[Edit]:
    """On the candidate's side: every table that is near to one of the reference's, and is none of them; those of which
    it is known what makes them otherwise, or the others."""
    if not search.turned or search.across is None or search.live.call is None or search.live.parts.pipeline is None:
        return
    right = reference_tables(search.across)
    count = 0
    for seen in _seen(search) if right else ():
        others = [table for table in right if len(table) == len(seen.numbers)]
        if count >= MOST or any(_apart(table, seen.numbers) <= SAME for table in others):
            continue
        near = sorted((_apart(table, seen.numbers), i) for i, table in enumerate(others))
        for apart, i in near[:NEAREST]:
            name, words = _words(others[i], seen.numbers, _config(search))
            if apart <= NEAR and bool(words) is explained and count < MOST:
                yield _edit(seen, others[i], name, words)
                count += 1


def _edit(seen: SeenTable, right: Array, name: str, words: str) -> Edit:
    variable = "what is returned" if seen.place.variable == RETURNED else f"`{seen.place.variable}`"
    made = VariableName(seen.place.variable, seen.place.file, "__init__")  # what an object has is mostly made there
    line = (assigned_at(made)[0] if made.is_attribute else "") or seen.line
    where = f"`{seen.place.function}` ({line})" if line == seen.line else f"`__init__` ({line})"
    numbers = f"{_shown(seen.numbers, right)} instead of {_shown(right, seen.numbers)}"
    fault = f"{variable} in {where} is not the reference's table: {words}{numbers}"
    fix = f"in the port at {line}: {variable} has to be {_shown(right, seen.numbers)}"
    fix += f"; it must not be so: {words.rstrip(': ')}" if words else ""
    change: Any = TableWritten(seen.place, right)
    with_it = "with the reference's numbers in it, that"
    return Edit(name, with_it, (change,), rank=1, fault=fault, line=line, fix=fix)


def _words(right: Array, wrong: Array, config: Mapping[str, Any]) -> tuple[str, str]:
    """The choice that was made otherwise, if one explains all of the numbers; else where they differ."""
    kind = "sigmas" if right.max() <= 1 + SAME else "timesteps"
    causes = table_causes(kind, right, wrong, config) if len(right) < TRAINED / 2 else []
    if causes:
        return causes[0].name, f"{causes[0].detail}: "
    apart = np.flatnonzero(np.abs(right - wrong) > SAME * np.abs(right).max())
    ends = {0: "only its first number is wrong: ", len(right) - 1: "only its last number is wrong: "}
    return NAME, ends.get(int(apart[0]), "") if len(apart) == 1 else _factor(right, wrong)


def _factor(right: Array, wrong: Array) -> str:
    """A factor or a step that all numbers have."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (wrong / right)[right != 0]
    if len(ratio) > 1 and np.ptp(ratio) <= SAME * abs(ratio[0]):
        return f"every number is {ratio[0]:.6g} times the right one: "
    for words, one, other in (("before", wrong[1:], right[:-1]), ("behind", wrong[:-1], right[1:])):
        if _same(other, one):
            return f"every number is that of the place {words} it: "
    if all(len(table) > LEAST_EVEN and _is_even(table) for table in (right, wrong)):
        ends = [f"from {table[0]:.6g} to {table[-1]:.6g}" for table in (wrong, right)]
        return f"it runs evenly {ends[0]} instead of {ends[1]}: "
    moved = wrong - right
    if np.ptp(moved) <= SAME * np.abs(right).max():
        return f"every number is {moved[0]:+.6g} off: "
    return "it is reversed: " if _apart(right, wrong[::-1]) <= SAME else ""


def _is_even(table: Array) -> bool:
    steps = np.diff(table)
    return float(np.ptp(steps)) <= SAME * float(np.abs(table).max())


def _shown(table: Array, other: Array) -> str:
    """The numbers, of many those around the first that differs."""
    apart = np.flatnonzero(np.abs(table - other) > SAME * np.abs(table).max())
    begin = max(0, int(apart[0]) - 1) if len(table) > SHOWN and len(apart) else 0
    begin = min(begin, max(0, len(table) - SHOWN))
    shown = ", ".join(f"{number:.6g}" for number in table[begin : begin + SHOWN])
    return f"[{'… ' * (begin > 0)}{shown}{' …' * (begin + SHOWN < len(table))}]"


def _seen(search: Any, also: frozenset[str] = frozenset()) -> list[SeenTable]:
    """Tables that the side's own code makes, and that of these files."""
    found: list[SeenTable] = []
    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, (), "the run"):
        warnings.simplefilter("ignore")
        stack.enter_context(tables_seen(lambda seen, table: found.append(seen), also))
        search.live.run(search.own)
    search.log.spent += search.whole.cost
    return found


def reference_tables(search: Any) -> list[Array]:
    """Those that its schedulers hold after a run and those that its own code makes, in the forms in which a port may
    have them."""
    schedulers = search.live.parts.schedulers
    files = {
        getattr(sys.modules.get(cls.__module__), "__file__", "") for s in schedulers.values() for cls in type(s).__mro__
    }
    made = _seen(search, frozenset(file for file in files if file))
    tables = {f"{seen.place.function}.{seen.place.variable}.{seen.place.time}": seen.numbers for seen in made}
    for part, scheduler in schedulers.items():
        held = {f"{part}.{name}": numbers_of(value) for name, value in vars(scheduler).items()}
        tables |= {name: numbers for name, numbers in held.items() if numbers is not None}
    found: list[Array] = []
    for table in tables.values():
        if np.isfinite(table).all() and np.ptp(table) > 0:
            forms = _forms(table)
            found += [form for form in forms if not any(_same(form, other) for other in found)]
    return found


def _same(one: Array, other: Array) -> bool:
    return len(one) == len(other) and _apart(one, other) <= SAME


def _forms(table: Array) -> list[Array]:
    """As it is, without its end or with one, in other units, what is left of a signal in other words; each reversed."""
    found = [table, table[:-1], np.append(table, 0.0)]
    found += [form * unit for form in found[:2] for unit in (TRAINED, 1 / TRAINED)]
    if len(table) >= TRAINED / 2 and table.min() > 0 and table.max() <= 1:
        found += [table**0.5, (1 - table) ** 0.5, ((1 - table) / table) ** 0.5]
    return [*found, *(form[::-1] for form in found)]


def _apart(right: Array, other: Array) -> float:
    return float(np.linalg.norm(right - other) / max(float(np.linalg.norm(right)), 1e-30))


def _config(search: Any) -> dict[str, Any]:
    schedulers = search.across.live.parts.schedulers.values()
    return next((dict(s.config) for s in schedulers if getattr(s, "config", None)), {})
