"""Blocks made of blocks: a sequence, a loop, and two kinds of choice. They nest without limit; run.py runs them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ..errors import InputError, UnknownNameError, UnsupportedError, WiringError
from . import drawing, wiring
from .block import LOOP_ARGUMENTS, ModularPipelineBlocks
from .params import ComponentSpec, ConfigSpec, InputParam, OutputParam, needs, resolve_params
from .user_inputs import merge_wants
from .vocabulary import VOCABULARY
from .workflows import pruned

Block = ModularPipelineBlocks | type[ModularPipelineBlocks]  # a block, or the class of one that takes no arguments


class NamedBlocks(dict[str, ModularPipelineBlocks]):
    """Blocks by name, in order."""

    def insert(self, name: str, block: Block, index: int) -> None:
        """Put a block at a position; a block of that name moves."""
        items = [(key, value) for key, value in self.items() if key != name]
        items.insert(index, (name, _instance(block)))
        self.clear()
        self.update(items)


class CompositeBlocks(ModularPipelineBlocks):
    """What sequence, loop and choice share: named parts, from which inputs, outputs and components follow."""

    kind: ClassVar[str] = "sequence"
    block_classes: ClassVar[
        Sequence[Block] | Mapping[str, Block]
    ] = ()  # classes or instances, in order; or {name: class}
    block_names: ClassVar[Iterable[str] | None] = None
    workflows: ClassVar[Mapping[str, Iterable[str]]] = {}  # name -> the inputs whose presence selects it
    result: list[OutputParam] | None = None  # what a pipeline of these blocks returns; set by declaring `outputs`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        declared = cls.__dict__.get("outputs")
        if declared is not None:
            del cls.outputs  # the tree's own outputs follow from its parts; a declared list names the pipeline's result
        super().__init_subclass__(**kwargs)
        if isinstance(declared, property):
            read = declared.fget
            cls.result = property(lambda self: resolve_params(OutputParam, read(self), cls.__name__))  # type: ignore
        elif declared is not None:
            cls.result = resolve_params(OutputParam, declared, cls.__name__)

    def __init__(self, blocks: Mapping[str, Any] | None = None) -> None:
        names, classes = self._table() if blocks is None else (list(blocks), list(blocks.values()))
        if len(names) != len(classes) or len(set(names)) != len(names):
            raise WiringError(
                f"{type(self).__name__} wants one different name per block, got {len(classes)} blocks and the names "
                f"{names}."
            )
        for name in names:
            check_name(name, type(self).__name__)
        self.sub_blocks = NamedBlocks({name: _instance(block) for name, block in zip(names, classes, strict=True)})
        self._give_roles(self.roles)

    @classmethod
    def _table(cls) -> tuple[list[str], list[Any]]:
        """Names and classes of the parts."""
        classes = cls.block_classes
        if isinstance(classes, Mapping):
            return list(classes), list(classes.values())
        return list(cls.block_names or [default_name(block) for block in classes]), list(classes)

    def _give_roles(self, roles: Mapping[str, ComponentSpec]) -> None:
        self.sub_blocks = NamedBlocks({name: block.playing(roles) for name, block in self.sub_blocks.items()})

    def playing(self, roles: Mapping[str, ComponentSpec]) -> Self:
        twin = super().playing(roles)
        if roles:
            twin._give_roles(roles)
        return twin

    @classmethod
    def table(cls, **parts: Block | None) -> dict[str, Block]:
        """The parts by name, with some of them replaced, or left out (None): `block_classes` of a relative."""
        table = dict(zip(*cls._table(), strict=True))
        for name in parts:
            if name not in table:
                raise UnknownNameError(f"part of {cls.__name__}", name, table)
        return {name: part for name, part in {**table, **parts}.items() if part is not None}

    @classmethod
    def with_parts(cls, **parts: Block | None) -> type[Self]:
        """The same kind of block with some of its parts replaced, or left out (None): a table for another family."""
        names, kept = cls._table()[0], cls.table(**parts)
        fields: dict[str, Any] = {"block_classes": kept, "__doc__": cls.__doc__, "__module__": cls.__module__}
        triggers = list(getattr(cls, "block_trigger_inputs", ()))
        if len(triggers) == len(names):
            fields["block_trigger_inputs"] = [t for name, t in zip(names, triggers, strict=True) if name in kept]
        return type(cls.__name__, (cls,), fields)

    def parts_changed(self) -> None:
        """Called on a copy of this tree whose parts were inserted, replaced or removed."""

    @classmethod
    def from_blocks_dict(cls, blocks_dict: Mapping[str, Any], description: str | None = None) -> Self:
        """A tree from `{name: block}`."""
        made = cls(blocks_dict)
        made.__doc__ = description or cls.__doc__
        return made

    if not TYPE_CHECKING:

        def __call__(self, components, state):
            name = type(self).__name__
            raise UnsupportedError(
                f"{name} is run by the engine, which owns its order: pipe = {name}().init_pipeline(…), then pipe(…)."
            )

    @property
    def inputs(self) -> list[InputParam]:  # type: ignore[override]
        """What the parts read and no part before them surely makes, and the groups of values that they read whole."""
        flow = wiring.trace(self)
        return [*(merge_wants(name, wants) for name, wants in flow.wants.items()), *flow.read_groups.values()]

    @property
    def outputs(self) -> list[Any]:  # type: ignore[override]
        """What the parts make."""
        return [made.producers[-1][1] for made in wiring.trace(self).made.values()]

    @property
    def intermediate_outputs(self) -> list[OutputParam]:  # type: ignore[override]
        return self.outputs

    @property
    def expected_components(self) -> list[ComponentSpec]:  # type: ignore[override]
        merged: dict[str, ComponentSpec] = {}
        for spec in self._parts_components():
            merged[spec.name] = merged[spec.name].merged(spec) if spec.name in merged else spec
        return list(merged.values())

    def _parts_components(self) -> list[ComponentSpec]:
        return [spec for block in self.sub_blocks.values() for spec in block.used_components]

    @property
    def used_components(self) -> list[ComponentSpec]:
        return self.expected_components

    @property
    def own_components(self) -> list[ComponentSpec]:
        return []

    @property
    def expected_configs(self) -> list[ConfigSpec]:  # type: ignore[override]
        return list({spec.name: spec for block in self.sub_blocks.values() for spec in block.expected_configs}.values())

    @property
    def description(self) -> str:
        return (self.__doc__ or "").strip().partition("\n")[0]

    @property
    def available_workflows(self) -> list[str]:
        """The names of the workflows."""
        return list(self.workflow_triggers())

    def workflow_triggers(self) -> dict[str, list[str]]:
        """Workflow -> the inputs whose presence selects it."""
        written = self.workflows or getattr(self, "_workflow_map", None) or {}
        return {name: list(triggers) for name, triggers in written.items()}

    def get_workflow(self, name: str) -> CompositeBlocks:
        """The tree of one workflow: choices replaced by the branch that they take, skipped ones left out."""
        known = self.workflow_triggers()
        if name not in known:
            told = "Available workflows are told by blocks.available_workflows."
            raise UnknownNameError("workflow", name, known, told)
        found = pruned(self, dict.fromkeys(known[name], True))
        plain = SequentialPipelineBlocks.from_blocks_dict(found.sub_blocks, self.description)
        plain.result, plain.roles, plain._cast = self.result, self.roles, self._cast
        plain.pipeline_class_name = self.pipeline_class_name  # type: ignore[misc]
        plain.workflows = {name: known[name]}  # type: ignore[misc]
        return plain

    def get_execution_blocks(self, **given: Any) -> CompositeBlocks:
        """The tree that runs where these inputs are given."""
        return pruned(self, given)

    def block_at(self, path: str) -> ModularPipelineBlocks:
        """The block at a path such as `denoise.predict`."""
        block: Any = self
        for name in path.split("."):
            parts = getattr(block, "sub_blocks", {})
            if name not in parts:
                raise UnknownNameError(f"block in path {path!r}", name, parts)
            block = parts[name]
        return block

    def inserted(
        self, path: str, block: Block, *, after: str | None = None, before: str | None = None, index: int | None = None
    ) -> Self:
        """A tree with one block more: `inserted("denoise.log", Log, after="predict")`."""
        if sum(place is not None for place in (after, before, index)) > 1:
            raise InputError("Say where to insert with one of after=, before= and index=, not with several.")

        def put(parts: NamedBlocks, name: str) -> None:
            check_name(name, "insert")
            if name in parts:
                raise InputError(
                    f"There is a block {name!r} already among {', '.join(parts)}; use another name, or replace it."
                )
            neighbour = (after or before or "").rpartition(".")[2]
            if neighbour and neighbour not in parts:
                raise UnknownNameError("block", neighbour, parts)
            names = list(parts)
            place = (
                names.index(neighbour) + (after is not None) if neighbour else len(names) if index is None else index
            )
            parts.insert(name, block, place)

        return self._edited(path, put)

    def replaced(self, path: str, block: Block) -> Self:
        """A tree with another block at this path."""
        self.block_at(path)
        return self._edited(path, lambda parts, name: parts.update({name: _instance(block)}))

    def removed(self, path: str) -> Self:
        """A tree without the block at this path."""
        self.block_at(path)
        return self._edited(path, lambda parts, name: parts.pop(name))

    def _edited(self, path: str, edit: Any) -> Self:
        """A copy along the path; what is not on the path is shared, and this tree stays as it is."""
        head, _, rest = path.partition(".")
        twin = copy.copy(self)
        twin.sub_blocks = NamedBlocks(self.sub_blocks)
        if not rest:
            edit(twin.sub_blocks, head)
            twin._give_roles(twin.cast)
            twin.parts_changed()
            return twin
        if head not in twin.sub_blocks or not isinstance(twin.sub_blocks[head], CompositeBlocks):
            composites = [name for name, block in twin.sub_blocks.items() if isinstance(block, CompositeBlocks)]
            raise UnknownNameError(f"block with parts in path {path!r}", head, composites)
        twin.sub_blocks[head] = twin.sub_blocks[head]._edited(rest, edit)  # type: ignore[attr-defined]
        return twin

    def draw(self) -> str:
        """The tree with what every block reads and makes, as text."""
        return drawing.draw(self)

    def mermaid(self) -> str:
        """The dataflow as a Mermaid diagram."""
        return drawing.mermaid(self)


class SequentialPipelineBlocks(CompositeBlocks):
    """One block after the other."""


class LoopSequentialPipelineBlocks(CompositeBlocks):
    """Its blocks again and again: once per item of the value that `loop_over` names, or as often as it counts.

    A subclass that defines `__call__` iterates by itself and calls `loop_step` once per iteration.
    """

    kind: ClassVar[str] = "loop"
    loop_over: ClassVar[str | int | None] = None
    loop_inputs: list[InputParam] = []  # what `loop_items` or an own `__call__` reads besides
    loop_intermediate_outputs: list[OutputParam] = []
    loop_expected_components: list[ComponentSpec] = []

    @property
    def loop_params(self) -> list[InputParam]:
        """What the loop itself reads."""
        own = resolve_params(InputParam, self.loop_inputs, type(self).__name__)
        if not isinstance(self.loop_over, str):
            return own
        if any(param.name == self.loop_over for param in own):
            return own
        if self.loop_over in VOCABULARY:
            return [*needs(self.loop_over), *own]
        return [InputParam(self.loop_over, required=True, description="What the loop runs over."), *own]

    @property
    def loop_outputs(self) -> list[OutputParam]:
        return resolve_params(OutputParam, self.loop_intermediate_outputs, type(self).__name__)

    @property
    def iterates_itself(self) -> bool:
        return type(self).__call__ is not CompositeBlocks.__call__

    def _parts_components(self) -> list[ComponentSpec]:
        return [*self.own_components, *super()._parts_components()]

    @property
    def own_components(self) -> list[ComponentSpec]:
        return self.played(self.loop_expected_components)

    def loop_items(self, components: Any, state: Any) -> Iterable[Any]:
        """What to iterate over: a count gives k, anything else gives i and t."""
        over = state.get(self.loop_over) if isinstance(self.loop_over, str) else self.loop_over
        if over is None:
            raise WiringError(
                f"{type(self).__name__} has nothing to loop over: set `loop_over` to a value's name or a count."
            )
        return range(over) if isinstance(over, int) else over

    def progress_bar(self, iterable: Iterable[Any] = (), total: int | None = None) -> SilentBar:
        """For loops that iterate by themselves and bring a bar: the engine shows the progress of every loop already."""
        return SilentBar(iterable)

    def loop_step(self, components: Any, block_state: Any, **position: Any) -> tuple[Any, Any]:
        """One iteration, for a loop that iterates by itself."""
        return components._run.own_loop_step(self, components, block_state, position)


class SilentBar:
    """Looks like a progress bar and shows nothing."""

    def __init__(self, iterable: Iterable[Any]) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def update(self, steps: int = 1) -> None:
        pass


class ConditionalPipelineBlocks(CompositeBlocks):
    """One of its blocks, as `select_block` says after looking at the trigger inputs; none where it says None.

    A trigger may be `i`, `t` or `k` of the loop around: then the choice is made anew at each step, and a plan holds
    every branch. Without a `default_block_name` a choice may be skipped.
    """

    kind: ClassVar[str] = "choice"
    block_trigger_inputs: ClassVar[Iterable[str | None]] = ()
    default_block_name: str | None = None

    def __init__(self, blocks: Mapping[str, Any] | None = None) -> None:
        super().__init__(blocks)
        if self.default_block_name and self.default_block_name not in self.sub_blocks:
            raise UnknownNameError(
                f"default_block_name of {type(self).__name__}", self.default_block_name, self.sub_blocks
            )

    def parts_changed(self) -> None:
        if self.default_block_name not in self.sub_blocks:
            self.default_block_name = None

    @property
    def trigger_names(self) -> list[str]:
        return list(dict.fromkeys(name for name in self.block_trigger_inputs if name))

    @property
    def branch_triggers(self) -> dict[str, str | None]:
        """Branch -> its trigger, where branches and triggers are paired in order."""
        return dict(zip(self.sub_blocks, self.block_trigger_inputs, strict=False))

    @property
    def trigger_params(self) -> list[InputParam]:
        """A trigger is an optional input, described by the branch that reads it where one does."""
        return [InputParam(name) for name in self.trigger_names if name not in LOOP_ARGUMENTS]

    @property
    def loop_triggers(self) -> list[str]:
        """The triggers that the loop around sets: the branch is known when a step begins, not before."""
        return [name for name in self.trigger_names if name in LOOP_ARGUMENTS]

    def select_block(self, **triggers: Any) -> str | None:
        """The first block whose trigger is there; triggers and blocks are paired in order."""
        pairs = self.branch_triggers.items()
        return next((name for name, trigger in pairs if trigger and triggers.get(trigger) is not None), None)

    def choose(self, values: Mapping[str, Any]) -> str | None:
        """The branch for these values, checked."""
        chosen = self.select_block(**{name: values.get(name) for name in self.trigger_names}) or self.default_block_name
        if chosen is not None and chosen not in self.sub_blocks:
            raise UnknownNameError(f"block chosen by {type(self).__name__}.select_block", chosen, self.sub_blocks)
        return chosen


class AutoPipelineBlocks(ConditionalPipelineBlocks):
    """The first block whose trigger input is given; the block without a trigger is the default."""

    def __init__(self, blocks: Mapping[str, Any] | None = None) -> None:
        super().__init__(blocks)
        self._triggers = super().branch_triggers
        triggers = list(self.block_trigger_inputs)
        if len(triggers) != len(self.sub_blocks):
            raise WiringError(
                f"{type(self).__name__} wants one trigger (or None) per block, got {len(triggers)} for "
                f"{len(self.sub_blocks)} blocks."
            )
        if self.loop_triggers:
            raise WiringError(
                f"{type(self).__name__} chooses by which input is given, and a loop always gives {triggers[0]!r}. Make "
                "a ConditionalPipelineBlocks, whose select_block looks at the value."
            )
        if triggers.count(None) > 1:
            raise WiringError(
                f"{type(self).__name__} has {triggers.count(None)} blocks without a trigger; one can be the default."
            )
        if None in triggers:
            self.default_block_name = list(self.sub_blocks)[triggers.index(None)]

    @property
    def branch_triggers(self) -> dict[str, str | None]:
        return self._triggers

    def parts_changed(self) -> None:
        super().parts_changed()
        for name in self.sub_blocks:
            if name not in self._triggers:
                raise WiringError(
                    f"{type(self).__name__} chooses a branch by its trigger input, and {name!r} would have none. Make "
                    "a subclass with the branches and triggers that you want, and put it here with replace_block."
                )
        self._triggers = {name: self._triggers[name] for name in self.sub_blocks}

    @property
    def trigger_names(self) -> list[str]:
        return list(dict.fromkeys(name for name in self._triggers.values() if name))


class NotABlock(ModularPipelineBlocks):
    """Stands for what was put among blocks and is none: named, saved, and refused where it would have to flow."""

    def __init__(self, held: Any) -> None:
        self._requirements = dict(getattr(held, "_requirements", None) or {})
        self.held = held

    def _refuse(self) -> Any:
        raise WiringError(f"A block is wanted (a class or an instance of ModularPipelineBlocks), got {self.held!r}.")

    inputs = property(_refuse)
    intermediate_outputs = property(_refuse)
    expected_components = property(_refuse)

    def __repr__(self) -> str:
        return f"<no block: {self.held!r}>"


def _instance(block: Any) -> ModularPipelineBlocks:
    made = block() if isinstance(block, type) else block
    return made if isinstance(made, ModularPipelineBlocks) else NotABlock(block)


def default_name(block: Any) -> str:
    """`ScaleModelInput` -> `scale_model_input`."""
    name = (block if isinstance(block, type) else type(block)).__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def check_name(name: str, owner: str) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise WiringError(
            f"{owner}: a block's name has to be an identifier (a path joins names with dots, loops add numbers), "
            f"got {name!r}."
        )
