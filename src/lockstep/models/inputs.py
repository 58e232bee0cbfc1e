"""Checks of what a model is given, before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..errors import InputError

Tensor = torch.Tensor
COMPUTE_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def check_tensor(
    owner: str, name: str, value: Tensor, weights_dtype: torch.dtype, device: torch.device | None = None
) -> None:
    """A tensor of the weights' dtype (unless autocast takes care of that) that is where the sample is."""
    if not isinstance(value, Tensor):
        raise InputError(f"{owner}: {name} has to be a tensor, got {type(value).__name__}.")
    if device is not None and value.device != device:
        raise InputError(f"{owner}: {name} is on {value.device}, the sample is on {device}. Move one of them.")
    computes = weights_dtype in COMPUTE_DTYPES  # weights stored in another dtype are converted layer by layer
    if computes and value.dtype != weights_dtype and not torch.is_autocast_enabled(value.device.type):
        raise InputError(
            f"{owner}: {name} is {value.dtype}, the weights are {weights_dtype}. Convert one: {name}.to(model.dtype)."
        )


def check_shape(owner: str, name: str, value: Tensor, wanted: Mapping[str, int | None], dtype: torch.dtype) -> None:
    """The same, and a shape: sizes by the names of their axes, None where any will do."""
    check_tensor(owner, name, value, dtype)
    sizes = tuple(wanted.values())
    if value.ndim != len(sizes) or any(w not in (None, got) for w, got in zip(sizes, value.shape, strict=True)):
        shown = ", ".join(axis if size is None else f"{axis} {size}" for axis, size in wanted.items())
        raise InputError(f"{owner}: {name} has to be ({shown}), got {tuple(value.shape)}.")
