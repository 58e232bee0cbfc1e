"""What both sides show by themselves: weights that differ, inputs that are written into, attributes that differ.

Each becomes one edit that is tried on the whole run: a fact that changes nothing is no cause.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..comparison.results import Comparison
from .edits import Call, Edit, OperationChange, ParameterChange, Site
from .failures import noted
from .hypotheses.call_counts import call_count_edits
from .hypotheses.state import state_edits
from .hypotheses.weights import weight_words
from .judgement import Judgement, trial_of
from .pipeline_probe import PipelineProbe

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


@dataclass(frozen=True)
class _Write:
    """One operation that changed a tensor which something else had made."""

    site: Site
    index: int
    maker: str


def written_in_place(search: Any) -> Iterator[Edit]:
    """Operations that write into their own input, done on a copy instead: all of a kind at once, then one by one."""
    writes = _writes(search)
    side = "candidate" if search.turned else "reference"
    groups: dict[Any, list[_Write]] = defaultdict(list)
    for write in writes:
        groups[type(search.modules.get(write.site.path)).__name__, write.site.op, write.site.index].append(write)
    for members in groups.values():
        first = members[0]
        changes = tuple(OperationChange(frozenset([w.site]), _on_copy(w.index)) for w in members)
        words = f"`{first.site}` writes into {first.maker}, which is used again" + (
            f" (in {len(members)} places)" if len(members) > 1 else ""
        )
        undone = f"`{first.site}` on a copy of its input"
        yield Edit("in_place", undone, changes, rank=1, fault=f"{words}, in the {side}")


def _writes(search: Any) -> list[_Write]:
    """Seen by a run that only looks: a version counter that moved, of a tensor that was not made in the same breath."""
    found: dict[Site, _Write] = {}
    makers: dict[int, tuple[torch.Tensor, str, int]] = {}

    def observe(site: Site, call: Call, result: Any) -> None:
        for index, value in enumerate(call.args):
            if not isinstance(value, torch.Tensor):
                continue
            known = makers.get(id(value))
            version = _version(value)
            if known is not None and known[0] is value and version > known[2]:
                if known[1] != "fresh":
                    found.setdefault(site, _Write(site, index, known[1]))
                makers[id(value)] = (value, known[1], version)
        if isinstance(result, torch.Tensor) and id(result) not in makers:
            makers[id(result)] = (result, "fresh", _version(result))

    def seen(path: str, what: str) -> Any:
        def hook(module: nn.Module, args: Any, *more: Any) -> None:
            values = args if what == "input" else more[-1:]
            for value in values:
                if isinstance(value, torch.Tensor):
                    known = makers.get(id(value))
                    name = known[1] if known is not None and known[0] is value and known[1] != "fresh" else ""
                    words = name or (f"the input of `{path}`" if what == "input" else f"the result of `{path}`")
                    makers[id(value)] = (value, words, _version(value))

        return hook

    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad(), noted(search.log, search.held, "the run"):
        warnings.simplefilter("ignore")
        for path, module in search.modules.items():
            stack.callback(module.register_forward_pre_hook(seen(path, "input")).remove)
            stack.callback(module.register_forward_hook(seen(path, "result")).remove)
        with PipelineProbe.edited(search.live, search.held, observe):
            search.live.run(search.own)
    search.log.spent += search.whole.cost
    return list(found.values())


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _on_copy(index: int) -> Any:
    def apply(call: Call) -> Any:
        return call.operand(index, call.args[index].clone())

    return apply
