"""Pipelines by their published names, each made from its row of the table when it is first asked for."""

from __future__ import annotations

from typing import Any

from .table import AUTO, PUBLISHED

__all__ = [*PUBLISHED, *AUTO]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"lockstep.pipelines.published has no {name!r}")
    from . import classes

    made = classes.automatic_class(name) if name in AUTO else classes.published_class(name)
    globals()[name] = made
    return made
