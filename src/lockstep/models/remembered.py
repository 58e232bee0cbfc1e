"""What was measured of a large model, remembered on disk: how exact its layers are, and which multiply in bf16."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import __version__
from ..errors import WriteError
from ..files import atomic
from ..kernels import found
from .bf16_layers import Choice, able, switch_to
from .engines import cache_folder
from .examples import Call, TextCall
from .origin import unchanged

LARGE = 50_000_000  # parameters of a model whose choice is remembered; smaller ones are measured in a moment

SEARCH = "by halves"  # how choices are made: what was chosen in another way is not taken


@dataclass(frozen=True)
class LayerTrial:
    """How exact the layers of a model were found to be."""

    error: float  # the largest relative L2 of a layer to the same in fp64
    torch_error: float  # and that of torch's own kernels on the same layers
    left: tuple[str, ...]  # layers that stay with torch, because their error was larger


def tried(model: nn.Module, measure: Callable[[], LayerTrial]) -> LayerTrial:
    """What was found for these weights and kernels, or is now; remembered for weights of a file alone, whose name is
    there without reading them."""
    if is_small(model) or unchanged(model) is None:
        return measure()
    place = cache_folder() / f"trial-{_key(model)}.json"
    kept = _read(place)
    try:
        return LayerTrial(float(kept["error"]), float(kept["torch_error"]), tuple(kept["left"]))
    except (KeyError, TypeError, ValueError):
        found_now = measure()
        _write(place, asdict(found_now))
        return found_now


def chosen(model: nn.Module, bound: float, call: Call, choose: Callable[[], Choice]) -> Choice:
    """The choice that was made for these weights by such a call, or the one that is made now."""
    if is_small(model):
        return choose()
    read = (_key(call.encoder), call.words.tolist()) if isinstance(call, TextCall) else ()
    place = cache_folder() / f"bf16-{_key(model, SEARCH, bound, *read)}.json"
    layers, kept = able(model), _read_choice(place)
    if kept is not None and set(kept.in_bf16) | set(kept.kept) == set(layers):
        switch_to(layers, kept.in_bf16)
        return kept
    made = choose()
    _write(place, asdict(made))
    return made


def is_small(model: nn.Module) -> bool:
    """Is a model measured and prepared in a moment?"""
    return sum(weight.numel() for weight in model.parameters()) < LARGE


def _read_choice(place: Path) -> Choice | None:
    told = _read(place)
    try:
        return Choice(tuple(told["in_bf16"]), tuple(told["kept"]), float(told["error"]), float(told["bound"]))
    except (ValueError, KeyError, TypeError):
        return None


def _read(place: Path) -> Any:
    try:
        return json.loads(place.read_text())
    except (OSError, ValueError):
        return None


def _write(place: Path, told: dict[str, Any]) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with atomic(place) as temporary:
            temporary.write_text(json.dumps(told))
    except (OSError, WriteError):  # a folder that cannot be written to remembers nothing
        pass


def _key(model: nn.Module, *more: object) -> str:
    """One name for weights, kernels and what else counts; without the name of a file the bits of each tensor are
    summed, which is faster than a digest."""
    facts: list[object] = [__version__, found().digest, *more, type(model).__name__, unchanged(model)]
    for name, weight in model.named_parameters() if unchanged(model) is None else ():
        bits = weight.detach().contiguous().flatten().view(torch.int32 if weight.itemsize == 4 else torch.uint8)
        facts.append((name, tuple(weight.shape), int(bits.sum(dtype=torch.int64))))
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
