"""Before anything is computed, ranks tell each other what they are about to do; who differs is refused by name."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from typing import Any

import torch

from .. import __version__
from ..errors import RankError
from .ranks import Ranks

SHOWN = 60  # characters of a value in an error


def agree(ranks: Ranks, before: str, facts: Mapping[str, Any]) -> None:
    """Refuse, on every rank alike, where a rank has another fact than rank 0."""
    own = {"is about to": before} | {name: as_text(value) for name, value in facts.items()}
    told: list[dict[str, str]] = ranks.told_by_all(f"comparison before {before}", own)
    first = told[0]
    for rank, other in enumerate(told):
        names = [name for name in {**first, **other} if first.get(name) != other.get(name)]
        if names:
            listed = "; ".join(
                f"{name}: {shown(other.get(name))}, rank 0 has {shown(first.get(name))}" for name in names[:5]
            )
            raise RankError(
                f"Rank {rank} differs from rank 0 in {len(names)} of {len(first)} things that have to be the same. "
                f"{listed}. Start every rank with the same files, versions and arguments."
            )


def software() -> dict[str, str]:
    """The versions that a result depends on."""
    return {"lockstep": __version__, "torch": torch.__version__, "python": platform.python_version()}


def as_text(value: Any) -> str:
    """A value as a short text that is equal where the value is; what is long is named by its hash."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= SHOWN else f"{text[:16]}… (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"


def shown(value: str | None) -> str:
    return "nothing" if value is None else value
