"""Why the first difference arises: hypotheses tried on the live models, or on the recorded values alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..comparison.results import Cause, Comparison, SearchLog, Standing, Verdict
from ..floors.file import Floor
from ..trace.names import Key
from ..trace.reader import Trace
from .earlier_values import NEIGHBOUR, ROWS, STALE
from .facts import from_facts
from .handed_over import prove_draws, prove_handed_over, prove_own_schedule
from .interrupts import ending_orderly
from .judgement import is_closed
from .live import Live, live_side
from .observed.difference import UNNAMED, observed_difference
from .partner_weights import weights_by_partner
from .recorded import recorded_causes
from .repairs import Depth, repaired_line
from .repeatability import unrepeatable
from .search import CauseSearch
from .sentences import not_found

__all__ = ["Live", "diagnose"]

LIMIT = 4  # causes looked for, one behind the other
EVALUATIONS = 3000  # runs of the suspect part, a part of millions of weights counted as several
FEW = 300  # where the recorded values say what is the matter, or it was seen in the steps of both sides
# Told as what the one side computes instead of what.
EXPRESSIONS = ("wrong_operand", "extra_step", "left_out", "concat_order")
READABLE = 160  # letters of two expressions
GENERIC = ("wrong_operand", "random_offset")  # "some other value": true of many faults
# Recorded, and more than that.
TELLING = ("patch_noise", "dropout", "precision", "timestep_dtype", "pooling_index", "padding_side", "max_length")
# What a value is, not why; and tokens in another order may be the port's good right.
DESCRIBING = (
    "wrong_operand", "left_out", "half_swap", "reversed", "shifted", "axes_swapped", "interleave", "channel_order",
    "permutation", STALE, ROWS, NEIGHBOUR,
)  # fmt: skip
# Of the result of a run, where all before it is right: as a picture is handed out.
REARRANGED = ("half_swap", "reversed", "axes_swapped", "interleave", "channel_order", "value_range")
IN_THE_PORT = "in the port:"
PROVEN = 2
FIRST_SIDE = 0.6  # of the evaluations, so that something is left for the other side


def diagnose(
    comparison: Comparison,
    *,
    reference: Any = None,
    candidate: Any = None,
    floor: str | Path | Floor | None = None,
    limit: int = LIMIT,
    evaluations: int = EVALUATIONS,
    map: Any = "auto",
    traces: tuple[Trace, Trace] | None = None,
    rounding: bool = False,
    tell: Callable[[str], None] = lambda words: None,
) -> list[Cause]:
    """Name the causes of a BUG or DRIFT with their proof, and put them into `comparison.causes`.

    `reference` and `candidate` are what was recorded (a module, a pipeline, or `Live(target, call)`); give the one, the
    other, or both. With neither, only what the recorded values themselves prove is found. `rounding` also looks for
    causes of what lies inside the floor. The search ends after so many `evaluations`, on a busy machine as on a quiet
    one; `tell` is given what is being tried, and an interrupt (or SIGTERM, or a soft limit of processor time) ends the
    search with what it has.
    """
    differs = comparison.verdict in (Verdict.BUG, Verdict.DRIFT) and comparison.first is not None
    if not differs and not (rounding and comparison.verdict is Verdict.NOISE):
        return []
    a, b = traces or (Trace.open(comparison.reference_path), Trace.open(comparison.candidate_path))
    recorded = recorded_causes(comparison, comparison.first, a, b) if comparison.first is not None else []
    if any(cause.standing is Standing.PROVEN and cause.name in TELLING for cause in recorded):
        evaluations = min(evaluations, FEW)
    sides = [(live_side(reference, a), a, b, False), (live_side(candidate, b), b, a, True)]
    floor = floor if floor is not None else (comparison.floor_path or None)
    held = [live.weights() if live is not None else None for live, *_ in sides]
    other = [
        weights_by_partner(comparison, held[turned] or {}, theirs, bool(turned)) if theirs is not None else None
        for turned, theirs in enumerate(reversed(held))
    ]
    comparison.search = log = SearchLog(tell=tell)
    searches = []
    for (live, own, foreign, turned), weights in zip(sides, other, strict=True):
        if live is not None:
            shared = FIRST_SIDE if not turned and sides[1][0] is not None else 1
            across = sides[0][0] if turned else sides[1][0]
            late = partial(_spent, log, evaluations * shared)
            searches.append(CauseSearch(live, own, foreign, turned, weights, floor, map, late, log, across))
    if len(searches) > 1:
        searches[0].across, searches[1].across = searches[1], searches[0]
    repaired = _Repaired(comparison, searches, evaluations)
    for search in searches:
        search.by_line = repaired.is_known
    if comparison.first is not None and comparison.first.key.slot == "rng" and recorded:
        comparison.causes = _of_draws(recorded, comparison, searches)
    else:
        comparison.causes = _causes(comparison, searches, recorded, limit, rounding, log)
    try:
        with ending_orderly():
            if not log.interrupted:
                repaired.tell()
    except KeyboardInterrupt:
        log.interrupted = True
    return comparison.causes


def _causes(
    comparison: Comparison,
    searches: list[CauseSearch],
    recorded: list[Cause],
    limit: int,
    rounding: bool,
    log: SearchLog,
) -> list[Cause]:
    """What the recorded values say that is proven by a run, else what is found on the live sides."""
    causes: list[Cause] = []
    try:
        with ending_orderly():
            known = _told_by_values(recorded, comparison, searches)
            if known is not None:
                return [known]
            causes = _searched(comparison, searches, limit, rounding, log)
    except KeyboardInterrupt:
        log.interrupted = True
        causes = max((search.found for search in searches), key=_standing, default=[])
    if searches and _standing(causes) < PROVEN and not log.interrupted:
        _proven_by_runs(recorded, comparison, searches)
    return together(comparison, causes, recorded)


class _Repaired:
    """The line of the candidate with which, written otherwise, the whole run agrees; looked for once, when it is
    asked for first."""

    def __init__(self, comparison: Comparison, searches: list[CauseSearch], evaluations: int) -> None:
        self._comparison, self._searches, self._evaluations = comparison, searches, evaluations
        self._asked = False
        self._found: Cause | None = None
        self._explained: Comparison | None = None

    def is_known(self) -> bool:
        return self.cause() is not None

    def cause(self, depth: Depth = Depth.EVERYTHING) -> Cause | None:
        if not self._asked:
            self._asked, before = True, self._comparison.explained
            seen = [search.seen.edit.line for search in self._searches if search.seen is not None]
            told = [str(cause.evidence.get("line", "")) for cause in self._comparison.causes]
            for search in self._searches:
                lines = {line for line in (*seen, *told) if line}
                self._found = self._found or repaired_line(search, self._comparison, self._evaluations, lines, depth)
            self._explained, self._comparison.explained = self._comparison.explained, before
        return self._found

    def tell(self) -> None:
        """It is the cause where nothing stands to the end, or where expressions are told in which a person has to look
        for what is different; else it is what to change."""
        causes = self._comparison.causes
        stands = bool(causes) and all(cause.standing is Standing.PROVEN for cause in causes)
        if stands and "rank" not in causes[0].evidence:
            return  # what the recorded values say by themselves: no line has to be looked for
        hard = stands and _is_hard_to_read(causes[0])
        found = self.cause(Depth.EVERYTHING if not stands else Depth.WHOLE_TERMS if hard else Depth.PLAIN)
        if found is None:
            return
        self._comparison.begins = found.evidence["line"]
        if not stands or hard or _is_of_another_number(causes[0], found):
            self._comparison.causes, self._comparison.explained = [found], self._explained
        else:
            self._comparison.explained = self._explained
            causes[0].fix = found.fix
            causes[0].evidence |= {name: found.evidence[name] for name in ("line", "before", "after")}


def _is_of_another_number(cause: Cause, found: Cause) -> bool:
    """True for numbers of the code that the line with which all is right does not have: they switch the fault off."""
    told = re.match(r"(\S+) instead of (\S+) in the code of", cause.why)
    return told is not None and not any(number in str(found.evidence["before"]) for number in told.groups())


def _is_hard_to_read(cause: Cause) -> bool:
    """True for several things at once, two long expressions, and numbers of which it is not said how they are made."""
    said = cause.why.partition(" in the candidate")[0]
    hard = len(said) > READABLE or "<" in said or "; and " in said
    return cause.name == UNNAMED or (cause.name in EXPRESSIONS and hard)


def _told_by_values(recorded: list[Cause], comparison: Comparison, searches: list[CauseSearch]) -> Cause | None:
    """A value of another step or row, or a schedule that one choice makes: proven by one run, before anything else."""
    candidate = next((search for search in searches if search.turned), None)
    reference = next((search for search in searches if not search.turned), None)
    # one place off in a table is less than another choice of the table that happens to give the same numbers
    for cause in sorted(recorded, key=lambda cause: cause.name != NEIGHBOUR):
        if _is_end(Key.parse(cause.at)) and cause.name in REARRANGED and cause.standing is Standing.PROVEN:
            return cause
        early = cause.name in (STALE, ROWS, NEIGHBOUR) or cause.evidence.get("certain")
        if early and candidate is not None and prove_handed_over(candidate, comparison, cause):
            if cause.name == STALE and reference is not None and _is_seen(reference, comparison):
                return None  # which line takes the value of another step says more
            if cause.name == ROWS and reference is not None:
                _tell_where_made(reference, comparison, cause)
            return cause
        if cause.evidence.get("certain") and reference is not None and prove_own_schedule(reference, comparison, cause):
            return cause
    return None


def _is_seen(reference: CauseSearch, comparison: Comparison) -> bool:
    """True if what the two sides are seen to do otherwise explains the run, with the port's line."""
    place = comparison.place
    seen, observed = reference.observed(comparison)
    comparison.place = place
    return seen is not None and bool(seen.edit.line) and observed is not None and is_closed(observed)


def _tell_where_made(reference: CauseSearch, comparison: Comparison, cause: Cause) -> None:
    """The line of the candidate's code that makes the value, where the steps of both sides show it."""
    seen = observed_difference(reference, comparison)
    if seen is not None and seen.edit.line:
        cause.fix = cause.fix.replace(IN_THE_PORT, f"in the port at {seen.edit.line}:", 1)
        cause.fix += f"; there {seen.edit.detail}"


def _of_draws(recorded: list[Cause], comparison: Comparison, searches: list[CauseSearch]) -> list[Cause]:
    """Other random numbers are the cause if with the reference's the whole run agrees; where the candidate cannot be
    run, or draws in another form, what was recorded has to do."""
    candidate = next((search for search in searches if search.turned), None)
    node = comparison.first
    if candidate is None or node is None or node.shape != node.other_shape:
        return recorded
    for cause in recorded:
        if cause.standing is Standing.PROVEN and not prove_draws(candidate, comparison, cause):
            cause.standing, cause.evidence["accepted"] = Standing.FITS, False
            cause.why = f"cause not proven; this fits the value only (the run as a whole stays different): {cause.why}"
    return recorded


def _is_end(key: Key) -> bool:
    """True for the result of a run: nothing comes behind it."""
    return key.path in ("@pipeline", "@result") and not key.is_input


def _proven_by_runs(recorded: list[Cause], comparison: Comparison, searches: list[CauseSearch]) -> None:
    """That a value is some other value says what it is, not why: where a side can be run, the proof is a run."""
    candidate = next((search for search in searches if search.turned), None)
    for cause in recorded:
        if cause.name not in DESCRIBING or cause.standing is not Standing.PROVEN or _is_end(Key.parse(cause.at)):
            continue
        if candidate is None or not prove_handed_over(candidate, comparison, cause):
            cause.standing, cause.evidence["accepted"] = Standing.FITS, False
            cause.why = f"cause not proven; this fits the value only: {cause.why}"


def _spent(log: SearchLog, most: float) -> bool:
    return log.spent > most


def _searched(
    comparison: Comparison, searches: list[CauseSearch], limit: int, rounding: bool, log: SearchLog
) -> list[Cause]:
    """What chance and facts explain first, on either side; then hypotheses, the reference's side first."""
    best: list[Cause] = []
    begun = {search.turned: from_facts(search, comparison) for search in searches}
    closings = [known.closing for known in begun.values() if known is not None]
    if not any(closing is not None and closing.closes for closing in closings):
        chance = [cause for search in searches for cause in unrepeatable(search, comparison)]
        if chance:
            return chance
    for search in sorted(searches, key=lambda s: begun[s.turned] is None):
        causes = search.all_causes(comparison, limit, begun[search.turned])
        if rounding:
            causes += search.roundings(comparison)
        log.runs += search.runs
        if not best or _standing(causes) > _standing(best) or not _standing(best):  # the last one has counted all
            best, comparison.explained = causes, search.explained
        if _standing(best) == PROVEN or log.interrupted:
            break
    return best


def _standing(causes: list[Cause]) -> int:
    """2 for a cause that stands, 1 for one that fits, 0 for none."""
    if not causes or causes[0].standing is Standing.UNKNOWN:
        return 0
    return PROVEN if causes[0].standing is Standing.PROVEN else 1


def together(comparison: Comparison, causes: list[Cause], recorded: list[Cause]) -> list[Cause]:
    """What the live models prove, else what the recorded values prove, else what fits, else that nothing was found."""
    proven = [c for c in causes if c.standing is Standing.PROVEN]
    behind = causes[len(proven) :] if proven else []
    recorded = list({c.name: c for c in reversed(recorded)}.values())[::-1]  # not the same thing in other words
    strong = [c for c in recorded if c.standing is Standing.PROVEN]
    if proven:
        if proven[0].name in GENERIC and (telling := [c for c in strong if c.name in TELLING]):
            return [telling[0], *proven, *behind]
        return [*proven, *behind]
    if strong:
        comparison.explained = None  # that is of what was tried
        return [strong[0], *[c for c in causes if c.standing is Standing.FITS]]
    fitting = [c for c in [*causes, *recorded] if c.standing is Standing.FITS]
    return fitting or causes or ([not_found(comparison)] if comparison.first is not None else [])
