"""The tables: what was detected, where, why, at which cost, and beside the usual rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from .baselines import RULES
from .cases import Outcome


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f} %" if whole else "    -  "


def _said(outcome: Outcome) -> bool:
    return outcome.verdict in ("BUG", "DRIFT", "RAISED")


def _named(outcome: Outcome) -> bool:
    return _said(outcome) and outcome.told and outcome.cause_rank == 1


def _wrong(outcome: Outcome) -> bool:
    """Confidently wrong: a name is told as the cause, and it is none of the right ones."""
    return _said(outcome) and outcome.told and outcome.cause_rank != 1


def print_summary(outcomes: list[Outcome], seconds: float) -> None:
    harmless = [o for o in outcomes if o.fault.harmless]
    print(
        f"\n{len(outcomes)} cases in {seconds:.0f} s; {len(harmless)} of them "
        f"({_percent(len(harmless), len(outcomes)).strip()}) are harmless\n"
    )
    print(
        f"{'':18}{'faults':>8}{'detected':>10}{'node 1':>9}{'node 3':>9}{'cause 1':>9}{'wrong':>9}{'silent':>9}   "
        f"{'harmless':>8}{'false BUG':>11}"
    )
    for dtype in dict.fromkeys(o.dtype for o in outcomes):
        for model in [*dict.fromkeys(o.fault.model for o in outcomes), "all"]:
            _row(f"{dtype} {model}", [o for o in outcomes if o.dtype == dtype and model in (o.fault.model, "all")])
    _cost(outcomes)
    _baselines(outcomes)
    _failures(outcomes)


def _row(label: str, outcomes: list[Outcome]) -> None:
    faults, harmless = [o for o in outcomes if not o.fault.harmless], [o for o in outcomes if o.fault.harmless]
    n = len(faults)
    counts = [
        sum(_said(o) for o in faults),
        sum(o.node_rank == 1 for o in faults if _said(o)),
        sum(o.node_rank is not None for o in faults if _said(o)),
        sum(_named(o) for o in faults),
        sum(_wrong(o) for o in faults),
        sum(_said(o) and not o.told for o in faults),
    ]
    false = sum(o.verdict == "BUG" for o in harmless)
    cells = "".join(f"{_percent(c, n):>9}" for c in counts[1:])
    print(
        f"{label:18}{n:>8}{_percent(counts[0], n):>10}{cells}   {len(harmless):>8}{_percent(false, len(harmless)):>11}"
    )


def _cost(outcomes: list[Outcome]) -> None:
    faults = [o for o in outcomes if not o.fault.harmless]
    if not faults:
        return
    runs = sorted(o.forwards for o in faults)
    print(
        f"\ncost of a case: {median(o.seconds for o in faults):.2f} s in the middle, "
        f"{max(o.seconds for o in faults):.1f} s at most; "
        f"{median(runs):.0f} runs of the suspect part in the middle, {runs[-1]} at most; trace "
        f"{median(o.bytes for o in faults) / 1024:.0f} KB"
    )


def _baselines(outcomes: list[Outcome]) -> None:
    measured = [o for o in outcomes if o.baselines]
    faults, harmless = [o for o in measured if not o.fault.harmless], [o for o in measured if o.fault.harmless]
    print(f"\n{'rule (per module)':22}{'detected':>10}{'first layer':>13}{'false alarm':>13}   on equivalent mutants")
    for dtype in dict.fromkeys(o.dtype for o in measured):
        for rule in RULES:
            some, none = [o for o in faults if o.dtype == dtype], [o for o in harmless if o.dtype == dtype]
            print(
                f"{dtype + ' ' + rule:22}{_percent(sum(o.baselines[rule][0] for o in some), len(some)):>10}"
                f"{_percent(sum(o.baselines[rule][1] for o in some), len(some)):>13}"
                f"{_percent(sum(o.baselines[rule][0] for o in none), len(none)):>13}"
            )


def _failures(outcomes: Iterable[Outcome]) -> None:
    groups: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for o in outcomes:
        label = f"{o.fault.model}: {o.fault.name}"
        if o.fault.harmless and o.verdict == "BUG":
            groups["called a BUG though harmless"][label].append(o)
        elif not o.fault.harmless and not _said(o):
            groups["not detected"][label].append(o)
        elif not o.fault.harmless and o.node_rank != 1:
            groups["first node not right"][label].append(o)
        if not o.fault.harmless and _said(o) and not _named(o):
            groups["confidently wrong" if o.told else "cause not told"][label].append(o)
    for title, cases in groups.items():
        print(f"\n{title}:")
        for label, found in cases.items():
            where = ", ".join(sorted({f"{o.dtype}/{o.seed}" for o in found}))
            print(f"  {label} [{where}]: {found[0].verdict} {found[0].first} {found[0].causes}")
