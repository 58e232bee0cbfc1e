"""The schedule of a run, read from its tables or from what its models are given step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..comparison.results import Cause, Comparison, NodeResult, Standing
from ..trace.container import Array
from ..trace.names import step_index
from ..trace.reader import Trace
from .schedule_tables import TableCause, table_causes

TABLES = ("timesteps", "sigmas")
OFFSET = "step_offset"
LEAST_STEPS = 3
TRAINED = 1000.0  # steps of a training schedule


def schedule_causes(comparison: Comparison, node: NodeResult, a: Trace, b: Trace) -> list[Cause]:
    """Which choice of the schedule was made otherwise, where the first difference is a schedule, or is given to a model
    together with another time."""
    node = _time_beside(comparison, node)
    kind, mine, theirs = _tables(comparison, node, a, b)
    if mine is None or theirs is None or mine.size != theirs.size:
        return []
    times = _entry(a, "timesteps") if kind == "sigmas" else None
    # one place off in a table is less than another choice of the table that gives the same numbers
    causes = _one_place_off(mine, theirs) or table_causes(kind, mine, theirs, _config(a), times)
    rivals = [cause.detail for cause in causes[1:]]
    before = node.error if node.error is not None else float("inf")
    found = []
    for cause in causes[:1]:
        shown = [
            ", ".join(f"{v:.6g}" for v in table[:4]) + (" …" if len(table) > 4 else "") for table in (theirs, mine)
        ]
        why = f"{cause.detail}: {shown[0]} instead of {shown[1]}"
        why += f" (the same numbers: {rivals[0]})" if rivals else ""
        sure = cause.certain and not rivals and mine.size > 2
        why = why if sure else f"cause not proven; this fits the value only: {why}"
        evidence = {"accepted": sure, "from": "recorded values", "threshold": node.tau, "certain": cause.certain}
        standing = Standing.PROVEN if sure else Standing.FITS
        fix = f"in the port, where its {kind} are made, it must not be so: {cause.detail}"
        found.append(Cause(cause.name, why, str(node.key), before, 0.0, node.floor, fix, evidence, standing))
    return found


def _one_place_off(mine: Array, theirs: Array) -> list[TableCause]:
    """Every step has the number of the next one, or of the one before."""
    for words, wrong, right in (("next", theirs[:-1], mine[1:]), ("previous", theirs[1:], mine[:-1])):
        if right.size >= LEAST_STEPS and np.ptp(right) > 0 and np.allclose(wrong, right, rtol=1e-5, atol=1e-6):
            return [
                TableCause(
                    OFFSET, f"every step is given the value of the {words} step: one place off in its table", True
                )
            ]
    return []


def _time_beside(comparison: Comparison, node: NodeResult) -> NodeResult:
    """The time that a model is given in the same call, if that is wrong, too: the state was made with it."""
    if not node.key.is_input or "." in node.key.path or node.key.path.startswith("@"):
        return node
    beside = [n for n in comparison.nodes if n.bad and n.key.is_input and n.key.node == node.key.node]
    return next((n for n in beside if "timestep" in n.key.slot), node)


def _shown(table: Array) -> str:
    return ", ".join(f"{number:.6g}" for number in table[:4]) + (" …" if len(table) > 4 else "")


def _tables(comparison: Comparison, node: NodeResult, a: Trace, b: Trace) -> tuple[str, Array | None, Array | None]:
    name = node.key.path.rpartition(".")[2]
    if name in TABLES and node.other is not None:
        return name, _array(a, node.key), _array(b, node.other)
    if "timestep" not in node.key.slot and node.key.path != "@timestep":
        return "", None, None
    series = [n for n in comparison.nodes if (n.key.path, n.key.slot) == (node.key.path, node.key.slot)]
    pairs = [
        (_array(a, n.key), _array(b, n.other))
        for n in series
        if n.other is not None and not n.key.call and step_index(n.key.step) is not None
    ]
    numbers = [(x.reshape(-1)[:1], y.reshape(-1)[:1]) for x, y in pairs if x is not None and y is not None]
    if len(numbers) < 2 or len(numbers) != len(series):
        return "", None, None
    mine, theirs = (np.concatenate([pair[side] for pair in numbers]) for side in (0, 1))
    unit = TRAINED if max(mine.max(), theirs.max()) <= 1 else 1.0  # a model may be told its time from 0 to 1
    return "timesteps", unit * mine, unit * theirs


def _array(trace: Trace, key: Any) -> Array | None:
    entry = trace.get(key)
    return np.asarray(trace.array(entry), np.float64).reshape(-1) if entry is not None and entry.has_data else None


def _entry(trace: Trace, name: str) -> Array | None:
    found = [e for e in trace.entries if e.key.path.startswith("@") and e.key.path.endswith(f".{name}") and e.has_data]
    return np.asarray(trace.array(found[0]), np.float64).reshape(-1) if found else None


def _config(trace: Trace) -> Mapping[str, Any]:
    for described in (trace.meta.get("schedulers") or {}).values():
        if isinstance(described, dict) and described.get("config"):
            return dict(described["config"])
    return {}
