"""A scheduler's method called otherwise than it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..edits import NotApplicable


@dataclass(frozen=True)
class MethodChange:
    """One method of a scheduler, run on its own result once more, or not at all."""

    part: str
    method: str
    twice: bool

    def apply(self, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first = next((v for v in [*args, *kwargs.values()] if isinstance(v, torch.Tensor)), None)
        if first is None:
            raise NotApplicable("a method without a tensor")
        if not self.twice:
            return first
        result = original(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or result.shape != first.shape:
            raise NotApplicable("not a method that can be run on its own result")
        return original(
            *[result if v is first else v for v in args], **{k: result if v is first else v for k, v in kwargs.items()}
        )
