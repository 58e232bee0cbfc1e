"""What both sides show by themselves: weights that differ, inputs that are written into, attributes that differ.

Each becomes one edit that is tried on the whole run: a fact that changes nothing is no cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch

from ..comparison.results import Comparison
from .edits import Edit, ParameterChange
from .hypotheses.call_counts import call_count_edits
from .hypotheses.kept_state import kept_state_edits
from .hypotheses.state import state_edits
from .hypotheses.weights import weight_words
from .in_place import written_in_place
from .judgement import Judgement, trial_of

MOST = 6  # facts tried on the whole run


def from_facts(search: Any, comparison: Comparison) -> Judgement | None:
    """The first fact with which the whole run agrees, or with which at least its first bad value is right."""
    partly: Judgement | None = None
    for count, edit in enumerate(_edits(search, comparison)):
        if count >= MOST or search.late():
            break
        search.log.trying(edit.name, "the whole run")
        for closing in search.whole.closings(edit, search.held, None, comparison):
            trial = trial_of(search, edit, comparison, closing)
            if trial is None:
                continue
            if closing.closes:
                return Judgement(trial, closing, True)
            before = comparison.first.order if comparison.first is not None else -1
            if partly is None and closing.reach > before and trial.accepted and edit.rank == 0:
                partly = Judgement(trial, closing, True)
    return partly


def _edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    yield from different_weights(search)
    yield from kept_state_edits(search)
    yield from call_count_edits(search)
    yield from written_in_place(search)
    yield from state_edits(search, comparison)


def different_weights(search: Any) -> Iterator[Edit]:
    """All parameters that differ, at once; a single one is left to the hypotheses about its module."""
    if search.weights is None:
        return
    changes: list[ParameterChange] = []
    kinds: dict[str, list[str]] = defaultdict(list)
    for path, module in search.modules.items():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            theirs = search.weights.get(f"{path}.{name}")
            if tensor is None or theirs is None or theirs.shape != tensor.shape:
                continue
            if torch.equal(theirs.to(tensor.dtype), tensor):
                continue
            kind, words = weight_words(f"{path}.{name}", tensor, theirs, search.modules)
            kinds[f"{kind}|{words.partition('` ')[2].partition(' (')[0]}"].append(f"{path}.{name}")
            changes.append(ParameterChange(path, name, lambda t, w=theirs: w.to(t.dtype)))
    if len(changes) > 1:
        yield Edit(*_words_of(kinds, len(changes), search), tuple(changes), rank=0)


def _words_of(kinds: dict[str, list[str]], count: int, search: Any) -> tuple[str, str]:
    paths = [path for members in kinds.values() for path in members]
    below = _common(paths)
    whole = sum(1 for m in search.modules.values() for p in m._parameters.values() if p is not None)
    where = "all parameters" if count == whole else f"{count} parameters" + (f" of `{below}`" if below else "")
    names = {kind.partition("|")[0] for kind in kinds}
    details = {kind.partition("|")[2] for kind in kinds}
    if names == {"precision"} and len(details) == 1:
        return "weights_precision", f"{where} {next(iter(details)).replace('holds its', 'are their')}"
    if len(names) == 1 and names != {"weight_values"}:
        shown = ", ".join(f"`{path}`" for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        each = (
            f"each {next(iter(details))}" if len(details) == 1 else f"the first {next(iter(kinds)).partition('|')[2]}"
        )
        return next(iter(names)), f"{shown}: {each}"
    return "weight_values", f"{where} hold other values: not loaded, stale, or of another checkpoint"


def _common(paths: list[str]) -> str:
    split = [path.split(".") for path in paths]
    shared = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
