"""Differences inside the floor that have a cause all the same: another rounding of the same formula.

A floor says how far rounding can carry a value, not that it did: `x / 160` and `x * (1 / 160)` are both right, differ
in a last bit, and times 981 that is 1e-5 of a sine. Such a cause is no fault, but it is found and proven like one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ..comparison.results import Cause, Comparison, NodeResult, Status
from ..recording.values import map_tensors
from .edits import Call, Edit, Site
from .examples import Example, edit
from .hypotheses.tensors import arithmetic_edits
from .probe import Probe, Survey, Trial

WORTH = 0.7  # what a step has to leave at most of the error
PROVEN = 0.1  # what all steps together have to leave at most
NODES = 3  # values looked at, in order
LARGE = 4.0  # evaluations that one run counts as: what costs more is no formula but a network


def rounding_causes(search: Any, comparison: Comparison) -> tuple[list[Edit], list[Cause]]:
    """Causes of what is above the rounding prior and inside the floor, one behind the other, with the edits that
    prove them."""
    for node in [n for n in comparison.nodes if n.status is Status.FLOOR and not n.key.is_operation][:NODES]:
        for probe in search.module_probes(comparison, node):
            steps = _steps(probe)
            if steps:
                return [trial.edit for trial in steps], _causes(search, node, steps)
    return [], []


def _steps(probe: Probe) -> list[Trial]:
    """Greedy: the best rounding, then the best one behind it, as long as each of them is worth it."""
    survey = probe.survey()
    if probe.cost > LARGE:
        return []
    before = probe.goal.before
    steps: list[Trial] = []
    left = before
    while left > 0:
        best = _best(probe, survey, [trial.edit for trial in steps])
        if best is None or best.residual > WORTH * left:
            break
        steps.append(best)
        left = best.residual
    return steps if left <= PROVEN * before else []


def _best(probe: Probe, survey: Survey, held: list[Edit]) -> Trial | None:
    found: list[Trial] = []
    kept, probe.held = probe.held, (*probe.held, *held)
    taken = {site for one in held for change in one.changes for site in getattr(change, "sites", ())}
    try:
        for site, example in survey.sites.items():
            if site not in taken:
                found += [t for e in _edits(example, frozenset([site])) if (t := probe.attempt(e)) is not None]
    finally:
        probe.held = kept
    return min(found, key=lambda trial: trial.residual, default=None)


def _edits(example: Example, sites: frozenset[Site]) -> Iterator[Edit]:
    yield from (e for e in arithmetic_edits(example, sites) if e.name == "rounding")
    if example.floating:
        words = f"`{example.op}` rounded once from its exact value (another library's differs in the last bit)"
        yield edit("rounding", words, sites, _rounded_once, rank=4)


def _rounded_once(call: Call) -> torch.Tensor:
    result: torch.Tensor = call.function(*map_tensors(call.args, _wide), **map_tensors(call.kwargs, _wide))
    return result.to(call.run().dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _causes(search: Any, node: NodeResult, steps: list[Trial]) -> list[Cause]:
    """Each with the error that it leaves behind those before it."""
    causes = []
    before = steps[0].goal.before
    for trial in steps:
        cause: Cause = search.rounding_cause(trial, node, before)
        cause.evidence["inside the floor"] = True
        causes.append(cause)
        before = trial.residual
    return causes
