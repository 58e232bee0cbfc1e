"""When the numbers of two tensors are the same, whatever kernel made them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...recording.values import leaves
from .graph import FrameStep, FrameValue

MASKED = -1e4  # added to scores, this and everything below it hides a key


def filled(value: Any, given: Iterator[FrameValue]) -> Any:
    if isinstance(value, FrameValue):
        return next(given).content.clone()
    if type(value) in (list, tuple):
        return type(value)(filled(item, given) for item in value)
    return {k: filled(v, given) for k, v in value.items()} if type(value) is dict else value


def gives_alike(function: Any, step: FrameStep, tolerance: float) -> bool:
    """True if it makes of what the step is given what the step makes of it."""
    given = iter(step.operands())
    try:
        with torch.no_grad(), torch._C.DisableTorchFunction():
            made = function(*filled(step.args, given), **filled(step.kwargs, given))
    except Exception:  # other kinds or shapes of values: not the same
        return False
    pieces = [tensor for _, tensor in leaves(made, "out") if isinstance(tensor, torch.Tensor)]
    mine = [value.content for value in step.values]
    return len(pieces) == len(mine) > 0 and all(alike(x, y, tolerance) for x, y in zip(mine, pieces, strict=True))


def alike(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.shape != b.shape:
        return False
    with torch._C.DisableTorchFunction():
        if a.is_complex() and b.is_complex():
            return _near(torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj()), tolerance)
        if a.is_floating_point() and b.is_floating_point():
            return _near(a, b, tolerance)
        whole = not (a.is_floating_point() or b.is_floating_point() or a.is_complex() or b.is_complex())
        return whole and torch.equal(a.long(), b.long())


def same_sorted(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.numel() != b.numel() or a.is_complex() or b.is_complex() or a.dtype is torch.bool or b.dtype is torch.bool:
        return False
    left, right = (x.double().reshape(-1).sort().values for x in (a, b))
    return _near(left, right, tolerance)


def masked(values: torch.Tensor) -> torch.Tensor:
    """A mask that is added to scores hides a key with any number that is far below all others."""
    hidden = values <= MASKED
    if not hidden.any() or bool((values[~hidden].abs() > 1e-2 * -MASKED).any()):
        return values
    return values.masked_fill(hidden, -torch.inf)


def _near(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> bool:
    if a.dtype == b.dtype and torch.equal(a, b):
        return True
    a, b = masked(a.double()), masked(b.double())
    finite = a.isfinite()
    if not torch.equal(finite, b.isfinite()) or not torch.equal(a[~finite].nan_to_num(), b[~finite].nan_to_num()):
        return False
    return bool((a - b)[finite].norm() <= tolerance * a[finite].norm())
