"""Writing `ptrace/1` with numpy alone, as the values come: a killed process leaves a readable trace."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import InvalidTrace, RecordError
from .container import Array, numpy_dtype_name, write_safetensors
from .names import Name
from .reader import SCHEMA
from .sketch import Stats, sketch_and_stats

SHARD_BYTES = 32 << 20  # full tensors wait in memory until this much is there
FLUSH_EVERY = 64  # event lines


class TraceWriter:
    """Appends values to a directory trace; `close()` (or leaving the `with` block) seals it."""

    def __init__(self, path: str | Path, meta: dict[str, Any] | None = None, shard_bytes: int = SHARD_BYTES) -> None:
        self.path = Path(path)
        if self.path.suffix == ".safetensors":
            raise RecordError(f"{self.path}: a directory trace is written here; give it a name like run.trace")
        self._prepare_directory()
        self.meta = {"schema": SCHEMA, **(meta or {})}
        self.seq = 0
        self._shard_bytes = shard_bytes
        self._pending: list[tuple[str, str, tuple[int, ...], bytes]] = []
        self._pending_bytes = 0
        self._shards = 0
        self._count = 0
        self._closed = False
        self._checked: set[tuple[str, str, str]] = set()
        self._write_meta()
        self._events = open(self.path / "events.jsonl", "w", encoding="utf-8", newline="\n")  # noqa: SIM115

    def _prepare_directory(self) -> None:
        """Takes a new directory, or one that holds nothing but an older trace (which is replaced)."""
        if self.path.exists() and not self.path.is_dir():
            raise RecordError(f"{self.path} is a file; a trace needs a directory of its own")
        self.path.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in self.path.iterdir())
        foreign = [
            n for n in names if n not in ("trace.json", "events.jsonl") and not n.endswith((".safetensors", ".part"))
        ]
        if foreign or (names and "trace.json" not in names):
            raise RecordError(f"{self.path} holds other files ({(foreign or names)[0]}, …); choose an empty directory")
        for name in names:
            (self.path / name).unlink()

    def put(self, step: str, path: str, slot: str, values: Array, full: bool = True, **event: Any) -> int:
        """Record a numpy array; returns its sequence number."""
        values = np.ascontiguousarray(values)
        sketch, stats = sketch_and_stats(values)
        data = values.tobytes() if full else None
        return self.put_measured(step, path, slot, numpy_dtype_name(values), values.shape, sketch, stats, data, **event)

    def put_measured(
        self,
        step: str,
        path: str,
        slot: str,
        dtype: str,
        shape: tuple[int, ...],
        sketch: Array,
        stats: Stats,
        data: bytes | None = None,
        **event: Any,
    ) -> int:
        """Record a value whose sketch and statistics are known; `data` are its little-endian bytes."""
        line = {"stats": vars(stats), "sk": base64.b64encode(np.asarray(sketch, "<f8").tobytes()).decode(), **event}
        if data is not None:
            line["data"] = True
        seq = self._event(step, path, slot, dtype, shape, line)
        if data is not None:
            self._store(str(Name(seq, step, path, slot)), dtype, shape, data)
        return seq

    def put_same(
        self, step: str, path: str, slot: str, dtype: str, shape: tuple[int, ...], same: int, **event: Any
    ) -> int:
        """Record that this value is the very tensor that was written as `same`."""
        return self._event(step, path, slot, dtype, shape, {"same": same, **event})

    def note(self, event: str, **fields: Any) -> None:
        """A line that is no tensor: an exception, a remark."""
        self._line({"event": event, **fields})

    def _event(self, step: str, path: str, slot: str, dtype: str, shape: tuple[int, ...], line: dict[str, Any]) -> int:
        name = Name(self.seq, step, path, slot)
        if (step, path, slot) not in self._checked:  # what is written must be readable
            Name.parse(str(name))
            self._checked.add((step, path, slot))
        self._line({"name": str(name), "dtype": dtype, "shape": list(shape), **line})
        self.seq += 1
        self._count += 1
        if self._count % FLUSH_EVERY == 0:
            self._events.flush()
        return name.seq

    def _line(self, value: dict[str, Any]) -> None:
        if self._closed:
            raise RecordError(f"{self.path} is closed; nothing can be added to a sealed trace")
        self._events.write(json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n")

    def _store(self, name: str, dtype: str, shape: tuple[int, ...], data: bytes) -> None:
        self._pending.append((name, dtype, tuple(shape), data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= self._shard_bytes:
            self._flush_shard()

    def _flush_shard(self) -> None:
        if self._pending:
            self._events.flush()
            write_safetensors(self.path / f"{self._shards:06d}.safetensors", self._pending, {})
            self._shards += 1
            self._pending, self._pending_bytes = [], 0

    def _write_meta(self) -> None:
        temporary = self.path / "trace.json.part"
        try:
            temporary.write_text(json.dumps(self.meta, allow_nan=False, sort_keys=True), encoding="utf-8")
        except (TypeError, ValueError) as error:
            raise InvalidTrace(f"trace.json cannot hold this metadata: {error}") from error
        os.replace(temporary, self.path / "trace.json")

    def close(self, exception: BaseException | None = None) -> None:
        """Seal the trace; an exception that ended the run is part of what was observed."""
        if self._closed:
            return
        if exception is not None:
            message, where = str(exception)[:2000], _last_line(exception)
            self.note("exception", type=type(exception).__name__, message=message, where=where)
        self._flush_shard()
        self._write_meta()
        self.note("end", tensors=self._count)
        self._events.close()
        self._closed = True

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, kind: type | None, exception: BaseException | None, traceback: TracebackType | None) -> None:
        self.close(exception)


def _last_line(exception: BaseException) -> str:
    """`file.py:12`: where it was raised."""
    last = exception.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}" if last is not None else ""
