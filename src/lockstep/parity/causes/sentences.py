"""Causes in words: proven ones, those that fit one value only, and that none was found."""

from __future__ import annotations

from typing import Any

from ..comparison.results import Cause, Comparison, NodeResult, SearchLog, Standing, Status
from .edits import Edit
from .judgement import GENERIC_RANK, Judgement
from .observed.expressions import shared_begin
from .probe import SPECIFIC, Trial

LISTED = 3  # rivals that are named
# What an edit of the candidate leaves out, the candidate does too much.
_TURNED = {"left_out": "extra_step", "call_twice": "call_left_out", "call_left_out": "call_twice"}


def proven_cause(search: Any, trial: Trial, node: NodeResult) -> Cause:
    """A cause with the residual before and after."""
    goal = trial.goal
    run, meant = ("candidate", "reference") if search.turned else ("reference", "candidate")
    tail = f", floor {goal.node.floor:.1e}" if goal.node.floor is not None else f", threshold {goal.tau:.1e}"
    takes = f"takes the error from {goal.before:.2g} to {trial.residual:.2g}{tail}"
    why = f"{trial.edit.detail} in the {meant}: doing so in the {run}, too, {takes}"
    if search.turned and (trial.edit.name == "wrong_operand" or trial.edit.rank >= GENERIC_RANK):
        # what puts the candidate right in its own terms need not be what the reference does
        why = f"the candidate is right where {trial.edit.detail}: that {takes}"
    if trial.edit.fault:
        why = f"{trial.edit.fault}: {trial.edit.detail} {takes}"
    return Cause(
        cause_name(trial.edit, search.turned), why, str(node.key),
        goal.before, trial.residual, goal.node.floor, repair(trial.edit, node, search.turned),
        {
            "accepted": True, "measured_at": str(goal.node.key), "threshold": goal.tau,
            "exact": trial.exact, "rank": trial.edit.rank, "runs": search.runs + search.log.runs,
        },
    )  # fmt: skip


def found_cause(search: Any, comparison: Comparison, judgement: Judgement) -> Cause:
    """What was chosen, as the cause if it stands, else as one that fits this value."""
    node, trial, closing = comparison.first, judgement.chosen, judgement.closing
    assert node is not None
    assert trial is not None
    cause = proven_cause(search, search.at_the_node(trial, comparison, node), node)
    cause.evidence["line"] = trial.edit.line
    cause.evidence["alternatives"] = [_alternative(t, search.turned) for t in judgement.alike or judgement.rivals]
    if closing is not None and judgement.stands:
        cause.evidence["with it"] = closing.again.sentence()
        cause.evidence["everywhere"] = closing.edit is not trial.edit
        cause.fix = repair(closing.edit, node, search.turned)
        if judgement.line and not search.turned:
            cause.fix = cause.fix.replace("in the port, at what", f"in the port at {judgement.line}, at what", 1)
    if not judgement.stands or judgement.alike:
        _only_fits(cause, judgement)
    return cause


def is_repeated(first: Cause, cause: Cause) -> bool:
    """True for the same thing in another place: the same line of the candidate, or the same words."""
    if Standing.PROVEN not in (first.standing, cause.standing) or first.standing is not cause.standing:
        return False
    lines = first.evidence.get("line"), cause.evidence.get("line")
    return first.name == cause.name and bool(lines[0]) and lines[0] == lines[1]


def once_more(first: Cause, again: Cause) -> None:
    """One cause for both places."""
    places = first.evidence["places"] = first.evidence.get("places", 1) + 1
    first.evidence["with it"] = again.evidence.get("with it", "")
    head = first.fix.partition(" (that line also runs at ")[0]
    first.fix = f"{head} (that line also runs at {places - 1} other place{'s' * (places > 2)}, such as {again.at})"


def _only_fits(cause: Cause, judgement: Judgement) -> None:
    cause.standing = Standing.FITS
    cause.evidence["accepted"] = False
    others = [f"{a['name']} ({a['detail']})" for a in cause.evidence["alternatives"][:LISTED]]
    if judgement.alike:
        reason = "others explain the whole run as well"
    elif judgement.contradicted:
        reason = "the whole run agrees with it, but the candidate is seen to do the same there"
    elif judgement.closing is None:
        reason = "the whole run could not be repeated with it"
    else:
        reason = "the run as a whole stays different with it"
    also = f"; so does {', '.join(others)}" if others else ""
    if judgement.seen is not None and judgement.chosen is not None and judgement.chosen.edit is not judgement.seen.edit:
        also += f"; seen there: {seen_words(judgement.seen.edit)}"
    cause.why = f"cause not proven; this fits the value only ({reason}): {cause.why}{also}"


def seen_words(edit: Edit) -> str:
    return f"{edit.detail} in the candidate" + (f" at {edit.line}" if edit.line else "")


def settled(found: list[Cause]) -> list[Cause]:
    """Causes one behind the other stand together: with an open end only what is specific stands by itself."""
    if len(found) > 1 and found[-1].standing is not Standing.PROVEN:
        found[-1].why = f"behind it another difference: {found[-1].why}"
        if any(cause.evidence["rank"] >= SPECIFIC for cause in found[:-1]):
            for cause in found[:-1]:
                cause.standing, cause.evidence["accepted"] = Standing.FITS, False
                cause.why = (
                    f"cause not proven; this fits the value only (behind it the run stays different): {cause.why}"
                )
    return found


def unknown_cause(search: Any, comparison: Comparison, judgement: Judgement) -> Cause:
    """No hypothesis fits: where it is, what goes in there, what was tried, and what to do next."""
    node = comparison.first
    assert node is not None
    why = f"cause not found: {tried_words(search.log)}; {inputs_words(comparison, node)}"
    nearest = judgement.nearest
    if nearest is not None and nearest.residual < 0.7 * nearest.goal.before:
        why += (
            f"; nearest: {nearest.edit.detail}, which leaves {nearest.residual / nearest.goal.before:.0%} of the error"
        )
    seen = judgement.seen or (search.across.seen if search.across is not None else None)
    if seen is not None:
        why += f"; seen there: {seen_words(seen.edit)}, which does not explain the run by itself"
    evidence = {"accepted": False, "tried": dict(search.log.tried), "runs": search.runs + search.log.runs}
    before = node.error if node.error is not None else float("inf")
    return Cause(
        "unknown", why, str(node.key), before, before, node.floor, next_command(comparison), evidence, Standing.UNKNOWN
    )


def not_found(comparison: Comparison) -> Cause:
    """No side can be run again, and the recorded values alone say nothing."""
    node, log = comparison.first, comparison.search or SearchLog()
    assert node is not None
    why = f"cause not found: {tried_words(log)}; {inputs_words(comparison, node)}"
    before = node.error if node.error is not None else float("inf")
    evidence = {"accepted": False, "tried": dict(log.tried)}
    return Cause(
        "unknown", why, str(node.key), before, before, node.floor, next_command(comparison), evidence, Standing.UNKNOWN
    )


def tried_words(log: SearchLog) -> str:
    count = sum(log.tried.values())
    if not count:
        return "nothing could be tried, since no side can be run again"
    most = sorted(log.tried, key=lambda name: -log.tried[name])[:5]
    return f"{count:,} hypotheses of {len(log.tried)} kinds tried ({', '.join(most)}, …)"


def inputs_words(comparison: Comparison, node: NodeResult) -> str:
    """What is known of the values that go into the first bad one."""
    known = [n for key in node.inputs if (n := comparison.node(key)) is not None]
    if not known:
        return "what goes into it was not captured"
    bad = [n for n in known if n.bad]
    if bad:
        return f"of what goes into it `{bad[0].key}` is different already"
    if all(n.status is Status.SAME for n in known):
        return f"its captured inputs ({len(known)}) are equal to the last bit, so it arises in this very call"
    return f"its captured inputs ({len(known)}) agree inside their thresholds"


def next_command(comparison: Comparison) -> str:
    first = comparison.first
    if first is None or not comparison.reference_path or not comparison.candidate_path:
        return ""
    return (
        f"look at this node alone: lockstep parity zoom {comparison.reference_path} {comparison.candidate_path} --at "
        f"'{first.key}'"
    )


def cause_name(edit: Edit, turned: bool) -> str:
    return _TURNED.get(edit.name, edit.name) if turned else edit.name


def repair(edit: Edit, node: NodeResult, turned: bool) -> str:
    """What to change in the port.

    An edit of the candidate is the repair itself; one of the reference imitates the fault.
    """
    if edit.fix:
        return edit.fix
    at = place_of(edit, node)
    if edit.line:
        said, all_, many = edit.detail.partition(" (in all ")
        said, and_so, places = said.partition(" (and so in ")
        wrong, instead, right = said.partition(" instead of ")
        one = instead and " instead of " not in right and "; and " not in wrong
        there = f"{right} belongs there, not {wrong}" if one else f"it must not be so: {said}"
        return f"in the port at {edit.line} (`{node.key.path}`): {there}{and_so}{places}{all_}{many}"
    words, _, many = edit.detail.partition(" (in all ")
    many = f" (in all {many}" if many and not at.endswith(" more") else ""
    if turned:
        return f"at {at} in the port: {words}{many}"
    wrong, instead, right = words.partition(" instead of ")
    if instead:
        setting, is_, value = wrong.partition(" is ")
        if is_ and setting.startswith("`"):
            return f"set {setting} to {right} in the port, where it is {value}{many}"
        return f"in the port, at what the reference calls {at}: {right}, not {wrong}{many}"
    for ending, verb in ((" left out", "do"), (" run twice", "run once"), (" applied twice", "apply once")):
        head, found, tail = words.partition(ending)
        if found:
            return f"{verb} {head} in the port{tail.partition(' (')[0]}{many}"
    return f"in the port, at what the reference calls {at}, it must not be so: {words}{many}"


def place_of(edit: Edit, node: NodeResult) -> str:
    found = {site for change in edit.changes for site in getattr(change, "sites", ())}
    sites = sorted(found, key=lambda site: (-shared_begin(str(site), node.key.path), site))
    if sites:
        return f"`{sites[0]}`" + (f" and {len(sites) - 1} more" if len(sites) > 1 else "")
    return f"`{getattr(edit.changes[0], 'path', node.key.path)}`"


def _alternative(trial: Trial, turned: bool) -> dict[str, Any]:
    return {"name": cause_name(trial.edit, turned), "detail": trial.edit.detail, "residual": trial.residual}
