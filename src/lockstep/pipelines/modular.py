"""The name that scripts over blocks have for a pipeline, and what it does otherwise: it loads when it is told to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .pipeline import DiffusionPipeline


class _EveryPipeline(type):
    """There is one mechanism: what is asked of any pipeline is whether it is a modular one, and it is."""

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, DiffusionPipeline) if cls is ModularPipeline else super().__instancecheck__(one)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, DiffusionPipeline) if cls is ModularPipeline else super().__subclasscheck__(kind)


class ModularPipeline(DiffusionPipeline, metaclass=_EveryPipeline):
    """The same by the name that scripts over blocks have for it: nothing is loaded before `load_components` says so,
    or a run needs it (a look at what is not loaded gives None), and `workflow=` leaves one workflow's blocks alone."""

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name_or_path: str | Path, *, load: bool = False, workflow: str | None = None, **options: Any
    ) -> DiffusionPipeline:
        """A pipeline from a folder or hub id; takes what `DiffusionPipeline.from_pretrained` takes."""
        owner: Any = DiffusionPipeline if cls is ModularPipeline else super()
        made: DiffusionPipeline = owner.from_pretrained(name_or_path, load=load and workflow is None, **options)
        if workflow is not None:
            options["blocks"] = made.blocks.get_workflow(workflow)
            made = type(made).from_pretrained(name_or_path, load=load, **options)
        made.is_modular()
        return made
