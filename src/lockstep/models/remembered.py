"""Which layers of a large model multiply in bf16, remembered on disk: to choose them takes as long as some steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from .. import __version__
from ..files import atomic
from ..kernels import found
from .bf16_layers import Choice, able, switch_to
from .engines import cache_folder

LARGE = 50_000_000  # parameters of a model whose choice is remembered; smaller ones are measured in a moment


def chosen(model: nn.Module, bound: float, choose: Callable[[], Choice]) -> Choice:
    """The choice that was made for these weights, or the one that is made now."""
    if sum(weight.numel() for weight in model.parameters()) < LARGE:
        return choose()
    place = cache_folder() / f"bf16-{_key(model, bound)}.json"
    layers, kept = able(model), _read(place)
    if kept is not None and set(kept.in_bf16) | set(kept.kept) == set(layers):
        switch_to(layers, kept.in_bf16)
        return kept
    made = choose()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic(place) as temporary:
            temporary.write_text(json.dumps(asdict(made)))
    except OSError:  # a folder that cannot be written to remembers nothing
        pass
    return made


def _read(place: Path) -> Choice | None:
    try:
        told = json.loads(place.read_text())
        return Choice(tuple(told["in_bf16"]), tuple(told["kept"]), float(told["error"]), float(told["bound"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _key(model: nn.Module, bound: float) -> str:
    """One name for weights, bound and kernels; the bits of a tensor are summed, which is faster than a digest."""
    facts: list[object] = [__version__, found().name, bound, type(model).__name__]
    for name, weight in model.named_parameters():
        bits = weight.detach().contiguous().flatten().view(torch.int32 if weight.itemsize == 4 else torch.uint8)
        facts.append((name, tuple(weight.shape), int(bits.sum(dtype=torch.int64))))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
