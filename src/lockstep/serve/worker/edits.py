"""A run that stops at a boundary, and one that goes on from there with other values.

To go on, a run is made again up to the boundary (the same seed makes the same numbers) and the values are changed
there: so nothing has to be kept alive in between, and a worker that dies loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from ...blocks.checkpoints import Checkpoint
from ...errors import InputError, UnknownNameError


class Stops:
    """The boundaries of a request: where values are changed, and where it stops."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self.edits = {edit["at"]: edit["values"] for edit in request.get("edits") or ()}
        self.checkpoints = {at: Checkpoint(save=True) for at in self.edits}
        self.stop = Checkpoint(save=True, stop=True)
        if request.get("stop_at"):
            if request["stop_at"] in self.edits:
                raise InputError(
                    f"The run cannot stop at {request['stop_at']!r}, where its values were changed: choose a later one."
                )
            self.checkpoints[request["stop_at"]] = self.stop
        self._applied: set[str] = set()

    def pass_event(self, run: Any) -> None:
        """Change values at a boundary that the run has just reached."""
        for at, wanted in self.edits.items():
            if at not in self._applied and self.checkpoints[at].data:
                self._applied.add(at)
                for name, edit in wanted.items():
                    if name not in self.checkpoints[at].data:
                        raise UnknownNameError(f"value at {at!r}", name, self.checkpoints[at].data)
                    run.state.set(name, edited(name, run.state.get(name), edit), f"edit at {at}")

    def changes(self) -> list[str]:
        return [f"edit of {name} at {at}" for at in sorted(self._applied) for name in sorted(self.edits[at])]


def edited(name: str, value: Any, edit: Mapping[str, Any]) -> Any:
    """A value after an edit: another one of the same shape, or the same added to, multiplied, with noise, or turned."""
    ((way, given),) = edit.items()
    if not isinstance(value, torch.Tensor):
        if way != "value":
            raise InputError(f"{name!r} is no tensor here; it can be given another 'value', got {way!r}.")
        if isinstance(value, (bool, int, float, str)) and type(given) is not type(value):
            raise InputError(f"{name!r} wants {type(value).__name__}, got {type(given).__name__}.")
        return given
    if way in ("noise", "toward"):
        generator = torch.Generator().manual_seed(int(given["seed"]))
        drawn = torch.randn(value.shape, generator=generator, dtype=torch.float32).to(value.device, value.dtype)
        if way == "noise":
            return value + drawn * float(given["strength"])
        angle = float(given["amount"]) * math.pi / 2  # a turn keeps the spread, which a straight way would lower
        return value * math.cos(angle) + drawn * value.std() * math.sin(angle)
    try:
        other = torch.as_tensor(given, dtype=value.dtype if way == "value" else torch.float64)
        if way == "value":
            return other.to(value.device).expand(value.shape).clone()
        changed = value.double() + other if way == "add" else value.double() * other
        if changed.shape != value.shape:
            raise RuntimeError
        return changed.to(value.dtype)
    except (RuntimeError, ValueError, TypeError):
        raise InputError(f"{name!r} has the shape {list(value.shape)}; the edit does not fit it.") from None


def summary(values: Mapping[str, Any]) -> dict[str, Any]:
    """A look at each value: numbers that JSON can carry."""
    return {name: _look(value) for name, value in values.items()}


def _look(value: Any) -> dict[str, Any]:
    if isinstance(value, torch.Tensor):
        told: dict[str, Any] = {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
        if value.numel() and value.dtype != torch.bool:
            flat = value.detach().double().flatten()
            spread = flat.std().item() if flat.numel() > 1 else 0.0
            numbers = {"mean": flat.mean().item(), "std": spread, "min": flat.min().item(), "max": flat.max().item()}
            told |= {key: number if math.isfinite(number) else None for key, number in numbers.items()}
        if value.numel() <= 64 and value.dtype != torch.bool:
            told["value"] = [
                number if math.isfinite(number) else None for number in value.detach().double().flatten().tolist()
            ]
        return told
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return {"type": type(value).__name__, "value": value}
    return {"type": type(value).__name__}
