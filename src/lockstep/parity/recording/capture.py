"""One tensor to one line of the trace: what is kept of it, and whether it was seen before."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch

from ..errors import RecordError
from ..trace.names import Key
from ..trace.writer import TraceWriter
from .looping import Loop
from .sketch_torch import Sketcher
from .values import DTYPE_NAMES, tensor_bytes

SMALL = 1024  # values of at most this many elements are kept whole: 4 KB beside a sketch of 2 KB
KEEP_MODES = ("sketch", "full", "none")
MAX_DEPS = 16


Adjust = Callable[[Key, torch.Tensor], torch.Tensor]  # what to write of a value, e.g. its first rows


class Keep:
    """What to keep per path: one mode, or patterns of which the last that matches counts."""

    def __init__(self, keep: str | Mapping[str, str]) -> None:
        rules = {"*": keep} if isinstance(keep, str) else {"*": "sketch", **keep}
        for pattern, mode in rules.items():
            if mode not in KEEP_MODES:
                raise RecordError(f"keep[{pattern!r}] must be one of {', '.join(KEEP_MODES)}, got {mode!r}")
        self._rules = list(rules.items())
        self._known: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        if path not in self._known:
            self._known[path] = [mode for pattern, mode in self._rules if fnmatchcase(path, pattern)][-1]
        return self._known[path]


@dataclass(slots=True)
class _Seen:
    ref: weakref.ref[torch.Tensor]
    version: int
    seqs: tuple[int, ...]
    twin: bool  # True: the value itself was written as seqs[0]; False: it was made from those
    full: bool


class Capture:
    """Writes values; the same tensor object, unchanged, is sketched once."""

    def __init__(self, writer: TraceWriter, keep: Keep, loop: Loop, adjust: Adjust | None = None) -> None:
        self.writer = writer
        self._adjust = adjust
        self.sketcher = Sketcher()
        self._keep = keep
        self._loop = loop
        self._seen: dict[int, _Seen] = {}

    def wants_full(self, path: str) -> bool:
        return self._keep(path) == "full"

    def tensor(
        self,
        path: str,
        slot: str,
        tensor: torch.Tensor,
        *,
        step: str | None = None,
        call: int = 0,
        op: str = "",
        full: bool = False,
        deps: Iterable[int] = (),
        meta: dict[str, Any] | None = None,
    ) -> int | None:
        """Record one value; None if it is not kept. `full` keeps it whole whatever the rules say."""
        with torch._C.DisableTorchFunction():  # another recorder must not see the work of this one
            return self._tensor(path, slot, tensor, step, call, op, full, deps, meta)

    def _tensor(
        self,
        path: str,
        slot: str,
        tensor: torch.Tensor,
        step: str | None,
        call: int,
        op: str,
        full: bool,
        deps: Iterable[int],
        meta: dict[str, Any] | None,
    ) -> int | None:
        mode = self._keep(path)
        if tensor.is_meta or tensor.dtype not in DTYPE_NAMES or (mode == "none" and not full):
            return None
        step = self._loop.label if step is None else step
        full = full or mode == "full" or tensor.numel() <= SMALL
        event: dict[str, Any] = {"call": call}
        if op:
            event["op"] = op
        if meta:
            event["meta"] = meta
        value = tensor if self._adjust is None else self._adjust(Key(step, path, slot, call), tensor)
        dtype, shape = DTYPE_NAMES[value.dtype], tuple(value.shape)
        seen = self._lookup(tensor)
        if seen is not None and seen.twin and (seen.full or not full):
            return self.writer.put_same(step, path, slot, dtype, shape, seen.seqs[0], **event)
        found = list(dict.fromkeys([*deps, *(seen.seqs if seen is not None else ())]))[:MAX_DEPS]
        if found:
            event["deps"] = found
        sketch, stats = self.sketcher(value)
        data = tensor_bytes(value) if full else None
        seq = self.writer.put_measured(step, path, slot, dtype, shape, sketch, stats, data, **event)
        self._remember(tensor, (seq,), True, full)
        return seq

    def view(self, result: torch.Tensor, source: torch.Tensor) -> None:
        """`result` has the elements of `source` in the same order."""
        seen = self._lookup(source)
        if seen is not None and result.numel() == source.numel() and result.dtype == source.dtype:
            self._remember(result, seen.seqs, seen.twin, seen.full)

    def derived(self, result: torch.Tensor, sources: Iterable[torch.Tensor]) -> None:
        """`result` was made from `sources` by something that is not recorded itself (a slice, a transpose)."""
        seqs = self.sources(sources)
        if seqs:
            self._remember(result, seqs, False, False)

    def sources(self, tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for tensor in tensors:
            seen = self._lookup(tensor)
            if seen is not None:
                found.update(dict.fromkeys(seen.seqs))
        return tuple(found)[:MAX_DEPS]

    def forget(self, tensor: torch.Tensor) -> None:
        """The tensor was changed in place."""
        self._seen.pop(id(tensor), None)

    def _lookup(self, tensor: torch.Tensor) -> _Seen | None:
        seen = self._seen.get(id(tensor))
        if seen is None or seen.ref() is not tensor or seen.version != _version(tensor):
            return None
        return seen

    def _remember(self, tensor: torch.Tensor, seqs: tuple[int, ...], twin: bool, full: bool) -> None:
        if tensor.is_inference():
            return  # such a tensor does not count its changes, so it cannot be told whether it is still the same
        key = id(tensor)
        self._seen[key] = _Seen(
            weakref.ref(tensor, lambda _: self._seen.pop(key, None)), _version(tensor), seqs, twin, full
        )


def _version(tensor: torch.Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
