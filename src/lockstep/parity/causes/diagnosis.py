"""Why the first difference arises: hypotheses tried on the live models, or on the recorded values alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..comparison.results import Cause, Comparison, SearchLog, Verdict
from ..floors.file import Floor
from ..trace.reader import Trace
from .live import Live, live_side
from .recorded import recorded_causes
from .search import CauseSearch

__all__ = ["Live", "diagnose"]

LIMIT = 4  # causes looked for, one behind the other
SECONDS = 120.0
GENERIC = ("wrong_operand", "random_offset")  # "some other value": true of many faults
TELLING = ("patch_noise", "dropout", "precision", "timestep_dtype", "pooling_index")  # recorded, and more than that
FIRST_SIDE = 0.6  # of the time, so that something is left for the other side


def diagnose(
    comparison: Comparison,
    *,
    reference: Any = None,
    candidate: Any = None,
    floor: str | Path | Floor | None = None,
    limit: int = LIMIT,
    seconds: float = SECONDS,
    map: Any = "auto",
    traces: tuple[Trace, Trace] | None = None,
    rounding: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Cause]:
    """Name the causes of a BUG or DRIFT with their proof, and put them into `comparison.causes`.

    `reference` and `candidate` are what was recorded (a module, a pipeline, or `Live(target, call)`); give the one, the
    other, or both. With neither, only what the recorded values themselves prove is found. `rounding` also looks for
    causes of what lies inside the floor. `clock` is what `seconds` are measured by.
    """
    differs = comparison.verdict in (Verdict.BUG, Verdict.DRIFT) and comparison.first is not None
    if not differs and not (rounding and comparison.verdict is Verdict.NOISE):
        return []
    a, b = traces or (Trace.open(comparison.reference_path), Trace.open(comparison.candidate_path))
    recorded = recorded_causes(comparison, comparison.first, a, b) if comparison.first is not None else []
    if comparison.first is not None and comparison.first.key.slot == "rng" and recorded:
        comparison.causes = recorded  # what was drawn is not made of anything that could be changed
        return recorded
    sides = [(live_side(reference, a), a, b, False), (live_side(candidate, b), b, a, True)]
    floor = floor if floor is not None else (comparison.floor_path or None)
    other = [live.weights() if live is not None else None for live in (sides[1][0], sides[0][0])]
    causes: list[Cause] = []
    comparison.search = log = SearchLog()
    began, count = clock(), sum(side[0] is not None for side in sides)
    for (live, own, foreign, turned), weights in zip(sides, other, strict=True):
        if live is not None:
            deadline = began + seconds * (FIRST_SIDE if count > 1 and not turned else 1)
            search = CauseSearch(
                live, own, foreign, turned, weights, floor, map, lambda end=deadline: clock() > end, log  # type: ignore[misc]
            )  # fmt: skip
            causes = search.unrepeatable(comparison) or search.all_causes(comparison, limit)
            if rounding:
                causes += search.roundings(comparison)
            comparison.explained = search.explained
            log.runs += search.runs
            if causes and causes[0].evidence.get("accepted"):
                break
    proven = [c for c in causes if c.evidence.get("accepted")]
    recorded = [c for c in recorded if not proven or c.name != "wrong_operand"]
    found = [*proven, *recorded, *[c for c in causes if c not in proven]]
    if proven and proven[0].name in GENERIC:
        found.sort(key=lambda c: c.name not in TELLING)
    comparison.causes = found
    return comparison.causes
