"""What a call will do, decided before any model runs: which branches it takes, what it reads, what is missing."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from ..configuration import describe_type
from ..errors import InputError, UnknownNameError
from .face import PLAIN, Face
from .params import ComponentSpec, InputParam
from .state import LATER, BlockView, PipelineState
from .user_inputs import merge_wants
from .wiring import NUMBER, Flow, Made, Visit, Want, branch_for, check_readers_agree, trace


@dataclass
class Plan:
    """The branches that a call takes, and what flows through them."""

    root: Any
    flow: Flow
    readable: frozenset[str] = (
        frozenset()
    )  # inputs that may be given, those of blocks that `output=` leaves out included

    @cached_property
    def inputs(self) -> dict[str, InputParam]:
        """What the planned blocks read from the caller."""
        return {name: merge_wants(name, wants) for name, wants in self.flow.wants.items()}

    @cached_property
    def components(self) -> dict[str, tuple[ComponentSpec, str]]:
        """Name -> spec, and the first block that uses it."""
        return _merged((visit, spec) for visit in self.flow.visits for spec in visit.place.block.own_components)

    def needed_components(
        self, values: Mapping[str, Any], only: Collection[str] | None = None
    ) -> dict[str, tuple[ComponentSpec, str]]:
        """The same, without the optional ones that `only` these blocks can do without for these values."""
        spared = {
            (visit.place.path, name)
            for visit, inputs in seen_before_running(self, values)
            for name in visit.place.block.names_of(visit.place.block.unneeded(inputs))
        }
        return _merged(
            (visit, spec)
            for visit in self.flow.visits
            if is_among(visit, only)
            for spec in visit.place.block.own_components
            if not (spec.optional and (visit.place.path, spec.name) in spared)
        )

    @cached_property
    def names(self) -> set[str]:
        """Every value that the plan reads or makes."""
        return {name for visit in self.flow.visits for name in (*visit.reads, *visit.makes)}

    def used_near(self, path: str) -> set[str]:
        """The components of the loop that a block stands in, those of other branches left out: needed again soon."""
        plain = NUMBER.sub("", path)
        here = next((visit.place for visit in self.flow.leaves if visit.place.path == plain), None)
        if here is None or not here.loops:
            return set()
        near = [visit.place for visit in self.flow.leaves if here.loops[0] in visit.place.loops]
        return {name for place in near if not here.excludes(place) for name in place.block.loaded_names}

    def with_defaults(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The caller's values, with the defaults of those that were left out."""
        defaults = {name: copy.copy(param.default) for name, param in self.inputs.items()}
        return {**defaults, **{name: value for name, value in values.items() if value is not None}}


def _merged(used: Iterable[tuple[Visit, ComponentSpec]]) -> dict[str, tuple[ComponentSpec, str]]:
    found: dict[str, tuple[ComponentSpec, str]] = {}
    for visit, spec in used:
        known, user = found.get(spec.name, (spec, str(visit.place)))
        found[spec.name] = (known.merged(spec), user)
    return found


def make_plan(root: Any, values: Mapping[str, Any], until: Iterable[str] = ()) -> Plan:
    """The plan for these values; blocks after the last one that makes any of `until` are left out."""
    until = set(until)
    flow = trace(root, branch_for(values), show_branches=False)
    readable = frozenset(flow.wants)
    if until:
        unknown = sorted(until - set(flow.made) - set(values))
        if unknown:
            raise UnknownNameError("output", unknown[0], flow.made)
        root = _shortened(root, flow, until)
        flow = trace(root, branch_for(values), show_branches=False)
    return Plan(root, flow, readable)


def _shortened(root: Any, flow: Flow, until: set[str]) -> Any:
    makers = [visit.place.path.split(".")[0] for visit in flow.visits if until & set(visit.makes)]
    names = list(root.sub_blocks)
    last = max((names.index(maker) for maker in makers), default=-1)
    twin = copy.copy(root)
    twin.sub_blocks = type(root.sub_blocks)({name: root.sub_blocks[name] for name in names[: last + 1]})
    return twin


def check_names(whole: Flow, names: Iterable[str], options: Iterable[str], owner: str) -> None:
    """Refuse a name that is no input."""
    for name in names:
        if name not in whole.inputs:
            known = [*whole.inputs, *options]
            raise UnknownNameError(f"input of {owner}", name, known, _made_inside(whole.made.get(name), name))


def check_call(plan: Plan, whole: Flow, values: Mapping[str, Any], face: Face = PLAIN) -> None:
    """Refuse values that this call would not read, missing and wrong values; in this order, by the caller's names."""
    for name, value in values.items():
        if value is not None and name not in plan.readable and not _is_default(whole, name, value):
            raise InputError(_not_read(whole, name, values))
    check_readers_agree(plan.flow, all_run=True)
    for name, wants in plan.flow.wants.items():
        for want in wants:
            if want.param.required and values.get(name) is None and plan.inputs[name].default is None:
                raise InputError(_missing(whole, name, want))
            value = values[name] if want.param.required else values.get(name, want.param.default)
            replace(want.param, name=face.argument(name)).check(value, f"block {want.place}")
        _check_numbers(face.argument(name), values.get(name))


def _made_inside(made: Made | None, name: str) -> str:
    if made is None:
        return ""
    return f"{name!r} is made inside, by {', '.join(str(place) for place, _ in made.producers)}, and cannot be given."


def _is_default(whole: Flow, name: str, value: Any) -> bool:
    defaults = [want.param.default for want in whole.wants[name] if want.param.default is not None]
    return any(type(value) is type(default) and value == default for default in defaults)


def _not_read(whole: Flow, name: str, values: Mapping[str, Any]) -> str:
    readers = [want.place for want in whole.wants[name]]
    triggers = [
        f"{place} (chosen as {' / '.join(branch for _, branch in place.branches)})"
        for place in readers
        if place.branches
    ]
    given = ", ".join(key for key, value in values.items() if value is not None and key != name)
    return (
        f"{name!r} was given, but nothing that runs with these inputs ({given or 'none'}) reads it. "
        f"It is read by {', '.join(triggers) or ', '.join(map(str, readers))}. Leave it away, or give what "
        "selects that block."
    )


def _missing(whole: Flow, name: str, want: Want) -> str:
    kind = f" ({describe_type(want.param.type_hint)})" if want.param.type_hint is not None else ""
    message = f"Block {want.place} needs {name!r}{kind}, which was not given. {want.param.description}".rstrip()
    made = whole.made.get(name)
    if made is None:
        return f"{message} Give {name}=…"
    makers = [
        f"{place}"
        + (f", which runs as {' / '.join(f'{c} = {b}' for c, b in place.branches)}" if place.branches else "")
        for place, _ in made.producers
    ]
    return f"{message} It would be made by {'; '.join(makers)}."


def _check_numbers(name: str, value: Any) -> None:
    if isinstance(value, torch.Tensor) and value.is_floating_point() and bool(torch.isnan(value).any()):
        raise InputError(f"{name!r} has NaN in it ({int(torch.isnan(value).sum())} of {value.numel()} values).")


def seen_before_running(plan: Plan, values: Mapping[str, Any]) -> Iterator[tuple[Visit, BlockView]]:
    """Every planned block with its inputs; what a block upstream will make reads as LATER."""
    made: dict[str, Any] = {}
    for visit in plan.flow.leaves:
        block, state = visit.place.block, PipelineState({**values, **made})
        yield visit, BlockView(state, visit.place.path, block, plan.flow.groups)
        made |= dict.fromkeys(visit.makes, LATER)


def is_among(visit: Visit, only: Collection[str] | None) -> bool:
    """Whether a visit is in one of these blocks of the tree; in all of them where none are named."""
    return only is None or visit.place.path.partition(".")[0] in only


def check_blocks(plan: Plan, values: Mapping[str, Any], components_for: Any, only: Collection[str] | None) -> None:
    """Let every planned block look at its inputs."""
    for visit, inputs in seen_before_running(plan, values):
        if not is_among(visit, only):
            continue
        visit.place.block.check(components_for(visit.place), inputs)
