"""Classes from the table of published names: a family's pipeline over the branches that a name means."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

from ...blocks.compose import CompositeBlocks
from ...blocks.face import Face
from ...blocks.params import public_class
from ...blocks.wiring import trace
from ...errors import UnsupportedError
from ...files import HUB_ARGUMENTS
from .. import corrections
from ..pipeline import DiffusionPipeline
from ..single_file import open_index, take_file_options
from .table import AUTO, DECIDING, PUBLISHED, blocks_of, name_for


def narrowed(block: Any, given: Collection[str]) -> Any:
    """The tree for inputs that are always given: choices that hang on deciding inputs are made, others stay open."""
    if block.kind == "leaf":
        return block
    if block.kind == "choice" and set(block.trigger_names) <= set(DECIDING):
        branch = block.choose(dict.fromkeys(given, True))
        return None if branch is None else narrowed(block.sub_blocks[branch], given)
    twin = copy.copy(block)
    kept = {name: narrowed(part, given) for name, part in block.sub_blocks.items()}
    twin.sub_blocks = type(block.sub_blocks)({name: part for name, part in kept.items() if part is not None})
    return twin


def without_idle_choices(root: CompositeBlocks) -> CompositeBlocks:
    """The tree without open choices whose blocks read what nothing in it makes any more."""
    made = trace(root).made
    for name, part in list(root.sub_blocks.items()):
        wanted = [param.name for param in part.inputs if param.made_by_block] if part.kind == "choice" else []
        if any(value not in made for value in wanted):
            root = root.removed(name)
    return root


def published_class(name: str) -> type[DiffusionPipeline]:
    """The class of a row."""
    row = PUBLISHED[name]
    family = public_class(row.pipeline, name)
    blocks = without_idle_choices(narrowed(public_class(row.family, name)(), row.given))
    blocks.workflows = {row.workflow: row.given}  # type: ignore[misc]
    by = "ControlNet" if row.steered else "T2I-Adapter" if row.adapted else ""
    names = {spec.name for spec in blocks.expected_components}
    picture = f"{row.task.replace('2', ' to ')}{f', steered by a {by}' if by else ''}"
    fields = {
        "__doc__": f"{family.__doc__} As {name}: {picture}.",
        "__module__": __package__,
        "default_blocks": blocks,
        "face": Face(row.by_position, row.renamed, row.defaults),
        "corrections": tuple(getattr(corrections, one) for one in row.corrections),
        "index_names": (),
        "_optional_components": [name for name in family._optional_components if name in names],
    }
    if row.tells:
        fields["_callback_tensor_inputs"] = list(row.tells)
    return type(name, (family,), fields)


class AutoPipeline:
    """Finds the published name for a task: `from_pretrained` by the folder's index, `from_pipe` by a pipeline."""

    task: ClassVar[str]

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, **options: Any) -> DiffusionPipeline:
        """The pipeline of a folder, hub id or single file for this task."""
        refuse_perturbed(options)
        hub = {key: value for key, value in options.items() if key in HUB_ARGUMENTS}
        found = open_index(name_or_path, take_file_options(name_or_path, dict(options)), hub)
        steered = options.get("controlnet") is not None or (found.entries.get("controlnet") or [None, None])[1]
        return cls._class_for(found.class_name or "", bool(steered)).from_pretrained(name_or_path, **options)

    from_single_file = from_pretrained

    @classmethod
    def from_pipe(cls, pipe: Any, **changes: Any) -> DiffusionPipeline:
        """The same components, for this task."""
        refuse_perturbed(changes)
        held = {**getattr(pipe, "components", {}), **changes}
        return cls._class_for(type(pipe).__name__, held.get("controlnet") is not None).from_pipe(pipe, **changes)

    @classmethod
    def _class_for(cls, name: str, steered: bool) -> type[DiffusionPipeline]:
        blocks = blocks_of(name)
        found = None if blocks is None else name_for(blocks, cls.task, steered)
        if found is None:
            raise UnsupportedError(
                f"{cls.__name__} knows no {cls.task}{' with a ControlNet' if steered else ''} for {name or 'this'}; "
                f"it knows: {', '.join(sorted(PUBLISHED))}."
            )
        return public_class(found, cls.__name__)


def refuse_perturbed(options: dict[str, Any]) -> None:
    """Perturbed attention is a guider of any pipeline here, not a pipeline of its own."""
    if options.pop("enable_pag", False):
        raise UnsupportedError(
            "enable_pag=True names pipelines that are not needed here: set the guider of any pipeline, "
            "pipe.guider = PerturbedAttentionGuidance(…)."
        )
    options.pop("pag_applied_layers", None)


def automatic_class(name: str) -> type[AutoPipeline]:
    """The class that chooses for a task."""
    doc = f"The pipeline of a folder, or of another pipeline, for {AUTO[name].replace('2', ' to ')}."
    return type(name, (AutoPipeline,), {"__doc__": doc, "__module__": __package__, "task": AUTO[name]})
