"""The first difference of a comparison, seen in the steps of both live sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...comparison.results import Comparison, NodeResult
from ..edits import Change, Edit, NotApplicable
from ..failures import noted
from .frames import SharedFrame
from .graph import TooLarge, graph_of
from .matching import Matching, Parting
from .transplant import Transplant, joined
from .words import PlaceWords, words_of

ROUNDS = 4  # exits of one frame that are put right one behind the other
LEAST = 1e-6  # relative: values nearer than this are the same, whatever kernel made them


@dataclass
class Observed:
    """What the candidate computes otherwise, as an edit of the reference; and which of its places differ."""

    edit: Edit
    places: frozenset[str]  # steps of the reference that the candidate does not have
    near: frozenset[str]  # and those that give these what both sides have


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
    frames = SharedFrame(search, comparison, node)
    ours, theirs = frames.ours, frames.theirs
    theirs_graph = graph_of(search.across, *theirs, open_=frames.open_theirs)
    if theirs_graph is None:
        return None
    tolerance = max(node.tau, LEAST)
    if node.error is not None and node.error > 0:
        tolerance = min(tolerance, node.error / 4)
    plans: list[Transplant] = []
    said: list[PlaceWords] = []
    places: set[str] = set()
    near: set[str] = set()
    line = ""
    for _ in range(ROUNDS):
        changes = _changes(plans, ours[0])
        try:
            graph = graph_of(search, *ours, [*search.held, Edit("observed", "", changes)], frames.open_ours)
        except (NotApplicable, RuntimeError, TypeError, ValueError, IndexError):
            if not plans:
                raise
            break  # what was seen until here stays seen
        matching = Matching(graph, theirs_graph, tolerance, frames.paths.of) if graph is not None else None
        differences = matching.differences() if matching is not None else []
        if matching is None or not differences:
            break
        said += [words_of(matching, d, search.modules, search.across.modules) for d in differences]
        places |= _places(matching, differences)
        near |= _givers(matching, differences)
        line = line or next((d.theirs.step.line for d in differences if d.theirs.step is not None), "")
        plans.append(Transplant(matching, differences, search.modules, search.across.modules))
    wrong, _, right = said[0].detail.partition(" instead of ") if said else ("", "", "")
    if not plans or wrong == right:  # nothing, or a constant that was made outside of torch: that says nothing
        return None
    name, detail, rank = _together(said)

    def at(path: str) -> Edit:
        return Edit(name, detail, _changes(plans, path), rank)

    edit = replace(at(ours[0]), elsewhere=at, owner=ours[0], line=line if not said[0].loaded else "")
    return Observed(edit, frozenset(places), frozenset(places | near))


def _changes(plans: list[Transplant], frame: str) -> tuple[Change, ...]:
    changes: tuple[Change, ...] = ()
    for plan in plans:
        changes = joined(changes, plan.changes(frame))
    return changes


def _together(said: list[PlaceWords]) -> tuple[str, str, int]:
    """One name for several places: the first one's, with what else there is."""
    first = said[0]
    mine, theirs = (sorted(step for w in said for step in steps(w)) for steps in (lambda w: w.mine, lambda w: w.others))
    if len(said) > 1 and mine == theirs and first.name in ("extra_step", "left_out", "rope_missing"):
        first = replace(first, name="order_exchanged")  # the same steps, before something instead of behind it
    others = list(dict.fromkeys(words.detail for words in said[1:] if words.detail != first.detail))
    detail = first.detail + "".join(f"; and {other}" for other in others[:1])
    return first.name, detail + (f"; and {len(others) - 1} more" if len(others) > 1 else ""), first.rank


def _places(matching: Matching, differences: list[Parting]) -> set[str]:
    found: set[str] = set()
    for difference in differences:
        found |= {str(step.place) for step in matching.until_shared(difference.ours)}
    return found


def _givers(matching: Matching, differences: list[Parting]) -> set[str]:
    """Steps of the reference whose results the differing steps of either side take."""
    found: set[str] = set()
    for difference in differences:
        for value, side in ((difference.ours, matching.ours), (difference.theirs, matching.theirs)):
            taken = [value, *(v for step in matching.until_shared(value) for v in step.operands())]
            known = [v if side is matching.ours else matching.partner(v) for v in taken]
            found |= {str(v.step.place) for v in known if v is not None and v.step is not None}
    return found
