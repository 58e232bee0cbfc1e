"""How values flow through a tree of blocks: who reads what, who makes it, and what is missing. No model is touched.

`trace` walks the tree in the order of execution and notes every read and write. A choice is walked along each branch
that `decide` allows: all of them when a pipeline is assembled, the one that will run when a call is planned.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Union, get_args, get_origin

from ..configuration import describe_type
from ..errors import UnknownNameError, WiringError, did_you_mean
from .block import ModularPipelineBlocks
from .params import InputParam, OutputParam
from .state import LATER

NUMBER = re.compile(
    r"\.(\d+)(?=\.|$)"
)  # in the path of a running block, the number of the step follows its loop's name
Decide = Callable[[Any, str, Mapping[str, "Made"]], Iterable[str | None]]


@dataclass(frozen=True)
class Place:
    """One block of a tree: where it stands, the loops around it (outermost first) and the branches that lead to it.

    `path` leaves the names of branches away when one branch was decided for: `denoise.step` whichever denoiser runs.
    """

    path: str
    tree: str  # the path with the names of branches
    block: ModularPipelineBlocks
    loops: tuple[str, ...] = ()
    branches: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.path!r} ({type(self.block).__name__})" if self.path else type(self.block).__name__

    def excludes(self, other: Place) -> bool:
        """Whether the two stand in different branches of one choice, so that a step runs one of them at most."""
        taken = dict(self.branches)
        return any(taken.get(choice, branch) != branch for choice, branch in other.branches)

    def implies(self, other: Place) -> bool:
        """Whether the other runs whenever this one does, as far as the choices around the two can tell."""
        return self.branches[: len(other.branches)] == other.branches


@dataclass(frozen=True)
class Made:
    """A value that blocks upstream make; not `sure` when a branch that may not run makes it."""

    producers: tuple[tuple[Place, OutputParam], ...]
    sure: bool = True


@dataclass(frozen=True)
class Want:
    """A value that a block reads and that no block upstream surely makes."""

    place: Place
    param: InputParam
    maybe: tuple[Place, ...] = ()  # blocks that make it in some branches

    @property
    def can_be_given(self) -> bool:
        """Whether a caller may give it; what a block can do without and says is made by blocks, is none's to give."""
        left_to_blocks = self.param.given is False and not self.param.required
        return bool(self.param.given or not (self.maybe or left_to_blocks))


@dataclass(frozen=True)
class Visit:
    """One stop of the walk: the names that it reads and makes. Loops read too (their items), and choices (triggers).

    What is `possible` only stands in a branch that some steps take; a stop at the end of such a choice makes what all
    of its branches make.
    """

    place: Place
    reads: tuple[str, ...]
    makes: tuple[str, ...] = ()
    possible: bool = False


@dataclass
class Flow:
    """What `trace` found out."""

    visits: list[Visit] = field(default_factory=list)
    wants: dict[str, list[Want]] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)
    edges: list[tuple[Place, str, Place]] = field(default_factory=list)  # producer, value, consumer
    groups: dict[str, list[str]] = field(default_factory=dict)  # kwargs_type -> names
    read_groups: dict[str, InputParam] = field(default_factory=dict)  # those that blocks read as a whole
    choices: dict[str, str | None] = field(default_factory=dict)  # tree path -> the branch that was walked last

    @property
    def leaves(self) -> list[Visit]:
        return [visit for visit in self.visits if visit.place.block.kind == "leaf"]

    @property
    def inputs(self) -> dict[str, list[Want]]:
        """What a caller may give: what no block upstream makes, not even in some branches, and what says `given`."""
        return {name: wants for name, wants in self.wants.items() if any(want.can_be_given for want in wants)}


def all_branches(choice: Any, path: str, made: Mapping[str, Made]) -> Iterable[str | None]:
    """Every branch that a choice can take, and none at all where it can be skipped."""
    return [*choice.sub_blocks, *([] if choice.default_block_name else [None])]


def branch_for(values: Mapping[str, Any]) -> Decide:
    """The one branch that a choice takes for these user's values; what a block makes upstream counts as given."""

    def decide(choice: Any, path: str, made: Mapping[str, Made]) -> Iterable[str | None]:
        return [choice.choose({**dict.fromkeys(made, LATER), **{n: v for n, v in values.items() if n not in made}})]

    return decide


def trace(root: ModularPipelineBlocks, decide: Decide = all_branches, *, show_branches: bool = True) -> Flow:
    """Walk the tree in the order of execution."""
    flow = Flow()
    walker = _Walker(flow, decide, show_branches)
    walker.walk(Place("", "", root), flow.made)
    return flow


@dataclass
class _Walker:
    flow: Flow
    decide: Decide
    show_branches: bool

    def walk(self, place: Place, made: dict[str, Made]) -> None:
        {"leaf": self._leaf, "sequence": self._sequence, "loop": self._loop, "choice": self._choice}[place.block.kind](
            place, made
        )

    def _leaf(self, place: Place, made: dict[str, Made]) -> None:
        block = place.block
        if block.loop_arguments and not place.loops:
            raise WiringError(
                f"Block {place} asks for {', '.join(block.loop_arguments)} but does not stand inside a loop."
            )
        read = [name for param in block.inputs for name in self._read(place, param, made)]
        for param in block.outputs:
            if param.name in made:
                check_types_agree(param.name, made[param.name].producers[0], (place, param))
            made[param.name] = Made(((place, param),))
            if param.kwargs_type:
                self._join_group(param.kwargs_type, param.name)
        self.flow.visits.append(Visit(place, tuple(dict.fromkeys(read)), tuple(block.output_names)))

    def _sequence(self, place: Place, made: dict[str, Made]) -> None:
        for name, block in place.block.sub_blocks.items():  # type: ignore[attr-defined]
            part = Place(join(place.path, name), join(place.tree, name), block, place.loops, place.branches)
            self.walk(part, made)

    def _loop(self, place: Place, made: dict[str, Made]) -> None:
        loop: Any = place.block
        read = [name for param in loop.loop_params for name in self._read(place, param, made)]
        self.flow.visits.append(Visit(place, tuple(read)))
        self._sequence(replace(place, loops=(*place.loops, place.path)), made)
        for param in loop.loop_outputs:
            made.setdefault(param.name, Made(((place, param),)))

    def _choice(self, place: Place, made: dict[str, Made]) -> None:
        choice: Any = place.block
        at_each_step = choice.loop_triggers
        if at_each_step and not place.loops:
            raise WiringError(
                f"Block {place} chooses by {', '.join(at_each_step)}, but does not stand inside a loop, which sets it."
            )
        read = [name for param in choice.trigger_params for name in self._read(place, param, made)]
        self.flow.visits.append(Visit(place, tuple(read)))
        ends, first = [], len(self.flow.visits)
        for branch in (all_branches if at_each_step else self.decide)(choice, place.path, made):
            if not at_each_step:
                self.flow.choices[place.tree] = branch
            end = dict(made)
            if branch is not None:
                tree = join(place.tree, branch)
                path = tree if self.show_branches else join(place.path, branch) if at_each_step else place.path
                branches = (*place.branches, (place.tree, branch))
                self.walk(Place(path, tree, choice.sub_blocks[branch], place.loops, branches), end)
            ends.append(end)
        after = _merged(ends)
        if at_each_step:
            inside = self.flow.visits[first:]
            surely = tuple(name for name in after if all(end.get(name) is not made.get(name) for end in ends))
            self.flow.visits[first:] = [*(replace(visit, possible=True) for visit in inside), Visit(place, (), surely)]
        made.update(after)

    def _read(self, place: Place, param: InputParam, made: Mapping[str, Made]) -> list[str]:
        """Note that a block reads a value (or every value of a group); the names."""
        if not param.name:
            self.flow.read_groups.setdefault(param.kwargs_type or "", param)
            members = self.flow.groups.get(param.kwargs_type or "", [])
            for name in members:
                self._connect(place, name, made.get(name))
            return list(members)
        known = made.get(param.name)
        if known:
            check_types_agree(param.name, known.producers[0], (place, param))
        if not known or not known.sure:
            maybe = tuple(producer for producer, _ in known.producers) if known else ()
            self.flow.wants.setdefault(param.name, []).append(Want(place, param, maybe))
        if param.kwargs_type:
            self._join_group(param.kwargs_type, param.name)
        self._connect(place, param.name, known)
        return [param.name]

    def _connect(self, place: Place, name: str, known: Made | None) -> None:
        self.flow.edges += [(producer, name, place) for producer, _ in (known.producers if known else ())]

    def _join_group(self, group: str, name: str) -> None:
        members = self.flow.groups.setdefault(group, [])
        if name not in members:
            members.append(name)


def _merged(ends: list[dict[str, Made]]) -> dict[str, Made]:
    """What is made after a choice: surely what every branch makes, perhaps what some make."""
    names = dict.fromkeys(name for end in ends for name in end)
    merged = {}
    for name in names:
        found = [end[name] for end in ends if name in end]
        if len(found) == len(ends) and all(one is found[0] for one in found):
            merged[name] = found[0]  # no branch has made it anew
            continue
        producers = tuple(dict.fromkeys(pair for one in found for pair in one.producers))
        for other in producers[1:]:
            check_types_agree(name, producers[0], other)
        merged[name] = Made(producers, sure=len(found) == len(ends) and all(one.sure for one in found))
    return merged


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def check_types_agree(name: str, first: tuple[Place, Any], second: tuple[Place, Any]) -> None:
    """Two blocks that handle one value have to mean the same type."""
    (place, param), (other_place, other_param) = first, second
    if not _overlap(param.type_hint, other_param.type_hint):
        raise WiringError(
            f"Value {name!r} has two types: block {place} says {describe_type(param.type_hint)}, "
            f"block {other_place} says {describe_type(other_param.type_hint)}. Give the two values "
            "different names or one type."
        )


def _overlap(one: Any, other: Any) -> bool:
    """Whether some value can be of both types (members of unions compared pairwise, contents of containers ignored)."""
    return any(_related(a, b) for a in _members(one) for b in _members(other))


def _members(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [part for member in get_args(hint) for part in _members(member)]
    origin = get_origin(hint)
    return [origin if isinstance(origin, type) else hint]


def _related(a: Any, b: Any) -> bool:
    if not isinstance(a, type) or not isinstance(b, type):
        return True  # Any, None (undeclared), Literal …: no opinion
    return issubclass(a, b) or issubclass(b, a) or {a, b} in ({int, float}, {list, tuple})


def check_wiring(root: ModularPipelineBlocks, given: Iterable[str] = ()) -> Flow:
    """Refuse a tree in which a value has no maker, two types or two defaults; what was found otherwise."""
    flow = trace(root)
    given = set(given)
    unknown = given - set(flow.wants)
    if unknown:
        raise UnknownNameError(
            "value in given=",
            sorted(unknown)[0],
            flow.wants,
            "Only what a block reads and no block upstream makes can be given.",
        )
    check_roles(flow)
    check_made(root, flow, given)
    check_readers_agree(flow, all_run=False)
    return flow


def check_roles(flow: Flow) -> None:
    """Refuse a role that no component plays."""
    for visit in flow.visits:
        block = visit.place.block
        for spec in block.own_components:
            if spec.role:
                played = ", ".join(f"{role} ({part.name})" for role, part in block.cast.items()) or "none"
                raise WiringError(
                    f"Block {visit.place} works with a {spec.name!r}, and nothing says which component that is; roles "
                    f"that are played here: {played}. Say it in the class of blocks around it: "
                    f"roles = {{{spec.name!r}: ComponentSpec('…', …)}}."
                )


def check_made(root: ModularPipelineBlocks, flow: Flow, given: Iterable[str], where: str = "") -> None:
    """Refuse a required value that only a block can make and that no block before its reader makes."""
    for name, wants in flow.wants.items():
        for want in wants:
            if want.param.required and want.param.made_by_block and not want.maybe and name not in given:
                raise WiringError(_missing_producer(root, flow, name, want) + where)


def check_readers_agree(flow: Flow, *, all_run: bool) -> None:
    """Blocks that run together have to agree on a value's type and default; `all_run` says that all of these do."""
    for name, wants in flow.wants.items():
        for k, want in enumerate(wants):
            for other in wants[:k]:
                if all_run or want.place.implies(other.place) or other.place.implies(want.place):
                    _check_pair(name, other, want)


def _check_pair(name: str, one: Want, other: Want) -> None:
    check_types_agree(name, (one.place, one.param), (other.place, other.param))
    if not same_default(one.param.default, other.param.default):
        raise WiringError(
            f"Value {name!r} has two defaults: block {one.place} says {one.param.default!r}, block {other.place} says "
            f"{other.param.default!r}. Declare it once, or leave the default away in one of them."
        )


def same_default(one: Any, other: Any) -> bool:
    return one is None or other is None or one is other or bool(one == other)


def _missing_producer(root: ModularPipelineBlocks, flow: Flow, name: str, want: Want) -> str:
    message = (
        f"Block {want.place} needs {name!r} ({describe_type(want.param.type_hint)}), but no block before it makes it."
    )
    later = [str(visit.place) for visit in flow.visits if name in visit.makes and visit.place != want.place]
    if later:
        message += f" It is made only later, by {', '.join(later)}: move that block up."
    message += did_you_mean(name, [n for n in flow.made if n != name]).replace(": did", " Did").rstrip(".")
    candidates = sorted({block.__name__ for block in known_blocks(type(root)) if name in _declared_outputs(block)})
    if candidates:
        message += f" Blocks that make it: {', '.join(candidates)}."
    if want.place.branches:
        message += f" Or do without that branch: blocks.removed({want.place.branches[-1][0]!r})."
    return f"{message} If the caller gives it, say so: init_pipeline(given=[{name!r}])."


def known_blocks(root: type) -> Iterator[type[ModularPipelineBlocks]]:
    """Every leaf class that has been imported: those that could be added to a tree."""
    waiting, seen = [ModularPipelineBlocks], set()
    while waiting:
        block = waiting.pop()
        if block in seen:
            continue
        seen.add(block)
        waiting += block.__subclasses__()
        if block.kind == "leaf" and block is not root:
            yield block


def _declared_outputs(block: type[ModularPipelineBlocks]) -> list[str]:
    declared = block.outputs
    return [param.name for param in declared] if isinstance(declared, list) else []
