"""Which of the hypotheses that fit is the cause: the one with which the whole run agrees, if no rival does as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..comparison.results import Comparison
from .edits import Edit
from .probe import Trial
from .whole_run import Closing

CLOSED = 6  # hypotheses that fit the value and are tried on the whole run
LEAST_PROVING = 4  # fewer numbers than this are met by anything that can be chosen
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


def judge(search: Any, trials: Iterable[Trial], comparison: Comparison) -> Judgement:
    """Try the best hypotheses on the whole run; the first that closes it is chosen."""
    best = ranked(trials)
    accepted = [trial for trial in best if trial.accepted]
    if not accepted:
        return Judgement(None, nearest=best[0] if best else None)
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
        and not places(other.edit) & places(chosen.edit)
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
    if trial.fitted or trial.goal.size < LEAST_PROVING:
        return False
    part = trial.part
    return not (first.key.path == part or first.key.path.startswith((f"{part}.", f"{part}/")))


def places(edit: Edit) -> frozenset[str]:
    """What an edit changes, by name."""
    found: set[str] = set()
    for change in edit.changes:
        sites = getattr(change, "sites", None)
        found |= {str(site) for site in sites} if sites else {str(getattr(change, "path", change))}
    return frozenset(found)


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
