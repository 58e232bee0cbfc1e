"""Values that are right, but of another moment or of other rows: a cache that is kept, an embedding taken twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..comparison.results import Comparison, NodeResult
from ..trace.container import Array
from ..trace.names import step_index
from ..trace.reader import Entry, Trace
from ..trace.sketch import relative_l2, sketch, sketch_error
from .value_tests import ValueFinding

MOST_ROWS = 64
LEAST = 16  # elements from which a value is no chance
STALE, ROWS, NEIGHBOUR = "stale_value", "wrong_rows", "step_offset"
NEAR = 1e-5  # relative: one time, in whatever precision it was computed
LEAST_STEPS = 3
FRACTION = 1e-3  # by which parts of the way are told apart


def earlier_findings(
    comparison: Comparison, node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry
) -> Iterator[ValueFinding]:
    """What the candidate's value is, where it is one of the reference's that does not belong here."""
    if node.key.is_input and not node.key.is_operation and left.is_float:
        yield from _of_the_neighbouring_steps(comparison, node, a, b)
    if not (left.is_float and right.is_float) or int(np.prod(right.shape or (1,))) < LEAST or node.key.is_operation:
        return
    yield from _of_an_earlier_step(node, a, b, left, right)
    if left.has_data and right.has_data and left.shape == right.shape:
        yield from _of_other_rows(comparison, node, a, np.asarray(a.array(left)), np.asarray(b.array(right)))


def _of_the_neighbouring_steps(comparison: Comparison, node: NodeResult, a: Trace, b: Trace) -> Iterator[ValueFinding]:
    """Every step is given what the reference's next one is given, or the one before: a table read one place off."""
    place = (node.key.path, node.key.slot, node.key.call)
    found = {
        index: (a.get(n.key), b.get(n.other))
        for n in comparison.nodes
        if (n.key.path, n.key.slot, n.key.call) == place and n.other is not None
        and (index := step_index(n.key.step)) is not None
    }  # fmt: skip
    yield from _between_steps(node, found, a, b)
    for offset, words in ((1, "next"), (-1, "previous")):
        errors = []
        for index, (_, mine) in found.items():
            left = found.get(index + offset, (None, None))[0]
            if left is None or mine is None:
                continue
            if left.shape == mine.shape:
                errors.append(sketch_error(a.sketch(left), b.sketch(mine), a.stats(left).l2))
            elif (numbers := (_one_number(a, left), _one_number(b, mine))) and None not in numbers:
                errors.append(relative_l2(*(np.array([number]) for number in numbers)))
        if len(errors) >= LEAST_STEPS - 1 and len(errors) == len(found) - 1 and max(errors) <= NEAR:
            told = f"every step is given the value of the {words} step: one place off in its table"
            repair = f"in the port: hand `{node.key.path}` the value of the step that it is at, not of the {words} one"
            yield ValueFinding(NEIGHBOUR, told, 0.0, 0, repair=repair)


def _between_steps(
    node: NodeResult, found: dict[int, tuple[Entry | None, Entry | None]], a: Trace, b: Trace
) -> Iterator[ValueFinding]:
    """Every step is given a time that lies the same part of the way to the next one's: that of its middle."""
    numbers = {
        i: (_one_number(a, left), _one_number(b, right))
        for i, (left, right) in found.items()
        if left is not None and right is not None
    }
    parts = []
    for i, (right, wrong) in numbers.items():
        after = numbers.get(i + 1, (None, None))[0]
        if right is None or wrong is None or (after is None and i + 1 in found) or after == right:
            return
        if after is not None:
            parts.append((wrong - right) / (after - right))
    if len(parts) < LEAST_STEPS - 1 or max(parts) - min(parts) > FRACTION or not FRACTION < parts[0] < 1 - FRACTION:
        return
    told = f"every step is given a time {parts[0]:.3g} of the way to the next step's"
    yield ValueFinding(
        NEIGHBOUR, told, 0.0, 0, repair=f"in the port: hand `{node.key.path}` the time of the step that it is at"
    )


def _one_number(trace: Trace, entry: Entry) -> float | None:
    """The number that a value holds, however often."""
    values = np.asarray(trace.array(entry), np.float64).reshape(-1) if entry.has_data else np.zeros(0)
    return float(values[0]) if values.size and bool((values == values[0]).all()) else None


def _of_an_earlier_step(node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry) -> Iterator[ValueFinding]:
    """The value of this very place in a step before: the nearest one that it is."""
    now = step_index(node.key.step)
    if now is None:
        return
    norm = a.stats(left).l2
    earlier = [s for s in a.steps if (i := step_index(s)) is not None and i < now and _loop(s) == _loop(node.key.step)]
    for step in reversed(earlier):
        before = a.get(replace(left.key, step=step))
        if before is None or before.shape != left.shape or sketch_error(a.sketch(left), a.sketch(before), norm) <= 1e-6:
            continue  # the reference does not change it either
        residual = sketch_error(b.sketch(right), a.sketch(before), norm)
        if residual <= node.tau:
            made = _maker(a, before)
            words = f"the value is still that of `{step}`{made}: it was kept, not computed again at `{node.key.step}`"
            repair = f"in the port: compute it anew at every step, or clear what keeps it ({node.key.path})"
            yield ValueFinding(STALE, words, residual, 0, repair=repair)
            return


def _loop(step: str) -> str:
    return step.rpartition(":")[0]


def _maker(a: Trace, entry: Entry) -> str:
    """The module that gave this tensor."""
    made = a.by_seq.get(entry.same) if entry.same is not None else None
    return f" (what `{made.key.path}` gave there)" if made is not None and not made.key.is_input else ""


def _of_other_rows(comparison: Comparison, node: NodeResult, a: Trace, x: Array, y: Array) -> Iterator[ValueFinding]:
    """Every row is one of the reference's, some of them are taken twice and others never."""
    rows = x.shape[0] if x.ndim > 1 else 0
    if not 2 <= rows <= MOST_ROWS or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return
    mine, theirs = (values.astype(np.float64).reshape(rows, -1) for values in (x, y))
    distance = (theirs**2).sum(1)[:, None] + (mine**2).sum(1)[None] - 2 * theirs @ mine.T
    own = np.diag(distance) <= distance.min(1) * (1 + 1e-9) + 1e-12 * (theirs**2).sum(1)  # in its place where it may be
    order = np.where(own, np.arange(rows), distance.argmin(1))
    wrong = np.flatnonzero(order != np.arange(rows))
    if not wrong.size or len(set(order.tolist())) == rows:
        return
    residual = relative_l2(mine, mine + (theirs - mine[order]))
    if residual > max(node.tau, 1e-12):
        return
    taken = order[wrong]
    words = f"rows {_shown(wrong)} of the value are the reference's rows {_shown(taken)}"
    if turned := _in_another_order(mine, order):
        repair = f"in the port: put the rows of what is handed to `{node.key.path}` in the reference's order: {turned}"
        yield ValueFinding(ROWS, f"{words}: the same rows in another order; {turned}", residual, 0, repair=repair)
        return
    half = rows // 2
    if (
        rows % 2 == 0
        and wrong.size == half
        and len(set((wrong - taken).tolist())) == 1
        and abs(wrong[0] - taken[0]) == half
    ):
        words = f"one half of the value is the other: {words}"
    missing = _call_left_out(comparison, a, x[wrong])
    repair = f"in the port: rows {_shown(wrong)} of what is handed to `{node.key.path}` need values of their own"
    repair += "; look for a cache, or a variable that is taken twice, where they are made"
    yield ValueFinding(ROWS, words + missing, residual, 0, repair=repair)


def _in_another_order(mine: Array, order: Array) -> str:
    """How often each row is repeated, and how; empty where some rows are missing, others taken too often."""
    kinds: dict[bytes, int] = {}
    ours = [kinds.setdefault(row.tobytes(), len(kinds)) for row in mine]
    theirs = [ours[row] for row in order]
    if sorted(ours) != sorted(theirs):
        return ""
    shown = [", ".join(map(str, side[:8])) + (" …" if len(side) > 8 else "") for side in (theirs, ours)]
    side_by_side = [side == sorted(side) for side in (theirs, ours)]
    told = f"{shown[0]} instead of {shown[1]}"
    if side_by_side[0] == side_by_side[1]:
        return told
    ways = ("each row is repeated side by side (`repeat_interleave`)", "all rows are repeated as a whole (`repeat`)")
    return f"{told}: {' instead of '.join(ways if side_by_side[0] else ways[::-1])}"


def _shown(rows: Array) -> str:
    first = rows.tolist()
    return ", ".join(map(str, first[:4])) + (" …" if len(first) > 4 else "")


def _call_left_out(comparison: Comparison, a: Trace, missing: Array) -> str:
    """The call of a model that gives what is missing, if the candidate does not make it."""
    made = {node.key.node for node in comparison.nodes if node.other is not None}
    wanted, norm = sketch(missing), float(np.linalg.norm(missing))
    for entry in a.entries:
        whole = "." not in entry.key.path and not entry.key.path.startswith("@") and not entry.key.is_input
        if not whole or entry.key.node in made or int(np.prod(entry.shape)) != missing.size:
            continue
        if sketch_error(wanted, a.sketch(entry), norm) <= 1e-4:
            calls = len({e.key.node for e in a.entries if e.key.path == entry.key.path})
            return (
                f"; `{entry.key.path}` is called {calls} times in the reference, and the call that gives the missing "
                "rows is not made in the candidate"
            )
    return ""
