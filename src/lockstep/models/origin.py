"""Where a model's weights came from: one name for what the files held, until somebody changes the weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from .weights import MadeTensor, StoredTensor


@dataclass(frozen=True)
class Origin:
    """The name of the files' content, and the state of the weights when they were read."""

    name: str
    state: tuple[Any, ...]


def weights_state(model: nn.Module) -> tuple[Any, ...]:
    """Other weights, or the same changed in place, have another state."""
    return tuple((one.data_ptr(), 0 if one.is_inference() else one._version) for one in model.parameters())


def origin_of(model: nn.Module, stored: Mapping[str, StoredTensor]) -> Origin | None:
    """The origin of weights that were just read; None where they were made of something else than the files' values.

    A file is known by its place, number, size and time: its content is not read for it.
    """
    if any(isinstance(tensor, MadeTensor) for tensor in stored.values()):
        return None
    facts: list[Any] = [type(model).__name__]
    for path in sorted({tensor.path for tensor in stored.values()}):
        told = path.resolve().stat()
        facts.append((str(path.resolve()), told.st_ino, told.st_size, told.st_mtime_ns))
    facts += [(name, tensor.info.start, tensor.info.shape) for name, tensor in sorted(stored.items())]
    facts += [str(one.dtype) for one in model.parameters()]
    return Origin(hashlib.sha256(json.dumps(facts).encode()).hexdigest(), weights_state(model))


def unchanged(model: nn.Module) -> str | None:
    """The name of a model's weights, if they are still those of the files."""
    origin: Origin | None = getattr(model, "origin", None)
    return None if origin is None or origin.state != weights_state(model) else origin.name
