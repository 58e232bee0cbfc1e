"""The traces of several ranks as one: shares of a sequence behind each other, branches of the guidance as calls.

Each rank's trace says who it is (`ranks` in its metadata). A value that is the same on all ranks stands once; one of
which every rank has a share is joined along the axis that is as long as the shares; operations between modules, which
are others on ranks than in one process, are left out. What a run gives at its end lies whole on every rank: a join
that is wrong can make a comparison fail, and never make a wrong run pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidTrace
from .container import PLAIN, Array
from .names import Key
from .reader import Entry, Trace
from .sketch import sketch_and_stats
from .writer import TraceWriter

AXES = (1, 0, 2, 3)  # in which tokens lie, the likeliest first
Lengths = list[int]


@dataclass(frozen=True)
class RankTrace:
    """One rank's trace, and its place."""

    trace: Trace
    told: Mapping[str, Any]

    @property
    def rank(self) -> int:
        return int(self.told["rank"])

    @property
    def place(self) -> tuple[int, int]:
        """Which branches it predicted, and which share of the tokens it has."""
        return int(self.told["branch"]), int(self.told["token"])


@dataclass
class RankValue:
    """What several ranks recorded of one value: one entry, or an entry of each."""

    key: Key
    entries: list[tuple[Trace, Entry]]
    join: tuple[int, list[Lengths]] | None = None  # the axis, and the lengths of each stream on each rank

    @property
    def first(self) -> Entry:
        return self.entries[0][1]

    def array(self) -> Array:
        arrays = [trace.array(entry) for trace, entry in self.entries]
        if self.join is None:
            return arrays[0]
        axis, streams = self.join
        starts = [np.cumsum([0, *(stream[rank] for stream in streams)]) for rank in range(len(arrays))]
        pieces = [
            np.take(array, range(starts[rank][number], starts[rank][number + 1]), axis=axis)
            for number in range(len(streams))
            for rank, array in enumerate(arrays)
        ]
        return np.concatenate(pieces, axis=axis)


def merge(paths: Sequence[str | Path], out: str | Path) -> Path:
    """Write the traces of all ranks of one run as one trace."""
    parts = opened(paths)
    first = parts[0]
    by_branch: dict[int, list[RankTrace]] = {}
    for part in parts:
        by_branch.setdefault(part.place[0], []).append(part)
    values = {branch: joined_tokens(of_branch) for branch, of_branch in by_branch.items()}
    denoisers = tuple(first.told["denoisers"])
    meta = {key: value for key, value in first.trace.meta.items() if key not in ("schema", "ranks")}
    merged = {"ranks": first.told["world"], "degrees": first.told["degrees"]}
    with TraceWriter(out, {**meta, "merged": merged}) as writer:
        for entry in first.trace.params.values():
            stats, sketch = first.trace.stats(entry), first.trace.sketch(entry)
            writer.put_measured(entry.key.step, entry.key.path, "param", entry.dtype, entry.shape, sketch, stats)
        for value in in_order(values, denoisers, first.told["branches"]):
            put(writer, value)
    return Path(out)


def opened(paths: Sequence[str | Path]) -> list[RankTrace]:
    """The traces in the order of their ranks: one of each, whole, of one run; those that repeat others' work go."""
    parts = []
    for path in paths:
        trace = Trace.open(path)
        told = trace.meta.get("ranks")
        if not isinstance(told, dict):
            raise InvalidTrace(f"{path} says nothing of ranks: record it while the pipeline is spread over them")
        if trace.exception is not None or not trace.complete:
            raise InvalidTrace(f"{path} (rank {told.get('rank')}) ended before its run did")
        parts.append(RankTrace(trace, told))
    parts.sort(key=lambda part: part.rank)
    world, ranks = int(parts[0].told["world"]), [part.rank for part in parts]
    if ranks != list(range(world)):
        raise InvalidTrace(f"a run of {world} ranks has a trace of each, got those of {ranks}")
    for name in ("world", "degrees", "streams", "orders", "branches", "denoisers"):
        other = next((part for part in parts if part.told[name] != parts[0].told[name]), None)
        if other is not None:
            raise InvalidTrace(f"rank {other.rank} says {other.told[name]!r} of its {name}, rank 0 another thing")
    return list({part.place: part for part in reversed(parts)}.values())[::-1]


# ---- tokens ----


def joined_tokens(parts: list[RankTrace]) -> list[RankValue]:
    """What the ranks of one branch recorded, each value once."""
    layouts = layouts_of(parts[0].told)
    tables = [{entry.key: entry for entry in part.trace.entries} for part in parts]
    values = []
    for entry in parts[0].trace.entries:
        found = [table.get(entry.key) for table in tables]
        if entry.key.is_operation:
            continue
        entries = [(part.trace, one) for part, one in zip(parts, found, strict=True) if one is not None]
        if len(entries) < len(parts):
            rank = parts[found.index(None)].rank
            raise InvalidTrace(f"rank {rank} has no value `{entry.key}`, which rank {parts[0].rank} has")
        values.append(value_of(entry.key, entries, layouts))
    return values


def layouts_of(told: Mapping[str, Any]) -> list[list[Lengths]]:
    """How tokens can lie in a sequence: the orders of the attentions, and each stream alone."""
    streams: dict[str, Lengths] = told["streams"]
    orders = [order for order in told["orders"] if all(name in streams for name in order)]
    return [[streams[name] for name in order] for order in [*orders, *([name] for name in streams)]]


def value_of(key: Key, entries: list[tuple[Trace, Entry]], layouts: list[list[Lengths]]) -> RankValue:
    """One value of several ranks: the same on all of them, or shares."""
    shapes = [entry.shape for _, entry in entries]
    join = next((found for layout in layouts if (found := axis_of(shapes, layout)) is not None), None)
    same = all(alike(entries[0], other) for other in entries[1:])
    if same and (join is None or not constant(*entries[0])):
        return RankValue(key, entries[:1])
    if join is None:
        raise InvalidTrace(
            f"`{key}` differs between ranks, and no axis is a share of a sequence: {', '.join(map(str, shapes))}"
        )
    return RankValue(key, entries, join)


def axis_of(shapes: list[tuple[int, ...]], layout: list[Lengths]) -> tuple[int, list[Lengths]] | None:
    """The axis along which each rank has as many tokens as a layout says."""
    counts = [sum(stream[rank] for stream in layout) for rank in range(len(shapes))]
    for axis in (axis for axis in AXES if axis < len(shapes[0])):
        others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
        if len(others) == 1 and [shape[axis] for shape in shapes] == counts:
            return axis, layout
    return None


def alike(one: tuple[Trace, Entry], other: tuple[Trace, Entry]) -> bool:
    (a, x), (b, y) = one, other
    return x.shape == y.shape and a.stats(x) == b.stats(y) and np.array_equal(a.sketch(x), b.sketch(y))


def constant(trace: Trace, entry: Entry) -> bool:
    """Whether all of its numbers are one: then equal shares look like one value."""
    stats = trace.stats(entry)
    return stats.min == stats.max


# ---- branches ----


def in_order(values: dict[int, list[RankValue]], denoisers: tuple[str, ...], counts: list[int]) -> Iterator[RankValue]:
    """Every value in the order of one process that predicts the branches one by one."""
    if len(values) == 1 or not counts:
        yield from values[0]
        return
    steps = list(dict.fromkeys(value.key.step for value in values[0] if is_of(value, denoisers)))
    if len(steps) != len(counts):
        raise InvalidTrace(f"the denoiser ran in {len(steps)} steps, but branches were shared out {len(counts)} times")
    count_at = dict(zip(steps, counts, strict=True))
    done: set[str] = set()
    for value in values[0]:
        if not is_of(value, denoisers):
            yield value
        elif value.key.step not in done:
            done.add(value.key.step)
            yield from branches_at(value.key.step, values, denoisers, count_at[value.key.step])


def branches_at(
    step: str, values: dict[int, list[RankValue]], denoisers: tuple[str, ...], count: int
) -> Iterator[RankValue]:
    """The denoiser's calls of a step: branch k is the call k of each module."""
    groups, found = len(values), []
    for branch, of_branch in values.items() if count > 1 else [(0, values[0])]:
        own = [value for value in of_branch if value.key.step == step and is_of(value, denoisers)]
        rounds = -(-count // groups)
        calls = Counter((value.key.path, value.key.slot) for value in own)
        for place, value in enumerate(own):
            each = calls[value.key.path, value.key.slot] // rounds  # times that a module runs in one prediction
            turn, within = divmod(value.key.call, max(each, 1))
            number = turn * groups + branch
            if number < count:  # else a repeat of what another rank predicted
                key = replace(value.key, call=number * each + within)
                found.append((number, place, replace(value, key=key)))
    yield from (value for *_, value in sorted(found, key=lambda one: one[:2]))


def is_of(value: RankValue, denoisers: tuple[str, ...]) -> bool:
    return value.key.path.partition(".")[0] in denoisers


def put(writer: TraceWriter, value: RankValue) -> None:
    """Write a value: whole where it is known whole, as its sketch where only that was kept."""
    key, entry, trace = value.key, value.first, value.entries[0][0]
    event: dict[str, Any] = {"call": key.call, **({"op": entry.op} if entry.op else {})}
    if all(one.has_data for _, one in value.entries):
        array = value.array()
        sketch, stats = sketch_and_stats(array)
        data = encoded(array, entry.dtype)
        writer.put_measured(key.step, key.path, key.slot, entry.dtype, array.shape, sketch, stats, data, **event)
    elif value.join is None:
        sketch, stats = trace.sketch(entry), trace.stats(entry)
        writer.put_measured(key.step, key.path, key.slot, entry.dtype, entry.shape, sketch, stats, **event)
    else:
        raise InvalidTrace(f"`{key}` is a share, of which rank traces hold the sketch alone: record with keep='full'")


def encoded(array: Array, dtype: str) -> bytes:
    """Numbers as they were stored: numpy has no BF16, of which `array` holds the exact values in float32."""
    if dtype == "BF16":
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> np.uint32(16)).astype("<u2").tobytes()
    if dtype not in PLAIN:
        raise InvalidTrace(f"values of {dtype} cannot be put together; record them in another dtype")
    return np.ascontiguousarray(array, PLAIN[dtype]).tobytes()
