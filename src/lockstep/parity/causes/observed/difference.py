"""The first difference of a comparison, seen in the steps of both live sides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ...comparison.results import Comparison, NodeResult
from ..edits import Change, Edit, NotApplicable
from ..failures import noted
from .frames import SharedFrame
from .graph import FrameStep, FrameValue, TooLarge, graph_of
from .matching import Matching, Parting
from .smallest import smallest_difference
from .transplant import Transplant, joined
from .words import PlaceWords, words_of

LEVELS = 4  # modules around each other whose code is looked at
ROUNDS = 4  # exits of one frame that are put right one behind the other
LEAST = 1e-6  # relative: values nearer than this are the same, whatever kernel made them
_FROM_OUTSIDE = object()


@dataclass
class Observed:
    """What the candidate computes otherwise, as an edit of the reference; and which of its places differ."""

    edit: Edit
    wider: Edit | None  # the same in the place of more steps
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
            levels = (_observed(search, comparison, node, above) for above in range(LEVELS))
            found = next((seen for seen in levels if seen is not _FROM_OUTSIDE), None)
        except TooLarge:
            search.log.say("too many numbers to put the steps of both sides side by side")
    return found


def _observed(search: Any, comparison: Comparison, node: NodeResult, above: int) -> Any:
    """`_FROM_OUTSIDE` where something goes into the candidate's code that the reference's is not given: put into the
    reference that would prove itself."""
    assert node.other is not None
    frames = SharedFrame(search, comparison, node, above)
    ours, theirs = frames.ours, frames.theirs
    theirs_graph = graph_of(search.across, *theirs, open_=frames.open_theirs)
    if theirs_graph is None:
        return None
    tolerance = max(node.tau, LEAST)
    if node.error is not None and node.error > 0:
        tolerance = min(tolerance, node.error / 4)
    plans: list[Transplant] = []
    wider: list[Transplant] = []
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
        if matching is None or not differences or any(_is_unexplained(matching, d.theirs) for d in differences):
            break
        inner = [smallest_difference(matching, d, search.across.modules) for d in differences]
        small = [p for d, i in zip(differences, inner, strict=True) for p in (i if _is_made(matching, i) else [d])]
        if any(_comes_from_outside(matching, p.theirs) for p in small):
            return _FROM_OUTSIDE if not plans else None
        said += [words_of(matching, d, i, search.modules) for d, i in zip(differences, inner, strict=True)]
        places |= _places(matching, differences)
        near |= _givers(matching, differences)
        line = line or next((p.theirs.step.line for p in [*inner[0], *small] if p.theirs.step is not None), "")
        if small != differences and not any(_comes_from_outside(matching, d.theirs) for d in differences):
            wider.append(Transplant(matching, differences, search.modules, search.across.modules))
        plans.append(Transplant(matching, small, search.modules, search.across.modules))
    wrong, _, right = said[0].detail.partition(" instead of ") if said else ("", "", "")
    if not plans or wrong == right:  # nothing, or a constant that was made outside of torch: that says nothing
        return None
    name, detail, rank = _together(said)

    def made(plans: list[Transplant]) -> Edit:
        def at(path: str) -> Edit:
            return Edit(name, detail, _changes(plans, path), rank)

        return replace(at(ours[0]), elsewhere=at, owner=ours[0], line=line if not said[0].loaded else "")

    return Observed(
        made(plans), made(wider) if wider and len(plans) == 1 else None, frozenset(places), frozenset(places | near)
    )


def _comes_from_outside(matching: Matching, value: FrameValue) -> bool:
    """True if an argument of the candidate's code goes in that the reference does not have."""
    taken = [value, *(v for step in matching.until_shared(value) for v in step.operands())]
    given = [v for v in taken if v.given.startswith("in.") and matching.partner(v) is None]
    return any(not matching.is_rearranged(v) for v in given)


def _is_made(matching: Matching, inner: list[Parting]) -> bool:
    """True for values that the reference makes and the candidate has nowhere: they are wrong wherever they are used."""
    return bool(inner) and all(p.ours.step is not None and matching.partner(p.ours) is None for p in inner)


def _is_unexplained(matching: Matching, value: FrameValue) -> bool:
    """True for numbers that nobody was seen to make, or that a module of both sides makes of the same: put into the
    reference they would prove themselves."""
    if value.step is None:
        return not value.given and value.content.numel() > 1
    called = [step for step in matching.until_shared(value) if isinstance(step.place, str)]
    return any(_differs_inside(matching, step) for step in called)


def _differs_inside(matching: Matching, step: FrameStep) -> bool:
    """True if the reference calls that module with the same values, and gets something else."""
    if all(matching.is_leaf(value) for value in step.values):
        return False
    alike = [s for s in matching.ours.steps if isinstance(s.place, str) and matching.paths(s.place) == step.place]
    given = [(s.operands(), step.operands()) for s in alike if len(s.operands()) == len(step.operands())]
    return any(all(matching.same_numbers(x, y) for x, y in zip(*pair, strict=True)) for pair in given)


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
