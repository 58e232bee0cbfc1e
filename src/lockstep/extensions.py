"""What installed packages bring along: classes and backends that they declare as entry points.

    [project.entry-points."lockstep.pipelines"]
    SunrisePipeline = "sunrise.pipeline:SunrisePipeline"

A name in a model's files chooses among what is declared so; it can never make Lockstep import anything else.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

from .errors import LoadError, UnsupportedError
from .notes import say_once

GROUPS = {  # what can be brought -> the group of entry points in which it is declared
    "pipeline": "lockstep.pipelines",
    "scheduler": "lockstep.schedulers",
    "guider": "lockstep.guiders",
    "attention backend": "lockstep.attention_backends",
}


def brought_names(kind: str) -> list[str]:
    """The names that installed packages declare; nothing of theirs is imported for it."""
    return sorted({entry.name for entry in importlib.metadata.entry_points(group=GROUPS[kind])})


def brought(kind: str, name: str, wanted: type) -> Any:
    """What an installed package declares under a name, imported; None where none does.

    `wanted` is the class that it has to be a child of, or an object of.
    """
    entries = list(dict.fromkeys(importlib.metadata.entry_points(group=GROUPS[kind], name=name)))
    if not entries:
        return None
    if len({entry.value for entry in entries}) > 1:
        owners = " and ".join(f"{_package(entry)} ({entry.value})" for entry in entries)
        raise LoadError(f"Two packages bring the {kind} {name!r}: {owners}. Remove one of them.")
    entry = entries[0]
    try:
        found = entry.load()
    except Exception as problem:  # whatever the package's own code raises
        raise LoadError(
            f"The package {_package(entry)} brings the {kind} {name!r}, but {entry.value} cannot be imported: "
            f"{type(problem).__name__}: {problem}. Repair or remove the package."
        ) from problem
    if not (issubclass(found, wanted) if isinstance(found, type) else isinstance(found, wanted)):
        raise UnsupportedError(
            f"The package {_package(entry)} brings {entry.value} as the {kind} {name!r}, which is no {kind}: it has to "
            f"be a {wanted.__name__}, got {getattr(found, '__name__', type(found).__name__)}."
        )
    return found


def all_brought(kind: str, wanted: type) -> dict[str, Any]:
    """Everything of a kind that installed packages bring; what cannot be had is told, and left out."""
    found = {}
    for name in brought_names(kind):
        try:
            found[name] = brought(kind, name, wanted)
        except (LoadError, UnsupportedError) as problem:
            say_once(str(problem))
    return found


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "?"
