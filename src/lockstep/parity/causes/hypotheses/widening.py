"""The same hypothesis at every place where it may have been ported so: what was written wrong once is wrong wherever
it is used."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

import torch
from torch import nn

from ...trace.reader import Trace
from ..edits import AttributeChange, Call, Change, Edit, OperationChange, Site
from ..examples import Example, example_of
from ..flow import DataFlow
from ..live import Live
from ..pipeline_probe import PipelineProbe
from ..probe import Probe, Read, Survey, children_of, note_child
from .catalogue import (  # fmt: skip
    alike_setting,
    child_edits,
    input_edits,
    module_as_activation,
    operand_edits,
    own_frame_edits,
    rotary_edits,
)
from .chains import chain_edits
from .frames import repeated_children, several_edits, sines_and_cosines
from .weights import swapped_weights

MOST_SIBLINGS = 64
MOST_EDITS = 4000  # made again for one sibling, to find the one that is meant


def everywhere_alike(
    edit: Edit, sites: Callable[[], dict[Site, Example]], differing: list[dict[str, Any]], of_its_axes: bool = False
) -> Edit | None:
    """At every operation of the whole model with the same setting, or only where the result has as many axes; a setting
    in every module that has it otherwise."""
    if len(edit.changes) != 1 or edit.needs or edit.elsewhere is not None:
        return None
    if edit.fault:  # what undoes a fault is done where the fault was seen
        return None
    change = edit.changes[0]
    if isinstance(change, AttributeChange):
        return _everywhere_set(edit, change, differing) if not of_its_axes else None
    if not isinstance(change, OperationChange):
        return None
    known = sites()

    def kind(site: Site, example: Example) -> tuple[Any, ...]:
        return site.op, alike_setting(example), len(example.shape) if of_its_axes else 0

    kinds = {kind(s, known[s]) for s in change.sites if s in known}
    everywhere = frozenset(s for s, example in known.items() if kind(s, example) in kinds)
    if len(everywhere) <= len(change.sites) or (of_its_axes and len(kinds) > 1):
        return None
    words = f"{edit.detail} (in all {len(everywhere)} such places)"
    return Edit(edit.name, words, (OperationChange(everywhere, change.apply),), edit.rank)


def _everywhere_set(edit: Edit, change: AttributeChange, differing: list[dict[str, Any]]) -> Edit | None:
    """The setting in every module where the two sides have these same two values of it."""
    here = next((d for d in differing if (d["path"], d["name"]) == (change.path, change.name)), None)
    if here is None:
        return None
    alike = [d for d in differing if all(d[key] == here[key] for key in ("name", "a", "b"))]
    if len(alike) == 1:
        return None
    changes = tuple(AttributeChange(d["path"], change.name, change.value) for d in alike)
    return Edit(edit.name, f"{edit.detail} (in all {len(alike)} such places)", changes, edit.rank)


def in_same_class(edit: Edit, live: Live) -> Edit | None:
    """What was seen in one module, in every other one of its class, whatever parts these have."""
    modules = live.parts.named_modules()
    if edit.elsewhere is None or edit.owner not in modules:
        return None
    kind = type(modules[edit.owner])
    paths = [p for p, m in modules.items() if p != edit.owner and type(m) is kind]
    return _widened(edit, [edit.elsewhere(path) for path in paths[:MOST_SIBLINGS]], "of its class")


def in_alike_modules(
    edit: Edit, probe: Probe | None, live: Live, own: Trace, with_other_parts: bool = False
) -> Edit | None:
    """At the same place of every module of the same class and parts; None if there is no other one.

    `with_other_parts` takes those in as well that have more or fewer parts, if there are such: an attention with a text
    beside it and one without.
    """
    modules = live.parts.named_modules()
    owner = edit.owner or (probe.owner if probe is not None else "")
    if owner not in modules or any(isinstance(c, AttributeChange) for c in edit.changes):
        return None
    siblings = _siblings(modules, owner)
    if with_other_parts:
        further = [p for p, m in modules.items() if p != owner and type(m) is type(modules[owner])][:MOST_SIBLINGS]
        siblings = further if len(further) > len(siblings) and edit.elsewhere is None else []
    if not siblings:
        return None
    if edit.elsewhere is not None:
        found = [edit.elsewhere(path) for path in siblings]
    elif probe is None:
        return None
    elif not edit.needs and all(isinstance(change, OperationChange) for change in edit.changes):
        found = [_moved(edit, probe.owner, path) for path in siblings]
    else:
        found = [made for path in siblings if (made := _made_again(edit, probe, path, live, own)) is not None]
    return _widened(edit, found, "of its class" if with_other_parts else "of its kind")


def _widened(edit: Edit, found: list[Edit], which: str) -> Edit | None:
    if not found:
        return None
    words = f"{edit.detail} (in all {len(found) + 1} modules {which})"
    changes = tuple(change for one in (edit, *found) for change in one.changes)
    needs = tuple(dict.fromkeys(label for one in (edit, *found) for label in one.needs))
    return Edit(edit.name, words, changes, edit.rank, needs, line=edit.line)


def _siblings(modules: dict[str, nn.Module], path: str) -> list[str]:
    kind = _kind(modules[path])
    return list(islice((p for p, m in modules.items() if p != path and _kind(m) == kind), MOST_SIBLINGS))


def _kind(module: nn.Module) -> tuple[str, ...]:
    cls = type(module)
    return (cls.__module__, cls.__qualname__, *[name for name, _ in module.named_children()])


def _moved(edit: Edit, before: str, after: str) -> Edit:
    """Operations told by where they stand, not by what they close over: only the paths are others."""
    changes: list[Change] = []
    for change in edit.changes:
        assert isinstance(change, OperationChange)
        sites = frozenset(Site(after + s.path[len(before) :], s.op, s.index) for s in change.sites)
        changes.append(OperationChange(sites, change.apply))
    return Edit(edit.name, edit.detail, tuple(changes), edit.rank)


def _made_again(edit: Edit, probe: Probe, path: str, live: Live, own: Trace) -> Edit | None:
    """The edit that says the same of a sibling."""
    looked = _looked_at(path, live, own)
    if looked is None:
        return None
    below = path + probe.path[len(probe.owner) :]
    there = Probe(probe.everything, below, looked.args, looked.kwargs, Read(below, "out"), probe.goal)
    wanted = _relative(edit, probe)
    made = chain(
        module_as_activation(there),
        child_edits(there, looked.survey),
        repeated_children(there, looked.survey),
        sines_and_cosines(there, looked.survey),
        own_frame_edits(there, looked.survey, None),
        input_edits(there),
        rotary_edits(there, looked.survey),
        several_edits(there, looked.survey),
        chain_edits(there, looked.survey),
        operand_edits(there, looked.survey),
        swapped_weights(there),
    )
    return next((e for e in islice(made, MOST_EDITS) if _relative(e, there) == wanted), None)


def _relative(edit: Edit, probe: Probe) -> str:
    return edit.label().replace(f"{probe.owner}.", "").replace(probe.owner, "")


@dataclass
class _Looked:
    """What one module was given and did in its first call of a run."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    survey: Survey = field(default_factory=Survey)


def _looked_at(path: str, live: Live, own: Trace) -> _Looked | None:
    modules = {p: m for p, m in live.parts.named_modules().items() if p == path or p.startswith(f"{path}.")}
    looked = _Looked(survey=Survey(flow=DataFlow(path, children_of(modules, path))))
    state = {"begun": False, "done": False}
    counter: Iterator[int] = iter(range(1 << 30))

    def begin(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not state["begun"]:
            state["begun"] = True
            looked.args, looked.kwargs = args, kwargs
            tensors = [v for v in [*args, *kwargs.values()] if isinstance(v, torch.Tensor)]
            looked.survey.values |= {f"{path}|in.{i}": (-1, tuple(t.shape)) for i, t in enumerate(tensors)}

    def end(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        state["done"] = state["begun"]

    def observe(site: Site, call: Call, result: Any) -> None:
        if state["begun"] and not state["done"] and (site.path == path or site.path.startswith(f"{path}.")):
            looked.survey.sites.setdefault(site, example_of(call, result, {}))
            looked.survey.follow(site, call, result)
            if site.path == path:
                looked.survey.note(site, result, next(counter))

    with ExitStack() as stack, warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        stack.callback(modules[path].register_forward_pre_hook(begin, with_kwargs=True, prepend=True).remove)
        for child, module in children_of(modules, path).items():
            stack.callback(module.register_forward_hook(note_child(looked.survey, child, counter)).remove)
        stack.callback(modules[path].register_forward_hook(end).remove)
        with PipelineProbe.edited(live, (), observe):
            live.run(own)
    return looked if state["done"] else None
