"""The class of a pipeline by the name that an index file has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..blocks import index as index_files
from ..blocks.params import public_class
from ..errors import UnsupportedError, did_you_mean
from ..extensions import GROUPS, brought
from .published.table import MODULAR

if TYPE_CHECKING:
    from .pipeline import DiffusionPipeline

PACKAGE = __package__.partition(".")[0]
ENTRY_POINTS = GROUPS["pipeline"]


def pipeline_class(found: index_files.Index) -> type[DiffusionPipeline]:
    """The class that an index names: by its own name, or by one that it stands in for."""
    import lockstep

    pipelines, name = [known for known in lockstep.__all__ if known.endswith("Pipeline")], found.class_name or ""
    name = MODULAR.get(name, name)
    if name in pipelines:
        own: type[DiffusionPipeline] = public_class(name, "a pipeline")
        return own
    brought = brought_class(name)
    if brought is None:
        raise UnsupportedError(
            f"{found.source!r} is a {name or 'pipeline without a class name'}, which Lockstep does not run"
            f"{did_you_mean(name, pipelines)} It runs: {', '.join(sorted(pipelines))}. A family of your own is found "
            "where it is imported, or by an entry point of its package: "
            f"[{ENTRY_POINTS}] {name or 'Name'} = module:class."
        )
    return brought


def brought_class(name: str) -> type[DiffusionPipeline] | None:
    """A family that Lockstep does not bring: imported already, or a package's (entry point `lockstep.pipelines`)."""
    from .pipeline import DiffusionPipeline  # which asks here

    waiting = list(DiffusionPipeline.__subclasses__())
    while waiting:
        kind = waiting.pop()
        own = kind.__module__.startswith(f"{PACKAGE}.")  # the public ones were asked already
        if not own and (name == kind.__name__ or name in kind.index_names):
            return kind
        waiting += kind.__subclasses__()
    found: type[DiffusionPipeline] | None = brought("pipeline", name, DiffusionPipeline)
    return found
