"""Frames as bytes: one form for every kind of picture, a hash that tells an edit, and how far two of them are apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from PIL import Image

from ..errors import InputError, NonFiniteError

ACCEPTED = "a PIL image, a numpy array (HWC), or a torch tensor (CHW), in bytes or in floats from 0 to 1"


def pixels_of(frame: Any) -> np.ndarray:
    """Bytes of shape (height, width, 3), or 4 where there is transparency."""
    if isinstance(frame, Image.Image):
        clear = frame.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in frame.info
        return np.asarray(frame.convert("RGBA" if clear else "RGB"))
    if hasattr(frame, "detach"):  # a tensor, told without importing torch
        frame = frame.detach().cpu().float().numpy() if frame.is_floating_point() else frame.detach().cpu().numpy()
        frame = np.moveaxis(frame, 0, -1) if frame.ndim == 3 else frame
    if not isinstance(frame, np.ndarray) or frame.ndim not in (2, 3):
        raise InputError(f"A frame wants to be {ACCEPTED}; got {type(frame).__name__}{_shape(frame)}.")
    array = frame[..., None] if frame.ndim == 2 else frame
    if array.shape[-1] not in (1, 3, 4) or not array.size:
        raise InputError(
            f"A frame wants 1, 3 or 4 channels at the end (numpy) or in front (torch); got{_shape(array)}."
        )
    array = array if array.dtype == np.uint8 else _to_bytes(array)
    return np.ascontiguousarray(np.repeat(array, 3, axis=-1) if array.shape[-1] == 1 else array)


def _shape(value: Any) -> str:
    return f" of shape {list(value.shape)}" if hasattr(value, "shape") else ""


def _to_bytes(array: np.ndarray) -> np.ndarray:
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"A frame wants to be {ACCEPTED}; got values of type {array.dtype}.")
    if not np.isfinite(array).all():
        raise NonFiniteError("A frame has values that are NaN or Inf; there is nothing to write. Decode in float32.")
    if array.min() < 0 or array.max() > 1:
        raise InputError(f"A frame of floats runs from 0 to 1; got {array.min():.4g} … {array.max():.4g}.")
    return (array * 255).round().astype(np.uint8)


class PixelHash:
    """SHA-256 over the sizes and bytes of frames, one after the other."""

    def __init__(self, frames: Iterable[np.ndarray] = ()) -> None:
        self._digest = hashlib.sha256()
        for frame in frames:
            self.add(frame)

    def add(self, frame: np.ndarray) -> None:
        self._digest.update(f"{'x'.join(map(str, frame.shape))}|".encode())
        self._digest.update(np.ascontiguousarray(frame).data)

    @property
    def text(self) -> str:
        return self._digest.hexdigest()


@dataclass(frozen=True)
class Difference:
    """How far the pixels of two media are apart, in steps of 1/255."""

    largest: int
    mean: float


def difference(one: Iterable[np.ndarray], other: Iterable[np.ndarray]) -> Difference | None:
    """Over all frames; None where the sizes or the numbers of frames are not the same."""
    largest, total, count = 0, 0, 0
    for a, b in zip_longest(one, other):
        if a is None or b is None or a.shape != b.shape:
            return None
        apart = np.abs(a.astype(np.int16) - b)
        largest, total, count = max(largest, int(apart.max())), total + int(apart.sum(dtype=np.int64)), count + a.size
    return Difference(largest, total / max(count, 1))
