"""Which of the hypotheses that fit is the cause: the one with which the whole run agrees, if no rival does as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..comparison.results import Comparison, NodeResult
from .edits import Edit, ModuleChange
from .goals import goal_of
from .observed.difference import Observed
from .probe import SPECIFIC, Trial
from .whole_run import Closing

CLOSED = 6  # hypotheses that fit the value and are tried on the whole run
WORSE = 1.5  # times as far off as before: no other fault that was there all along
REDUCED = 4  # kinds of places that are tried to be left out
LEAST_PROVING = 4  # fewer numbers than this are met by anything that can be chosen
_STORIES = ("slice_lanes",)  # one of several ways in which a value may have come about
_MOVES = ("norm_placement", "order_exchanged")
GENERIC_RANK = 4  # from here on a hypothesis describes many faults


@dataclass
class Judgement:
    """The hypothesis that was chosen, what the whole run says of it, and what fits as well."""

    chosen: Trial | None
    closing: Closing | None = None
    stands: bool = False
    rivals: list[Trial] = field(default_factory=list)  # fit this value as well
    alike: list[Trial] = field(default_factory=list)  # and close the whole run as well
    nearest: Trial | None = None
    seen: Observed | None = None  # what the two sides do differently, whether it explains the run or not
    contradicted: bool = False  # at its place both sides are seen to do the same
    line: str = ""  # of the candidate's code, where the steps of both sides show it


def trial_of(search: Any, edit: Edit, comparison: Comparison, closing: Closing) -> Trial | None:
    """The residual at the first bad value, or behind it, read from the comparison that was made again."""
    nodes = [_measured(comparison)]
    if edit.elsewhere is None:  # an operation that is done otherwise need not be there any more
        nodes.insert(0, comparison.first)
    for first in nodes:
        if first is None or first.other is None:
            continue
        node = _put_right(search, comparison, closing, first) if closing.closes else first
        entry = _foreign(search, node)
        again = closing.again.node(str(node.key))
        if entry is not None and again is not None and again.error is not None:
            goal = goal_of(node, search.foreign if search.turned else search.own, search.foreign, entry)
            return Trial(edit, again.error, goal, again.error <= node.prior, checked=True)
    return None


def _foreign(search: Any, node: NodeResult) -> Any:
    """The other side's value, if its trace holds it under a name of its own: not for a part of a fused layer's."""
    key = node.key if search.turned else node.other
    return search.foreign.get(key) if key is not None else None


def _put_right(search: Any, comparison: Comparison, closing: Closing, node: NodeResult) -> NodeResult:
    """The first bad value that is right now: one that nothing uses may stay as it was, and proves nothing."""
    bad = [n for n in comparison.nodes if n.bad and n.order >= node.order and not n.key.is_operation and n.other]
    for one in [node, *bad]:
        again = closing.again.node(str(one.key))
        right = again is not None and again.error is not None and again.error <= max(one.tau, 0.1 * (one.error or 0.0))
        if right and _foreign(search, one) is not None:
            return one
    return node


def _measured(comparison: Comparison) -> NodeResult | None:
    """The first bad result of a module: operations and what goes into modules are recorded as the reference does
    them."""
    first = comparison.first
    later = (n for n in comparison.nodes if first is not None and n.bad and n.order >= first.order)
    return next((n for n in later if not n.key.is_operation and not n.key.is_input and n.error is not None), first)


def judge_observed(search: Any, seen: Observed | None, comparison: Comparison) -> Judgement | None:
    """What was seen in the steps of both sides, if with it the whole run agrees, or goes on to another difference."""
    found: Judgement | None = None
    for edit in seen.edits() if seen is not None else ():
        judgement = _judged_edit(search, edit, comparison)
        if judgement is not None and judgement.stands:
            return judgement
        found = found or judgement
    return found


def is_closed(judgement: Judgement) -> bool:
    """True if the whole run agrees with what was chosen."""
    return judgement.stands and judgement.closing is not None and judgement.closing.closes


def is_closed_by(judgement: Judgement, edit: Edit) -> bool:
    """True if this very edit was chosen and the whole run agrees with it."""
    return is_closed(judgement) and judgement.chosen is not None and judgement.chosen.edit is edit


def without_harmless(
    search: Any, seen: Observed, judgement: Judgement, comparison: Comparison
) -> tuple[Observed, Judgement]:
    """What was seen without the kinds of places without which the whole run agrees as well: a port may be arranged
    otherwise there, and be right."""
    for kind in seen.kinds[:REDUCED]:
        fewer = frozenset(seen.kinds) - {kind}
        edit = seen.only(fewer) if fewer and not search.late() else None
        again = _judged_edit(search, edit, comparison) if edit is not None else None
        if edit is not None and again is not None and is_closed_by(again, edit):
            seen, judgement = seen.narrowed(fewer, edit), again
    return seen, judgement


def _judged_edit(search: Any, edit: Edit, comparison: Comparison) -> Judgement | None:
    found: Judgement | None = None
    before = comparison.first.order if comparison.first is not None else -1
    for closing in search.whole.closings(edit, search.held, None, comparison):
        trial = trial_of(search, edit, comparison, closing)
        if trial is None:
            continue
        if closing.closes and _is_right(trial):  # names that are moved about may hide a value that is still wrong
            return Judgement(trial, closing, True)
        further = closing.reach > before and trial.accepted and _leaves(edit.owner, closing)
        further = further and not _spoils(closing, comparison)
        if found is None or (further and found.closing is not None and closing.reach > found.closing.reach):
            found = Judgement(trial, closing, further) if trial.accepted else found
    return found


def _is_right(trial: Trial) -> bool:
    """Accepted, or down at what rounding alone does to this value in the whole run."""
    return trial.accepted or trial.residual <= min(2 * (trial.goal.node.floor or 0.0), 0.01 * trial.goal.before)


def _leaves(part: str, closing: Closing) -> bool:
    first = closing.first
    inside = (f"{part}.", f"{part}/")
    return first is not None and first.key.path != part and not first.key.path.startswith(inside)


def chosen_of(judgement: Judgement, observed: Judgement | None, seen: Observed | None) -> Judgement:
    """A hypothesis that says more than what was seen, or what was seen: a hypothesis about a place where both sides
    compute the same is none."""
    judgement.seen = seen
    if observed is None or seen is None or (judgement.closing is not None and judgement.alike):
        if observed is not None and observed.stands:
            return observed
        return _doubted(judgement, seen) if seen is not None else judgement
    trial, closed = judgement.chosen, judgement.closing is not None and judgement.closing.closes
    if observed.stands and trial is not None and trial.edit.name == seen.edit.name and trial.edit.rank > 0:
        return observed  # the same, with the line where it stands; a setting is told by its own name
    if observed.stands and trial is not None and trial.edit.name in _MOVES and seen.edit.name == "wrong_operand":
        return observed  # something else is taken; that this amounts to another order says less
    if trial is not None and judgement.stands and closed and not trial.fitted and _says_more(trial.edit, seen):
        # another thing may make the whole run agree as well: only what the candidate is seen to do is the cause
        edit = judgement.closing.edit if judgement.closing is not None else trial.edit
        if not observed.stands or seen.seen(edit):
            judgement.line = seen.edit.line if observed.stands else ""
            return judgement
    if observed.stands or not judgement.stands:
        return observed
    return _doubted(judgement, seen)


def _doubted(judgement: Judgement, seen: Observed) -> Judgement:
    """A hypothesis about steps of the very code in which both sides are seen to differ, but elsewhere, is no cause."""
    if judgement.chosen is not None and _is_elsewhere(judgement.chosen.edit, seen):
        judgement.stands, judgement.contradicted = False, True
    return judgement


def _is_elsewhere(edit: Edit, seen: Observed) -> bool:
    if edit.name in _MOVES or any(not getattr(change, "sites", ()) for change in edit.changes):
        return False  # what is moved past other steps has several places
    sites = {site for change in edit.changes for site in getattr(change, "sites", ())}
    inside = {
        str(site) for site in sites if site.path == seen.edit.owner or (site.path[0] == seen.edit.owner[0] == "@")
    }
    return bool(inside) and not inside & seen.near


def _says_more(edit: Edit, seen: Observed) -> bool:
    """A name of its own, for a place where the two sides are seen to differ (or for the whole module around it)."""
    if _is_elsewhere(edit, seen):
        return False
    placed = any(getattr(change, "sites", ()) or getattr(change, "path", "") for change in edit.changes)
    if seen.edit.rank >= GENERIC_RANK >= edit.rank and not placed:
        return True  # a number in the code, where only what comes of it was seen
    here = seen.places | {seen.edit.owner}
    # two long expressions say less than a number that a person may have written
    most = GENERIC_RANK if seen.edit.rank >= GENERIC_RANK else SPECIFIC
    likely = edit.rank <= most and edit.name not in _STORIES and bool(edit.places() & here)
    return edit.rank < SPECIFIC or likely


def judge(search: Any, trials: Iterable[Trial], comparison: Comparison) -> Judgement:
    """Try the best hypotheses on the whole run; the first that closes it is chosen."""
    best = ranked(trials)
    accepted = [trial for trial in best if trial.accepted]
    if not accepted:
        return Judgement(None, nearest=best[0] if best else None)
    if search.log.interrupted:  # with what there is: nothing more is run
        return Judgement(accepted[0], rivals=accepted[1:5])
    tested: list[tuple[Trial, Closing | None]] = []
    for trial in _different(accepted)[:CLOSED]:
        closing = search.whole.best(trial.edit, search.held, trial.probe, comparison)
        tested.append((trial, closing))
        if closing is not None and closing.closes:
            return _closed(search, trial, closing, accepted, comparison)
        if search.late() and closing is not None:
            break
    trial, closing = max(tested, key=lambda pair: pair[1].reach if pair[1] is not None else -1)
    moved = closing is not None and _moves_on(trial, closing, comparison)
    return Judgement(trial, closing, moved, [t for t in accepted if t is not trial][:4])


def _closed(search: Any, trial: Trial, closing: Closing, accepted: list[Trial], comparison: Comparison) -> Judgement:
    """The run agrees; so it may with a rival that says something else of another place."""
    rivals = [t for t in accepted if _is_rival(t, trial)]
    alike = []
    for rival in _different(rivals)[:2]:
        other = search.whole.best(rival.edit, search.held, rival.probe, comparison)
        if other is not None and other.closes:
            alike.append(rival)
    return Judgement(trial, closing, True, rivals[:4], alike)


def _is_rival(other: Trial, chosen: Trial) -> bool:
    """Another name for another line of code, not less specific and with no more left."""
    return (
        other.edit.name != chosen.edit.name
        and other.edit.rank <= chosen.edit.rank
        and not other.edit.places() & chosen.edit.places()
        and chosen.edit.rank >= GENERIC_RANK
        and _ties(other, chosen)
    )


def _ties(other: Trial, chosen: Trial) -> bool:
    floor = max(chosen.goal.node.floor or 0.0, chosen.goal.node.prior)
    return other.residual <= max(2 * chosen.residual, floor)


def _moves_on(trial: Trial, closing: Closing, comparison: Comparison) -> bool:
    """True if what is still bad begins behind this part and outside of it: another fault, not the same once more."""
    first, before = closing.first, comparison.first
    if first is None or before is None or closing.reach <= before.order or not (trial.whole and trial.exact):
        return False
    if trial.fitted or trial.goal.size < LEAST_PROVING or _spoils(closing, comparison):
        return False
    part = trial.part
    return not (first.key.path == part or first.key.path.startswith((f"{part}.", f"{part}/")))


def _spoils(closing: Closing, comparison: Comparison) -> bool:
    """True if what begins behind it was right before, or less wrong: what puts one value right and another wrong is no
    cause."""
    first = closing.first
    before = comparison.node(str(first.key)) if first is not None else None
    if first is None or before is None or first.key.is_operation or first.error is None or before.error is None:
        return False
    return not before.bad or first.error > WORSE * before.error


def _different(trials: list[Trial]) -> list[Trial]:
    """One of each name and place: the same said of one site or of a group of sites is tried once."""
    seen: set[tuple[str, str]] = set()
    found = []
    for trial in trials:
        key = (trial.edit.name, trial.edit.detail)
        if key not in seen:
            seen.add(key)
            found.append(trial)
    return found


def ranked(trials: Iterable[Trial]) -> list[Trial]:
    best: dict[str, Trial] = {}
    for trial in trials:
        known = best.get(trial.edit.label())
        if known is None or trial.residual < known.residual:
            best[trial.edit.label()] = trial
    return sorted(best.values(), key=lambda t: (not t.accepted, t.order))


def are_handed_over(trials: Iterable[Trial]) -> bool:
    """True if all that fits is said of what a part is given: who hands it over may do something simpler."""
    fits = [trial for trial in trials if trial.fits_whole]
    return bool(fits) and all(
        trial.edit.rank > SPECIFIC and all(isinstance(c, ModuleChange) and c.before for c in trial.edit.changes)
        for trial in fits
    )
