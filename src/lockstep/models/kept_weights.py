"""Prepared weights on disk: written once, mapped into memory from then on, shared by all processes with that model.

A file has the tensors, each from a line of the cache on, then what they are as JSON, then the length of that. It is
written under another name and renamed; every tensor's bits are summed when it is taken, so that one that was cut off or
damaged is noticed and made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import nn

from .. import __version__, memory
from ..files import temporary_beside
from ..kernels import found
from ..notes import say_once
from .engines import cache_folder
from .fast import Prepared
from .origin import unchanged
from .remembered import is_small
from .weights import parse_size, size_text

Tensor = torch.Tensor
SWITCH = "LOCKSTEP_PREPARED"  # "off" (or "0"), or how much may be kept of all models together
MOST = "20GB"
FREE = 2  # a file takes no more than one part in so many of what is free on the disk
MAGIC = b"LOCKSTEP-PREPARED-1\n"
END = struct.Struct(f"<Q{len(MAGIC)}s")
LINE = 64
DAY = 86_400
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Damaged(Exception):
    """A file of prepared weights is not what was written."""


def adopt(model: nn.Module, layers: Mapping[str, Prepared]) -> bool:
    """Let the layers take what they would prepare from the disk, where it is written first if it is not there yet.

    False where nothing is kept: small models, weights that are of no file or have changed since, no room.
    """
    place = _place(model, layers)
    if place is None:
        return False
    try:
        return _adopted(place, layers)
    except OSError as problem:  # a disk that is full, or may not be written to
        say_once(f"Prepared weights cannot be kept in {place.parent}: {problem.strerror}.")
        return False


def _adopted(place: Path, layers: Mapping[str, Prepared]) -> bool:
    if place.exists():
        try:
            _take(place, layers)
            return True
        except Damaged as problem:
            say_once(f"Prepared weights in {place} are damaged ({problem}), and are prepared again.")
            place.unlink(missing_ok=True)
    if not _write(place, layers):
        return False
    _take(place, layers)
    return True


def _place(model: nn.Module, layers: Mapping[str, Prepared]) -> Path | None:
    """One name for weights, kernels and the way each layer is prepared."""
    name = unchanged(model)
    if name is None or is_small(model) or most_kept() == 0:
        return None
    ways = [(layer, type(one).__name__, one.in_bf16, one.size()) for layer, one in layers.items()]
    facts = json.dumps([name, found().digest, __version__, ways])
    return cache_folder() / "prepared" / f"{type(model).__name__}-{hashlib.sha256(facts.encode()).hexdigest()[:24]}"


def most_kept() -> int:
    """Bytes that may be kept of all models together."""
    wanted = os.environ.get(SWITCH) or MOST
    return 0 if wanted in ("off", "0") else parse_size(wanted, f"{SWITCH} (or 'off')")


def _write(place: Path, layers: Mapping[str, Prepared]) -> bool:
    """Prepare layer after layer into a file; False where there is no room for it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    wanted = sum(layer.size() for layer in layers.values())
    if not _make_room(place.parent, wanted):
        say_once(
            f"Prepared weights ({size_text(wanted)}) are not kept in {place.parent}, which has no room for them: at "
            f"most {size_text(most_kept())} ({SWITCH}) and one part in {FREE} of what is free on the disk."
        )
        return False
    temporary = temporary_beside(place)
    try:
        with temporary.open("wb") as file:
            told = {}
            for name, layer in layers.items():
                told[name] = _told(file, layer.prepared())
                layer.forget()
            text = json.dumps(told).encode()
            file.write(text + END.pack(len(text), MAGIC))
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
    size = place.stat().st_size / 1e9
    say_once(f"Prepared weights ({size:.1f} GB) are kept in {place} for the next start; {SWITCH}=off keeps none.")
    return True


def _told(file: BinaryIO, prepared: Any) -> list[Any]:
    """What a layer has prepared, written: words as they are; of tensors the place, the kind, the sum of the bits."""
    told: list[Any] = []
    for one in prepared if isinstance(prepared, tuple) else (prepared,):
        if isinstance(one, str):
            told.append(one)
            continue
        file.write(bytes(-file.tell() % LINE))
        flat = _flat(one)
        told.append([file.tell(), str(one.dtype).removeprefix("torch."), _layout(one), _sum(flat)])
        file.write(flat.view(torch.uint8).numpy().data)
    return told


def _layout(tensor: Tensor) -> list[list[int]]:
    return [list(tensor.shape), list(tensor.stride())]


def _flat(tensor: Tensor) -> Tensor:
    """The numbers in the order in which they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _sum(flat: Tensor) -> int:
    whole = flat.view(torch.uint8)
    even = len(whole) // 8 * 8
    return int(whole[:even].view(torch.int64).sum()) + int(whole[even:].sum())


def _take(place: Path, layers: Mapping[str, Prepared]) -> None:
    """Give each layer its part of the file, and let the weights that it was made of leave memory."""
    size = place.stat().st_size
    told = _read_end(place, size)
    storage = torch.UntypedStorage.from_file(str(place), False, size)
    for name, layer in layers.items():
        try:
            parts = [one if isinstance(one, str) else _tensor(storage, *one) for one in told[name]]
        except (LookupError, TypeError, ValueError, ArithmeticError, RuntimeError) as problem:
            raise Damaged(f"what it says of {name} is not what was written") from problem
        if not parts:
            raise Damaged(f"nothing is there of {name}")
        layer.take(tuple(parts) if len(parts) > 1 else parts[0])
        for weight in layer.sources():
            memory.page_out(weight)
    os.utime(place)  # the ones that were not used for longest go first


def _read_end(place: Path, size: int) -> dict[str, list[Any]]:
    with place.open("rb") as file:
        file.seek(max(0, size - END.size))
        try:
            length, magic = END.unpack(file.read(END.size))
            file.seek(size - END.size - length)
            if magic != MAGIC:
                raise Damaged("it was cut off")
            told: dict[str, list[Any]] = json.loads(file.read(length))
        except (struct.error, ValueError, OSError) as problem:
            raise Damaged("it was cut off") from problem
    return told


def _tensor(storage: Any, start: int, dtype: str, layout: list[list[int]], bits: int) -> Tensor:
    kind = DTYPES[dtype]
    shape, stride = layout
    last = sum((length - 1) * step for length, step in zip(shape, stride, strict=True))
    whole = start % LINE == 0 and min(shape) > 0 and min(stride) >= 0 and last == math.prod(shape) - 1  # no gaps
    if not whole or start < 0 or start + (last + 1) * kind.itemsize > storage.nbytes():
        raise ValueError("a place outside of the file")
    tensor = torch.empty(0, dtype=kind).set_(storage, start // kind.itemsize, shape, stride)
    if _sum(_flat(tensor)) != bits:
        raise Damaged("the sum of a layer is another one")
    return tensor


def _make_room(folder: Path, wanted: int) -> bool:
    """Let the files go that were not used for longest, until there is room for so many bytes."""
    for left in folder.glob(".*.part"):  # by a process that was killed
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > DAY:
                left.unlink()
    kept = sorted((one.stat().st_mtime, one.stat().st_size, one) for one in folder.iterdir() if one.is_file())
    most, taken = most_kept(), sum(size for _, size, _ in kept)
    if wanted > most or wanted > shutil.disk_usage(folder).free // FREE:
        return False
    for _, size, one in kept:
        if taken + wanted <= most:
            break
        one.unlink(missing_ok=True)
        taken -= size
    return True
