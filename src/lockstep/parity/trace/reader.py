"""Reading `ptrace/1` with numpy alone: strict, lazy, mapped. The format is specified in `docs/trace-format.md`."""

from __future__ import annotations

import base64
import binascii
import glob
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..errors import InvalidTrace
from .container import Array, SafetensorsFile, item_size, load_json
from .names import Key, Name
from .sketch import WIDTH, Stats, sketch_and_stats

SCHEMA = "ptrace/1"
# Tables of the metadata, and what an entry of them holds in turn.
_TABLES: dict[str, tuple[str, ...]] = {
    "modules": ("attrs",),
    "schedulers": ("config", "state"),
    "config": (),
    "sources": (),
    "inputs": (),
    "call": (),
    "weights": (),
    "host": (),
}
MOST_UNPACKED = 1 << 14  # sketches of 2 KB that are kept in memory once they were read
_STAT_FIELDS = ("n", "l2", "mean", "min", "max", "nan", "inf")


class Stored(Protocol):
    """Where the numbers of an entry come from: a file, or another entry that is arranged anew."""

    def array(self, name: str) -> Array: ...

    def raw(self, name: str) -> bytes: ...


@dataclass(eq=False)
class Entry:
    """One recorded value."""

    name: Name
    key: Key
    dtype: str
    shape: tuple[int, ...]
    stats: Stats | None = None
    op: str = ""  # class of the module, or name of the operation
    deps: tuple[int, ...] = ()  # seq of the values that this one was computed from
    same: int | None = None  # seq of an earlier value that is this very tensor
    meta: dict[str, Any] = field(default_factory=dict)
    file: Stored | None = None
    packed_sketch: str = ""

    @property
    def seq(self) -> int:
        return self.name.seq

    @property
    def has_data(self) -> bool:
        return self.file is not None

    @property
    def is_float(self) -> bool:
        return self.dtype[0] in "FBC" and self.dtype != "BOOL"

    def __repr__(self) -> str:
        return f"<{self.key} {self.dtype} {list(self.shape)}>"


@dataclass
class Node:
    """One call of a module or operation: what went in and what came out."""

    step: str
    path: str
    call: int
    op: str = ""
    inputs: list[Entry] = field(default_factory=list)
    outputs: list[Entry] = field(default_factory=list)


class Trace:
    """A trace on disk. `entries` are in the order in which the values came to be."""

    def __init__(
        self, path: Path, meta: dict[str, Any], entries: list[Entry], complete: bool, exception: dict[str, Any] | None
    ) -> None:
        self.path = path
        self.meta = meta
        self.complete = complete
        self.exception = exception
        entries = sorted(entries, key=lambda entry: entry.seq)
        self.params = {entry.key.path: entry for entry in entries if entry.key.slot == "param"}
        self.entries = [entry for entry in entries if entry.key.slot != "param"]
        self.by_seq = {entry.seq: entry for entry in entries}
        self._by_key = {entry.key: entry for entry in self.entries}
        self._cache: dict[int, tuple[Array, Stats]] = {}
        self._unpacked: dict[str, Array] = {}  # sketches that were read
        self._verified: set[int] = set()

    @classmethod
    def open(cls, path: str | Path | Trace) -> Trace:
        """A directory (`run.trace/`) or a single level-0 safetensors file."""
        if isinstance(path, Trace):
            return path
        path = Path(path)
        if path.is_dir():
            return _open_directory(path)
        if path.is_file():
            shard = SafetensorsFile(path)
            meta = _check_schema({"schema": SCHEMA, **shard.metadata}, path.name)
            return cls(path, meta, _entries_of_files([shard], path.name), True, None)
        raise InvalidTrace(f"no trace at {path}: expected a directory or a .safetensors file")

    def with_entries(self, replaced: dict[int, list[Entry]]) -> Trace:
        """The same trace with other entries in place of those sequence numbers; what was computed is kept."""
        entries = [new for entry in self.entries for new in replaced.get(entry.seq, [entry])]
        again = Trace(self.path, self.meta, [*self.params.values(), *entries], self.complete, self.exception)
        again.by_seq = {**self.by_seq, **again.by_seq}
        again._cache = {seq: found for seq, found in self._cache.items() if seq not in replaced}
        again._verified = self._verified - replaced.keys()
        return again

    def get(self, key: Key | str) -> Entry | None:
        return self._by_key.get(Key.parse(key) if isinstance(key, str) else key)

    def find(self, path: str = "*", slot: str = "*", step: str = "*") -> list[Entry]:
        """Entries whose path, slot and step match the patterns (as in a shell)."""
        plain = path.replace("[[]", "[")
        known = self._by_path.get(plain, []) if path == glob.escape(plain) else self.entries
        return [
            e
            for e in known
            if fnmatchcase(e.key.path, path) and fnmatchcase(e.key.slot, slot) and fnmatchcase(e.key.step, step)
        ]

    @cached_property
    def _by_path(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            found[entry.key.path].append(entry)
        return dict(found)

    @cached_property
    def nodes(self) -> list[Node]:
        """Calls in the order in which they began."""
        table: dict[tuple[str, str, int], Node] = {}
        for entry in self.entries:
            node = table.setdefault(entry.key.node, Node(*entry.key.node, op=entry.op))
            (node.inputs if entry.key.is_input else node.outputs).append(entry)
        return list(table.values())

    @cached_property
    def steps(self) -> list[str]:
        """Step labels in order of appearance."""
        return list(dict.fromkeys(entry.key.step for entry in self.entries))

    def array(self, entry: Entry) -> Array:
        """The full tensor, checked against the statistics that stand beside it."""
        if entry.file is None:
            raise InvalidTrace(
                f"{self.path.name} holds only the sketch of `{entry.key}`; record it again with "
                f'keep={{"{entry.key.path}": "full"}}'
            )
        twin = self.by_seq[entry.same] if entry.same is not None else entry
        values = entry.file.array(str(twin.name)).reshape(entry.shape)  # a twin may be a view of another shape
        self._verify(entry, twin.seq, values)
        return values

    def raw(self, entry: Entry) -> bytes:
        """The stored bytes of a tensor, whatever they are said to mean."""
        twin = self.by_seq[entry.same] if entry.same is not None else entry
        return entry.file.raw(str(twin.name)) if entry.file is not None else b""

    def _verify(self, entry: Entry, seq: int, values: Array) -> None:
        """The event's own numbers must be those of the data, once per tensor."""
        if entry.stats is None or seq in self._verified:
            return
        sketch, stats = sketch_and_stats(values)
        scale = 1e-5 * max(stats.l2, 1e-300)  # statistics may have been summed in float32
        wrong = abs(stats.l2 - entry.stats.l2) > scale or (stats.nan, stats.inf) != (entry.stats.nan, entry.stats.inf)
        if entry.packed_sketch:
            wrong |= float(np.abs(_unpack_sketch(entry.packed_sketch, str(entry.name)) - sketch).max()) > scale
        if wrong:
            raise InvalidTrace(
                f"{self.path.name}: data of `{entry.name}` has norm {stats.l2:.9g}, its event says "
                f"{entry.stats.l2:.9g} "
                "or another sketch: mislabelled or changed after recording"
            )
        self._verified.add(seq)

    def sketch(self, entry: Entry) -> Array:
        """The 256 numbers: stored, or computed from the stored tensor."""
        if not entry.packed_sketch:
            return self._computed(entry)[0]
        found = self._unpacked.get(entry.packed_sketch)
        if found is None:
            if len(self._unpacked) >= MOST_UNPACKED:
                self._unpacked.clear()
            found = self._unpacked[entry.packed_sketch] = _unpack_sketch(entry.packed_sketch, str(entry.name))
        return found

    def stats(self, entry: Entry) -> Stats:
        return entry.stats if entry.stats is not None else self._computed(entry)[1]

    def _computed(self, entry: Entry) -> tuple[Array, Stats]:
        if entry.seq not in self._cache:
            self._cache[entry.seq] = sketch_and_stats(self.array(entry))
        return self._cache[entry.seq]


def _open_directory(path: Path) -> Trace:
    meta = _read_meta(path / "trace.json")
    shards = [SafetensorsFile(file) for file in sorted(path.glob("*.safetensors"))]
    events = path / "events.jsonl"
    if events.exists():
        return _from_events(path, meta, shards, events)
    if not shards:
        raise InvalidTrace(
            f"{path} has neither events.jsonl nor a .safetensors shard: not a trace, or nothing was written"
        )
    return Trace(path, meta, _entries_of_files(shards, path.name), True, None)


def _read_meta(file: Path) -> dict[str, Any]:
    if not file.exists():
        return {"schema": SCHEMA}
    return _check_schema(load_json(file.read_bytes(), str(file.name)), file.name)


def _check_schema(meta: Any, label: str) -> dict[str, Any]:
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        got = meta.get("schema") if isinstance(meta, dict) else type(meta).__name__
        raise InvalidTrace(
            f"{label}: expected schema {SCHEMA!r}, got {got!r}; record the trace again with this version"
        )
    _check_tables(meta, label)
    return meta


def _check_tables(meta: dict[str, Any], label: str) -> None:
    """What is read from the metadata later has to be of the kind that the format says."""
    for name, inner in _TABLES.items():
        table = meta.get(name)
        if table is None or (name in ("inputs", "weights") and isinstance(table, str)):  # a hash will do, too
            continue
        if not isinstance(table, dict):
            raise InvalidTrace(f"{label}: {name} must be an object, got {type(table).__name__}")
        for key, value in table.items() if inner else ():
            parts = [value.get(part) for part in inner] if isinstance(value, dict) else [value]
            if not all(part is None or isinstance(part, dict) for part in parts):
                raise InvalidTrace(f"{label}: {name}.{key} must be an object with {' and '.join(inner)}")
    for name in ("stopped_at", "level", "side", "framework"):
        if not isinstance(meta.get(name, ""), str):
            raise InvalidTrace(f"{label}: {name} must be text, got {meta[name]!r}")


def _entries_of_files(shards: list[SafetensorsFile], label: str) -> list[Entry]:
    """Level 0: order and identity come from the names alone."""
    found = [(Name.parse(text), shard, part) for shard in shards for text, part in shard.slices.items()]
    if not found:
        raise InvalidTrace(f"{label} holds no tensors")
    found.sort(key=lambda item: item[0].seq)
    _refuse_duplicates([name for name, *_ in found], label)
    calls: Counter[tuple[str, str, str]] = Counter()
    return [Entry(name, _key(name, calls), part.dtype, part.shape, file=shard) for name, shard, part in found]


def _refuse_duplicates(names: list[Name], label: str) -> None:
    seqs = Counter(name.seq for name in names)
    seq, count = max(seqs.items(), key=lambda item: item[1])
    if count > 1:
        raise InvalidTrace(f"{label}: sequence number {seq} occurs {count} times; each value needs its own")


def _key(name: Name, calls: Counter[tuple[str, str, str]], call: int | None = None) -> Key:
    slot = (name.step, name.path, name.slot)
    number = calls[slot] if call is None else call
    calls[slot] = number + 1
    return Key(*slot, number)


def _from_events(path: Path, meta: dict[str, Any], shards: list[SafetensorsFile], file: Path) -> Trace:
    lines, cut = _read_lines(file)
    tensors = [line for line in lines if "name" in line]
    others = [line for line in lines if "name" not in line]
    end = next((line for line in others if line.get("event") == "end"), None)
    exception = next((line for line in others if line.get("event") == "exception"), None)
    complete = end is not None and not cut
    if end is not None and end.get("tensors") != len(tensors):
        raise InvalidTrace(f"{file.name} ends with a count of {end.get('tensors')} tensors but lists {len(tensors)}")
    data: dict[str, SafetensorsFile] = {}
    for shard in shards:
        for text in shard.slices:
            if text in data:
                raise InvalidTrace(f"tensor {text!r} is in {data[text].path.name} and in {shard.path.name}")
            data[text] = shard
    entries = _entries_of_events(tensors, data, complete, file.name)
    unknown = set(data) - {str(entry.name) for entry in entries}
    if unknown and complete:
        raise InvalidTrace(f"{path.name}: {len(unknown)} stored tensors stand in no event, e.g. {min(unknown)!r}")
    return Trace(path, meta, entries, complete, exception)


def _read_lines(file: Path) -> tuple[list[dict[str, Any]], bool]:
    """Parsed lines, and whether the last one was cut off (a killed process)."""
    raw = file.read_bytes()
    lines = raw.split(b"\n")
    cut = lines.pop() != b""
    parsed = []
    for number, line in enumerate(lines, 1):
        value = load_json(line, f"{file.name}:{number}")
        if not isinstance(value, dict):
            raise InvalidTrace(f"{file.name}:{number} is not an object")
        parsed.append(value)
    return parsed, cut


def _entries_of_events(
    lines: list[dict[str, Any]], data: dict[str, SafetensorsFile], complete: bool, label: str
) -> list[Entry]:
    entries: dict[int, Entry] = {}
    calls: Counter[tuple[str, str, str]] = Counter()
    for line in lines:
        entry = _entry_of_event(line, calls, label)
        if entry.seq in entries:
            raise InvalidTrace(f"{label}: sequence number {entry.seq} occurs twice; each value needs its own")
        if any(seq not in entries for seq in entry.deps):
            raise InvalidTrace(f"{label}: `{entry.name}` depends on a value that was not written before it")
        if entry.same is not None:
            _copy_from_twin(entry, entries, label)
        _attach_data(entry, line, data, complete, label)
        if entry.stats is None and entry.file is None:
            if complete:
                raise InvalidTrace(f"{label}: `{entry.name}` has neither statistics nor data")
            continue
        entries[entry.seq] = entry
    if not entries:
        raise InvalidTrace(f"{label} lists no tensors")
    return list(entries.values())


def _attach_data(
    entry: Entry, line: dict[str, Any], data: dict[str, SafetensorsFile], complete: bool, label: str
) -> None:
    text = str(entry.name)
    if text in data:
        part = data[text].slices[text]
        if (part.dtype, part.shape) != (entry.dtype, entry.shape):
            raise InvalidTrace(
                f"{label}: `{text}` is announced as {entry.dtype} {list(entry.shape)}, "
                f"stored as {part.dtype} {list(part.shape)}"
            )
        entry.file = data[text]
    elif line.get("data") and complete:
        raise InvalidTrace(f"{label}: the data of `{text}` is announced but in no shard")


def _copy_from_twin(entry: Entry, entries: dict[int, Entry], label: str) -> None:
    twin = entries.get(entry.same) if entry.same is not None else None
    if twin is None or (twin.dtype, math.prod(twin.shape)) != (entry.dtype, math.prod(entry.shape)):
        raise InvalidTrace(f"{label}: `{entry.name}` says it is the same as {entry.same}, which does not fit")
    entry.stats, entry.packed_sketch = twin.stats, twin.packed_sketch
    entry.file = twin.file
    if twin.same is not None:
        entry.same = twin.same


def _entry_of_event(line: dict[str, Any], calls: Counter[tuple[str, str, str]], label: str) -> Entry:
    if not isinstance(line["name"], str):
        raise InvalidTrace(f"{label}: a tensor's name must be text, got {line['name']!r}")
    name = Name.parse(line["name"])
    shape, dtype = line.get("shape"), line.get("dtype")
    if not isinstance(shape, list) or not all(type(v) is int and 0 <= v < 1 << 62 for v in shape):
        raise InvalidTrace(f"{label}: `{name}` has no valid shape")
    if not isinstance(dtype, str):
        raise InvalidTrace(f"{label}: `{name}` has no dtype")
    item_size(dtype)
    numbers = {"call": line.get("call"), "same": line.get("same")}
    for what, value in numbers.items():
        if value is not None and (type(value) is not int or value < 0):
            raise InvalidTrace(f"{label}: `{name}`: {what} must be a natural number, got {value!r}")
    deps, meta, packed = line.get("deps", []), line.get("meta", {}), line.get("sk", "")
    if not isinstance(deps, list) or not all(type(v) is int for v in deps):
        raise InvalidTrace(f"{label}: `{name}`: deps must be a list of sequence numbers")
    if not isinstance(meta, dict) or not isinstance(packed, str):
        raise InvalidTrace(f"{label}: `{name}`: meta must be an object and sk text")
    return Entry(
        name=name,
        key=_key(name, calls, numbers["call"]),
        dtype=dtype,
        shape=tuple(shape),
        stats=_stats_of_event(line.get("stats"), math.prod(shape) * (2 if dtype == "C64" else 1), f"{label}: `{name}`"),
        op=str(line.get("op", "")),
        deps=tuple(deps),
        same=numbers["same"],
        meta=meta,
        packed_sketch=packed,
    )


def _stats_of_event(stats: Any, count: int, label: str) -> Stats | None:
    if stats is None:
        return None
    values: list[Any] = [stats.get(name) for name in _STAT_FIELDS] if isinstance(stats, dict) else [None]
    if not all(type(v) in (int, float) and math.isfinite(v) for v in values):
        raise InvalidTrace(f"{label}: stats must be the numbers {', '.join(_STAT_FIELDS)}")
    if values[0] != count or values[1] < 0:
        raise InvalidTrace(f"{label}: stats count {values[0]} elements, the shape has {count}")
    n, l2, mean, low, high, nan, inf = values
    if not (0 <= nan <= n and 0 <= inf <= n - nan and low <= high):
        raise InvalidTrace(f"{label}: stats say {nan} NaN and {inf} infinite of {n} elements, from {low} to {high}")
    return Stats(int(n), float(l2), float(mean), float(low), float(high), int(nan), int(inf))


def _unpack_sketch(packed: str, label: str) -> Array:
    try:
        raw = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidTrace(f"sketch of `{label}` is not base64: {error}") from error
    if len(raw) != 8 * WIDTH:
        raise InvalidTrace(f"sketch of `{label}` has {len(raw)} bytes, expected {8 * WIDTH}")
    values = np.frombuffer(raw, "<f8")
    if not np.isfinite(values).all():
        raise InvalidTrace(f"sketch of `{label}` is not finite")
    return values
