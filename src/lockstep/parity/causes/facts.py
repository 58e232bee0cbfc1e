"""What both sides show by themselves: weights that differ, inputs that are written into, attributes that differ.

Each becomes one edit that is tried on the whole run: a fact that changes nothing is no cause.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..comparison.results import Comparison, Status
from .edits import Edit, ModuleChange, ParameterChange
from .hypotheses.arguments import argument_edits
from .hypotheses.call_counts import OTHER_MODULE, call_count_edits
from .hypotheses.kept_state import kept_state_edits
from .hypotheses.layer_order import layer_order_edits
from .hypotheses.state import state_edits
from .hypotheses.step_state import step_state_edits
from .hypotheses.weights import weight_words
from .in_place import written_in_place
from .judgement import Judgement, trial_of
from .observed.own_values import own_value_edits
from .own_tables import own_table_edits

MOST = 12  # facts tried on the whole run


def from_facts(search: Any, comparison: Comparison, edits: Iterator[Edit] | None = None) -> Judgement | None:
    """The first fact with which the whole run agrees, or with which at least its first bad value is right."""
    partly: Judgement | None = None
    for count, edit in enumerate(_edits(search, comparison) if edits is None else edits):
        if count >= MOST or search.late():
            break
        search.log.trying(edit.name, "the whole run")
        for closing in search.whole.closings(edit, search.held, None, comparison):
            trial = trial_of(search, edit, comparison, closing)
            if trial is None:
                continue
            if closing.closes:
                _place_weights(search, edit, comparison)
                _place_call(search, edit, comparison)
                return Judgement(trial, closing, True)
            before = comparison.first.order if comparison.first is not None else -1
            if partly is None and closing.reach > before and trial.accepted and edit.rank == 0:
                partly = Judgement(trial, closing, True)
    return partly


def _place_weights(search: Any, edit: Edit, comparison: Comparison) -> None:
    """Where the first of the weights that differ is used, if the values there were not compared."""
    paths = [c.path for c in edit.changes if isinstance(c, ParameterChange)]
    first = comparison.first
    if search.turned or first is None or len(paths) < len(edit.changes) or first.key.path in paths or search.held:
        return
    used = [e.key for e in search.own.entries if e.key.path in paths and not e.key.is_input]
    if used:
        comparison.place = replace(first, key=used[0], how="loaded", status=Status.STRUCT, problem="other weights")


def _place_call(search: Any, edit: Edit, comparison: Comparison) -> None:
    """The call of another module than the reference's: the candidate has nothing of that name to compare."""
    first = comparison.first
    if edit.name != OTHER_MODULE or search.turned or first is None or search.held:
        return
    paths = {c.path for c in edit.changes if isinstance(c, ModuleChange)}
    used = [e.key for e in search.own.entries if e.key.path in paths and not e.key.is_input]
    if used:
        words = "another module is called in its place"
        comparison.place = replace(first, key=used[0], how="calls", status=Status.STRUCT, problem=words)


def _edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    yield from layer_order_edits(search, comparison)
    yield from different_weights(search)
    yield from kept_state_edits(search)
    yield from call_count_edits(search)
    yield from argument_edits(search, comparison)
    yield from written_in_place(search)
    yield from state_edits(search, comparison)
    yield from _of_loops(search, comparison)


def _of_loops(search: Any, comparison: Comparison) -> Iterator[Edit]:
    """What is wrong between the models: nothing there is, where the one around the value is given the right thing."""
    own = comparison.first.other if comparison.first is not None else None
    if own is not None and not search.is_given_right(own, comparison):
        yield from step_state_edits(search, comparison)
        yield from own_table_edits(search, comparison, explained=True)
        yield from own_value_edits(search, comparison, remembered=True)


def unexplained_edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    """What puts the code between the models right without saying why it is wrong: tried where nothing else explains
    it."""
    own = comparison.first.other if comparison.first is not None else None
    if own is not None and search.turned and not search.is_given_right(own, comparison):
        yield from own_table_edits(search, comparison, explained=False)
        yield from own_value_edits(search, comparison, remembered=False)


def different_weights(search: Any) -> Iterator[Edit]:
    """All parameters that differ, at once; where some only have another order, first those with other numbers."""
    found = list(differing(search))
    numbers, order = ([one for one in found if one.rearranged is so] for so in (False, True))
    for some in [numbers, found, order] if numbers and order else [found]:
        if len(some) > 1:
            rank = int(any(one.rearranged for one in some))  # another order has to explain the whole run
            yield Edit(*_words_of(some, search), tuple(one.change for one in some), rank=rank)
        elif some:
            yield Edit(some[0].name, some[0].words, (some[0].change,), rank=1)


@dataclass(frozen=True)
class Different:
    """One parameter of which the other side holds something else."""

    path: str
    name: str
    words: str
    change: ParameterChange
    rearranged: bool  # the same numbers in another order: it may be the other side's good right

    @property
    def kind(self) -> tuple[str, str]:
        return self.name, self.words.partition("` ")[2].partition(" (")[0]


def differing(search: Any) -> Iterator[Different]:
    if search.weights is None:
        return
    own = search.live.weights()  # a tensor that two modules share has one name there
    tensors = {
        f"{p}.{n}": t for p, m in search.modules.items() for n, t in [*m._parameters.items(), *m._buffers.items()]
    }
    by_tensor = {id(tensors[n]): search.weights[n] for n in own if n in search.weights and tensors.get(n) is not None}
    for path, module in search.modules.items():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            theirs = search.weights.get(f"{path}.{name}", by_tensor.get(id(tensor)))
            if tensor is None or theirs is None or theirs.shape != tensor.shape:
                continue
            there = theirs.to(tensor.dtype)
            if not torch.equal(there, tensor):
                told = weight_words(f"{path}.{name}", tensor, theirs, search.modules)
                change = ParameterChange(path, name, lambda t, w=theirs: w.to(t.dtype))
                yield Different(f"{path}.{name}", *told, change, _is_rearranged(tensor, there))


def _is_rearranged(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.equal(*(tensor.detach().flatten().sort().values for tensor in (ours, theirs)))


def _words_of(different: list[Different], search: Any) -> tuple[str, str]:
    kinds: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in different:
        kinds[one.kind].append(one.path)
    paths, count = [path for members in kinds.values() for path in members], len(different)
    below = _common(paths)
    whole = sum(1 for m in search.modules.values() for p in m._parameters.values() if p is not None)
    where = "all parameters" if count == whole else f"{count} parameters" + (f" of `{below}`" if below else "")
    names, details = ({kind[i] for kind in kinds} for i in (0, 1))
    if names == {"precision"} and len(details) == 1:
        return "weights_precision", f"{where} {next(iter(details)).replace('holds its', 'are their')}"
    if names == {"tied_weight"} and len(paths) > 1 and {_named(detail) for detail in details} == set(paths):
        return "swapped_weights", f"the values of {' and '.join(f'`{path}`' for path in paths[:4])} are exchanged"
    if not any(detail.startswith("holds other values") for detail in details):
        shown = ", ".join(f"`{path}`" for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        each = f"each {next(iter(details))}" if len(details) == 1 else f"the first {next(iter(kinds))[1]}"
        return next(iter(kinds))[0], f"{shown}: {each}"
    return "weight_values", f"{where} hold other values: not loaded, stale, or of another checkpoint"


def _named(detail: str) -> str:
    """Whose values a weight holds, from the words for it."""
    return detail.partition("values of `")[2].rstrip("`")


def _common(paths: list[str]) -> str:
    split = [path.split(".") for path in paths]
    shared = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
