"""A candidate that gives something else when it is run once more: chance, or something that is kept from run to run."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import torch

from ..comparison.results import Cause, Comparison, NodeResult
from ..trace.reader import Trace
from .failures import noted
from .goals import Goal, goal_of
from .hypotheses.kept_state import copied, same
from .hypotheses.state import keeping_parts
from .pipeline_probe import PipelineProbe

ABSENT = object()  # an attribute that there was not
MOST_ATTRIBUTES = 6  # looked at one by one
UNREPEATABLE = 4.0  # times the threshold: what a second run may differ by


def unrepeatable(search: Any, comparison: Comparison) -> list[Cause]:
    """The candidate's own value at the first bad place, twice more."""
    first = comparison.first
    if not search.turned or first is None:
        return []
    behind = (n for n in comparison.nodes if n.bad and n.order > first.order and not n.key.is_operation)
    for node in [first, *islice(behind, 1)]:
        goal, values = _again(search, node)
        if goal is None or len(values) < 2:
            continue
        limit = UNREPEATABLE * max(goal.tau, node.prior)
        apart = [goal.residual(value) for value in values]
        if not limit < apart[0] < float("inf"):
            continue
        chance = _relative(values) > limit and not _repeats_from_its_state(search, node, goal, limit)
        kept = [] if chance else _kept_from_run_to_run(search, node, goal, limit)
        return [_cause(search, first, node, goal, apart[0], chance, kept)]
    return []


def _again(search: Any, node: NodeResult) -> tuple[Goal | None, list[torch.Tensor]]:
    own = Trace.open(search.own.path)  # as it was recorded, in whatever order
    entry = own.get(node.other) if node.other is not None else None
    if entry is None or not entry.is_float or node.other is None:
        return None, []
    goal = goal_of(node, search.foreign, own, entry)
    values: list[torch.Tensor] = []
    for _ in range(2):
        with noted(search.log, (), str(node.other)):
            value = PipelineProbe(search.live, own, node.other, goal, (), search.log).value()
            if value is not None:
                values.append(value)
        search.runs += 1
        limit = UNREPEATABLE * max(goal.tau, node.prior)
        if values and goal.residual(values[0]) <= limit:
            break  # it does repeat itself
    return goal, values


def _repeats_from_its_state(search: Any, node: NodeResult, goal: Goal, limit: float) -> bool:
    """True if the run is the same twice where everything that the pipeline keeps is put back in between."""
    kept = keeping_parts(search.live.parts)
    if not kept or node.other is None:
        return False
    before = {name: copied(vars(part)) for name, part in kept.items()}
    values = [_from_state(search, node, goal, kept, before) for _ in range(2)]
    known = [value for value in values if value is not None]
    return len(known) > 1 and _relative(known) <= limit


def _kept_from_run_to_run(search: Any, node: NodeResult, goal: Goal, limit: float) -> list[str]:
    """Attributes with which alone as they were before the recorded run its value comes again."""
    kept, begun = keeping_parts(search.live.parts), search.live.begun
    changed = [
        (part, name)
        for part, state in begun.items()
        for name, value in (vars(kept[part]) if part in kept else {}).items()
        if name not in state or not same(value, state[name])
    ]
    found = []
    for part, name in changed[:MOST_ATTRIBUTES]:
        value = _from_state(search, node, goal, kept, {part: {name: begun[part].get(name, ABSENT)}})
        if value is not None and goal.residual(value) <= limit:
            found.append(f"`{part}.{name}`")
    return found


def _from_state(
    search: Any, node: NodeResult, goal: Goal, kept: dict[str, Any], state: dict[str, dict[str, Any]]
) -> torch.Tensor | None:
    """The value of a run that begins with these attributes."""
    value = None
    assert node.other is not None
    with noted(search.log, (), str(node.other)):
        for part, attributes in state.items():
            for name, state_before in attributes.items():
                vars(kept[part]).pop(name, None)
                if state_before is not ABSENT:
                    vars(kept[part])[name] = copy.deepcopy(state_before)
        value = PipelineProbe(search.live, search.own, node.other, goal, (), search.log).value()
    search.runs += 1
    return value


def _relative(values: list[torch.Tensor]) -> float:
    first, second = (value.double().nan_to_num(0.0, 0.0, 0.0) for value in values[:2])
    return float((first - second).norm() / first.norm().clamp_min(1e-300))


def _cause(
    search: Any, first: NodeResult, node: NodeResult, goal: Goal, apart: float, chance: bool, kept: list[str]
) -> Cause:
    drawn = _draw_before(search.own, node)
    dropped = drawn is not None and "dropout" in drawn
    name = "dropout" if dropped else "non_deterministic" if chance else "stale_state"
    what = (
        f"the candidate does not repeat itself: the same run once more differs by {apart:.2g} from the recorded one, "
        f"threshold {goal.tau:.1e}"
    )
    if dropped:
        why, fix = f"{what}; a dropout draws before it", "switch the dropout off (`eval()`)"
    elif chance:
        source = f"`{drawn}` draws random numbers before it" if drawn else "something in it is random"
        why = f"{what}, and a third run differs again: it is not deterministic; {source}"
        fix = "take the random numbers out, or draw them from the generator that is given"
    else:
        names = " and ".join(kept[:3]) or "something (of the scheduler, the guider, a cache)"
        why = f"{what}, and repeats itself from the same state: {names} is kept from one run to the next"
        fix = f"in the port: put {names} back at the begin of a run"
    evidence = {"accepted": True, "measured_at": str(node.key), "threshold": goal.tau, "runs": search.runs}
    return Cause(name, why, str(first.key), goal.before, 0.0, node.floor, fix, evidence)


def _draw_before(own: Trace, node: NodeResult) -> str | None:
    """The last random function that was called before the value came to be, and where."""
    entry = own.get(node.other) if node.other is not None else None
    draws = [e for e in own.entries if e.key.slot == "rng" and entry is not None and e.seq < entry.seq]
    if not draws:
        return None
    meta = draws[-1].meta.get("rng") or {}
    where = f" in {meta['where']}" if meta.get("where") else ""
    return f"{meta.get('function') or draws[-1].op or 'something'}{where}"
