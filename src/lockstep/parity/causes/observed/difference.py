"""The first difference of a comparison, seen in the steps of both live sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...comparison.results import Comparison, NodeResult
from ...trace.names import Key
from ..edits import Change, Edit
from ..failures import noted
from ..pipeline_probe import PIPELINE
from .graph import TooLarge, graph_of
from .matching import Difference, Matching
from .transplant import Transplant, joined
from .words import Words, words_of

ROUNDS = 4  # exits of one frame that are put right one behind the other
LEAST = 1e-6  # relative: values nearer than this are the same, whatever kernel made them


@dataclass
class Observed:
    """What the candidate computes otherwise, as an edit of the reference; and which of its places differ."""

    edit: Edit
    places: frozenset[str]  # steps of the reference that the candidate does not have


def observed_difference(search: Any, comparison: Comparison) -> Observed | None:
    """None where only one side can be run, or where both take the same steps."""
    node = comparison.first
    if search.turned or search.across is None or node is None or node.other is None:
        return None
    found: Observed | None = None
    with noted(search.log, search.held, "the steps of both sides"):
        try:
            found = _observed(search, comparison, node)
        except TooLarge:
            search.log.say("too many numbers to put the steps of both sides side by side")
    return found


def _observed(search: Any, comparison: Comparison, node: NodeResult) -> Observed | None:
    assert node.other is not None
    ours, theirs = _frame(search, node.key), _frame(search.across, node.other)
    theirs_graph = graph_of(search.across, *theirs)
    if theirs_graph is None:
        return None
    tolerance = max(node.tau, LEAST)
    if node.error is not None and node.error > 0:
        tolerance = min(tolerance, node.error / 4)
    paths = _Paths(comparison, ours[0], theirs[0])
    plans: list[Transplant] = []
    said: list[Words] = []
    places: set[str] = set()
    line = ""
    for _ in range(ROUNDS):
        changes = _changes(plans, ours[0])
        graph = graph_of(search, *ours, [*search.held, Edit("observed", "", changes)])
        matching = Matching(graph, theirs_graph, tolerance, paths.of) if graph is not None else None
        differences = matching.differences() if matching is not None else []
        if matching is None or not differences:
            break
        said += [words_of(matching, d) for d in differences]
        places |= _places(matching, differences)
        line = line or next((d.theirs.step.line for d in differences if d.theirs.step is not None), "")
        plans.append(Transplant(matching, differences, search.modules, search.across.modules))
    if not plans:
        return None
    name, detail, rank = _together(said)

    def at(path: str) -> Edit:
        return Edit(name, detail, _changes(plans, path), rank)

    edit = replace(at(ours[0]), elsewhere=at, owner=ours[0], line=line)
    return Observed(edit, frozenset(places))


def _changes(plans: list[Transplant], frame: str) -> tuple[Change, ...]:
    changes: tuple[Change, ...] = ()
    for plan in plans:
        changes = joined(changes, plan.changes(frame))
    return changes


def _together(said: list[Words]) -> tuple[str, str, int]:
    """One name for several places: the first one's, with what else there is."""
    first = said[0]
    mine, theirs = (sorted(step for w in said for step in steps(w)) for steps in (lambda w: w.mine, lambda w: w.others))
    if len(said) > 1 and mine == theirs and first.name in ("extra_step", "left_out", "rope_missing"):
        first = replace(first, name="order_exchanged")  # the same steps, before something instead of behind it
    others = list(dict.fromkeys(words.detail for words in said[1:] if words.detail != first.detail))
    detail = first.detail + "".join(f"; and {other}" for other in others[:1])
    return first.name, detail + (f"; and {len(others) - 1} more" if len(others) > 1 else ""), first.rank


def _places(matching: Matching, differences: list[Difference]) -> set[str]:
    found: set[str] = set()
    for difference in differences:
        found |= {str(step.place) for step in matching.until_shared(difference.ours)}
    return found


def _frame(search: Any, key: Key) -> tuple[str, int]:
    """The code that made a value, and the how-manieth call of it in the run."""
    path = key.path.partition("/")[0] if key.is_operation else search.parent_of(key.path) if key.is_input else key.path
    if path.startswith("@") or search._callable(path) is None:
        return PIPELINE, 0
    return path, search.call_number(path, key)


class _Paths:
    """The candidate's path of each module of the reference: as their values were put side by side."""

    def __init__(self, comparison: Comparison, ours: str, theirs: str) -> None:
        self.ours, self.theirs = ours, theirs
        self.known = {
            n.key.path: n.other.path
            for n in comparison.nodes
            if n.other is not None and not n.key.is_operation and not n.other.is_operation
        }

    def of(self, path: str) -> str:
        if path in self.known:
            return self.known[path]
        below = path == self.ours or path.startswith(f"{self.ours}.")
        return self.theirs + path[len(self.ours) :] if below else path
