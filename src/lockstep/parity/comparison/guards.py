"""What a verdict may not rest on: labels that lie, results that were not seen, values that mean nothing."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..trace.names import Key, step_index
from ..trace.reader import Entry, Trace
from .results import Comparison, NodeResult, Role, Verdict, is_without

CLEAN = (Verdict.PASS, Verdict.NOISE)
LEAST = 3  # values that have to say that labels are shifted


def guard(a: Trace, b: Trace, result: Comparison) -> None:
    """Take back a PASS that proves nothing, and a BUG that only the labels made."""
    if result.verdict in CLEAN and not _one_rank_alone(a, b):
        problem = _not_seen(a, b, result)
        if problem:
            result.verdict = Verdict.INCONCLUSIVE
            result.reasons.insert(0, f"{problem}; what was compared agrees")
            return
    problem = _one_rank_alone(a, b) or _relabelled(a, b, result.nodes)
    if not problem:
        problem = (_exchanged if result.verdict in CLEAN else _shifted)(a, b, result.nodes)
    if problem:
        result.verdict, result.first, result.origins = Verdict.INVALID, None, []
        result.reasons.insert(0, problem)


def _not_seen(a: Trace, b: Trace, result: Comparison) -> str:
    """Why the result of the run is not among what was compared, or says nothing."""
    results = [e for e in a.entries if not e.key.is_operation and not e.key.is_input]
    if not results:
        return "the reference holds no result of anything, only what went in"
    compared = {str(node.key) for node in result.nodes}
    last = [e for e in results if e.key.node == results[-1].key.node and not _left_out(e, result)]
    seen = [e for e in last if str(e.key) in compared]
    # of several results of one call those that the port does not have are left out: nothing consumes them
    final = seen[-1] if seen else results[-1]
    if not seen:
        return f"the reference's last value `{final.key}` was not compared"
    stats = a.stats(final)
    if stats.n == 0:
        return f"the reference's last value `{final.key}` has no elements"
    if final.is_float and (stats.nan or stats.inf == stats.n):
        return (
            f"the reference's last value `{final.key}` is not finite: {stats.nan} NaN, {stats.inf} infinite of "
            f"{stats.n}"
        )
    more = {loop: (count, _loops(a)[loop]) for loop, count in _loops(b).items() if count > _loops(a).get(loop, count)}
    for loop, (candidate, reference) in more.items():
        if "stopped_at" not in a.meta:
            return (
                f"the candidate has {candidate} steps of `{loop}`, the reference {reference}: cut off, or asked for "
                "fewer"
            )
    return ""


def _left_out(entry: Entry, result: Comparison) -> bool:
    return is_without(entry.key, result.without)


def _loops(trace: Trace) -> dict[str, int]:
    """Number of steps per loop."""
    steps: dict[str, set[int]] = defaultdict(set)
    for label in trace.steps:
        index = step_index(label)
        if index is not None:
            steps[label.rpartition("/")[2].partition(":")[0]].add(index)
    return {loop: len(indices) for loop, indices in steps.items()}


def _one_rank_alone(a: Trace, b: Trace) -> str:
    """A rank of several holds its share of the values, which is no run to compare with a whole one."""
    who = [trace.meta.get("ranks") or {} for trace in (a, b)]
    places = [(told.get("rank"), told.get("world"), told.get("degrees")) for told in who]
    for side, told in zip(("reference", "candidate"), who, strict=True):
        if int(told.get("world", 1)) > 1 and places[0] != places[1]:
            return (
                f"the {side} is the trace of rank {told['rank']} of {told['world']} alone; put the traces of all ranks "
                "together with `lockstep parity merge`"
            )
    return ""


def _relabelled(a: Trace, b: Trace, nodes: list[NodeResult]) -> str:
    """The same bytes under two dtypes: a wrong label, no wrong number."""
    for node in nodes:
        if node.other is None or node.dtypes[0] == node.dtypes[1] or not (node.bad or node.role is Role.HEALED):
            continue
        x, y = a.get(node.key), b.get(node.other)
        if x is not None and y is not None and x.has_data and y.has_data and a.raw(x) == b.raw(y):
            left, right = node.dtypes
            return (
                f"`{node.key}` holds the same bytes on both sides, labelled {left} and {right}: one of the two is "
                "mislabelled"
            )
    return ""


def _exchanged(a: Trace, b: Trace, nodes: list[NodeResult]) -> str:
    """Two values that are each other's to the last bit while all that follows is right: their names were exchanged."""
    healed = [(n, x, y) for n in nodes if n.role is Role.HEALED and n.other is not None and not n.key.is_operation
              and (x := a.get(n.key)) is not None and (y := b.get(n.other)) is not None]  # fmt: skip
    by_value = {_value(a, x): n for n, x, _ in healed if x.is_float}
    for node, x, y in healed:
        partner = by_value.get(_value(b, y))
        if partner is None or partner is node or partner.other is None or _is_one_place(node.key, partner.key):
            continue
        theirs = b.get(partner.other)
        if theirs is not None and _value(b, theirs) == _value(a, x):
            return (
                f"the candidate's `{node.key}` is the reference's `{partner.key}` and the other way round, to the "
                "last bit, "
                "while all that follows is equal: mislabelled, the two names are exchanged"
            )
    return ""


def _is_one_place(one: Key, other: Key) -> bool:
    """Two calls of one module inside one step: a program may make them in any order."""
    return (one.step, one.path, one.slot) == (other.step, other.path, other.slot)


def _shifted(a: Trace, b: Trace, nodes: list[NodeResult]) -> str:
    """Every value of a loop is that of another step to the last bit, always by the same number of steps."""
    at: dict[tuple[str, str, int, bytes], set[int]] = defaultdict(set)
    for entry in a.entries:
        index = step_index(entry.key.step)
        if index is not None and entry.is_float:
            at[entry.key.path, entry.key.slot, entry.key.call, _value(a, entry)].add(index)
    shifts: Counter[int] = Counter()
    values = 0
    for entry in b.entries:
        index = step_index(entry.key.step)
        if index is None or not entry.is_float or entry.key.is_operation:
            continue
        values += 1
        found = at.get((entry.key.path, entry.key.slot, entry.key.call, _value(b, entry)), set())
        if len(found) == 1:
            shifts[index - next(iter(found))] += 1
    if not shifts:
        return ""
    shift, count = shifts.most_common(1)[0]
    if shift == 0 or count < max(LEAST, 0.6 * values) or len(shifts) > 1:
        return ""
    side = "later" if shift > 0 else "earlier"
    return (
        f"{count} of {values} values of the candidate's loop are the reference's to the last bit under a step label "
        "that is "
        f"{abs(shift)} {side}: mislabelled, the labels are shifted"
    )


def _value(trace: Trace, entry: Entry) -> bytes:
    return trace.sketch(entry).tobytes()
