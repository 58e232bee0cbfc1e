"""The non-finite guard: the first block that makes NaN or Inf is named, before the value travels on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import NonFiniteError


@dataclass(frozen=True)
class Finding:
    """A written tensor that is not finite."""

    name: str
    nan: int
    inf: int
    total: int
    dtype: torch.dtype

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.name!r} with {self.nan} NaN and {self.inf} Inf among {self.total} values ({dtype})"


def find_nonfinite(written: Mapping[str, Any], outputs: list[Any]) -> Finding | None:
    """The first written tensor with NaN or Inf in it."""
    free = {param.name for param in outputs if param.may_be_infinite}
    for name, value in written.items():
        for tensor in tensors_in(value) if name not in free else ():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                nan, inf = int(torch.isnan(tensor).sum()), int(torch.isinf(tensor).sum())
                return Finding(name, nan, inf, tensor.numel(), tensor.dtype)
    return None


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a value, arrays of numbers and those inside lists and dicts included."""
    if isinstance(value, torch.Tensor):
        if not value.is_meta:
            yield value
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f":
            yield torch.from_numpy(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from tensors_in(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_in(one)


def damaged_weights(models: Mapping[str, Any]) -> Iterator[str]:
    """The weights that hold NaN or Inf themselves."""
    for model, component in models.items():
        named = component.named_parameters() if isinstance(component, torch.nn.Module) else ()
        yield from (f"{model}.{name}" for name, weight in named if not bool(torch.isfinite(weight).all()))


def refuse(
    finding: Finding, path: str, block: str, position: Mapping[str, Any], models: Mapping[str, Any]
) -> NonFiniteError:
    """The error that names the block, the step, the value and the weights that are to blame, if they are."""
    step = f" at step {position['index']}" if "index" in position else ""
    half = finding.dtype in (torch.float16, torch.bfloat16)
    advice = (
        "Half precision overflows easily: load that model in float32."
        if half
        else "The weights that this block uses are finite: its inputs are out of their range, or it overflows."
    )
    damaged = list(damaged_weights(models))
    if damaged:
        more = f" and {len(damaged) - 3} more" if len(damaged) > 3 else ""
        advice = f"The cause is in the weights: {', '.join(damaged[:3])}{more} hold NaN or Inf. Load the model again."
    return NonFiniteError(
        f"Block {path!r} ({block}){step} made {finding}; what earlier blocks made was finite. {advice} "
        "A block whose output may hold infinities says so with OutputParam(may_be_infinite=True)."
    )
