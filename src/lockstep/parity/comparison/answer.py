"""Two traces to one answer."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidTrace
from ..floors.file import Floor
from ..trace.container import Array
from ..trace.names import Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import Stats, ratio, sketch_and_stats, sketch_error
from .align import Alignment, Pair, align_traces
from .doubtful import doubtful, squeezed
from .guards import guard
from .layout import arrange
from .priors import UNKNOWN_LENGTH, prior, reduction_length
from .results import Comparison, Coverage, NodeResult, Status, Verdict, is_without
from .settings import differing_attributes
from .step_labels import said_otherwise
from .structure import from_arrays, from_sketches
from .verdict import Thresholds, assign_roles, decide, threshold

# Arguments of a call that say how the result is handed out, not what is computed.
_PRESENTATION = {
    *("output_type", "return_dict", "preview", "output"),
    *("callback", "callback_on_step_end", "callback_on_step_end_tensor_inputs"),
}
_ANOTHER_VIEW = 0.05  # error up to which two shapes with the same axes, some of them joined, are one value
MASK = 5e8  # below minus this a number of a mask stands for minus infinity
_STRUCTURE_NODES = 8  # origins that get the full structure tests


def compare(
    reference: str | Path | Trace,
    candidate: str | Path | Trace,
    *,
    floor: str | Path | Floor | None = None,
    map: str | Path | Mapping[str, Any] = "auto",
    thresholds: Thresholds | None = None,
    local: Mapping[str, float] | None = None,
    without: Sequence[str] = (),
    branches_exchanged: bool = False,
) -> Comparison:
    """Are the two the same? `floor` was measured on either side; `local` are teacher-forced errors per key.

    `without` are patterns of values that do not count, such as an output that the port does not have.
    `branches_exchanged` says that guidance's branches are known to stand in each other's place in both ends of a step.
    """
    limits = thresholds or Thresholds()
    try:
        a, b = Trace.open(reference), Trace.open(candidate)
        measured = Floor.load(floor) if isinstance(floor, (str, Path)) else floor
        alignment = _left_out(align_traces(a, b, map), without)
        return _compare(a, b, measured, alignment, limits, local, list(without), branches_exchanged)
    except InvalidTrace as error:
        result = Comparison(Verdict.INVALID, [], Coverage(0, 0), reasons=[str(error)])
        result.reference_path, result.candidate_path = _name(reference), _name(candidate)
        return result


def _name(trace: str | Path | Trace) -> str:
    return str(trace.path if isinstance(trace, Trace) else trace)


def _left_out(alignment: Alignment, without: Sequence[str]) -> Alignment:
    if without:
        alignment.pairs = [pair for pair in alignment.pairs if not is_without(pair.a.key, without)]
        alignment.missing = [entry for entry in alignment.missing if not is_without(entry.key, without)]
    return alignment


def _compare(
    a: Trace, b: Trace, floor: Floor | None, alignment: Alignment, limits: Thresholds,
    local: Mapping[str, float] | None, without: list[str], branches_exchanged: bool,
) -> Comparison:  # fmt: skip
    result = Comparison(Verdict.INVALID, [], _coverage(a, alignment), reference=a.meta, candidate=b.meta)
    result.without = without
    result.reference_path, result.candidate_path = str(a.path), str(b.path)
    result.floor_path = str(floor.path) if floor is not None and floor.path else ""
    result.weights = [{"kind": m.kind, "a": list(m.a), "b": list(m.b)} for m in alignment.weights if m.kind != "same"]
    result.attributes = differing_attributes(a, b, alignment)
    problems = _not_comparable(a, b, alignment)
    if problems:
        result.reasons = problems
        return result
    a, b, alignment, layout = arrange(a, b, alignment, branches_exchanged)
    result.coverage = _coverage(a, alignment)
    result.unmeasured = [str(pair.b.key) for pair in layout.unmeasured]
    measurement = _Measurement(a, b, floor, limits, {d["path"] for d in result.attributes})
    result.nodes = [measurement.node(pair, order) for order, pair in enumerate(alignment.pairs)]
    for pair, node in zip(alignment.pairs, result.nodes, strict=True):
        node.arranged = layout.told.get(pair.a.seq, "")
    measurement.apply_thresholds(result.nodes)
    _drop_doubtful(a, b, alignment, result)
    _end_of_candidate(a, b, alignment, result)
    assign_roles(result.nodes, limits, local)
    decide(result, limits)
    guard(a, b, result)
    _ended_early(a, b, result)
    for node in result.origins[:_STRUCTURE_NODES]:
        measurement.add_structure(node)
    _add_remarks(a, b, result)
    _add_arrangements(result)
    return result


def _drop_doubtful(a: Trace, b: Trace, alignment: Alignment, result: Comparison) -> None:
    """Pairs that are none leave the alignment, and what has another form is told."""
    dropped, forms, told = doubtful(a, b, alignment.pairs, result.nodes)
    labels, words = said_otherwise(a, b, alignment.pairs)
    dropped |= labels
    result.other_form = [(str(node.key), str(node.other)) for node in forms]
    result.reasons += [*told, *words]
    if dropped:
        pairs = list(zip(alignment.pairs, result.nodes, strict=True))
        alignment.missing += [pair.a for pair, _ in pairs if pair.a.seq in dropped]
        alignment.extra += [pair.b for pair, _ in pairs if pair.a.seq in dropped]
        alignment.pairs = [pair for pair, _ in pairs if pair.a.seq not in dropped]
        result.nodes = [node for pair, node in pairs if pair.a.seq not in dropped]
        result.coverage = _coverage(a, alignment)


def arranged_traces(
    reference: Trace, candidate: Trace, map: str | Path | Mapping[str, Any] = "auto"
) -> tuple[Trace, Trace]:
    """Both traces with the values that are kept in another order read in one order."""
    a, b, *_ = arrange(reference, candidate, align_traces(reference, candidate, map))
    return a, b


def _not_comparable(a: Trace, b: Trace, alignment: Alignment) -> list[str]:
    """Reasons for INVALID: the two runs were not asked the same thing, or a file is cut off."""
    problems = []
    for side, trace in (("reference", a), ("candidate", b)):
        if not trace.complete:
            problems.append(f"the {side} trace {trace.path.name} was cut off while it was written: record it again")
    for what in ("inputs", "call"):
        left, right = a.meta.get(what), b.meta.get(what)
        if isinstance(left, dict) and isinstance(right, dict):
            for key in sorted(left.keys() & right.keys() - _PRESENTATION):
                if left[key] != right[key]:
                    problems.append(f"the runs had different inputs: {key} was {left[key]!r} and {right[key]!r}")
    if a.meta.get("seed") is not None and b.meta.get("seed") is not None and a.meta["seed"] != b.meta["seed"]:
        problems.append(f"the runs had different seeds: {a.meta['seed']!r} and {b.meta['seed']!r}")
    different = [m for m in alignment.weights if m.kind == "different"]
    if len(different) > 0.5 * len(alignment.weights) > 0:
        problems.append(
            f"the models hold different weights: {len(different)} of {len(alignment.weights)} parameters differ "
            f"(first {different[0].a[0]})"
        )
    if not alignment.pairs:
        problems.append(
            "no value of the one trace has a partner in the other: give a map file, or check the root names"
        )
    return problems


def _coverage(a: Trace, alignment: Alignment) -> Coverage:
    """Operations are counted apart: two right programs may be written with different ones."""
    paired = {pair.a.seq for pair in alignment.pairs}
    tensors = {
        _tensor(pair.a) for pair in alignment.pairs
    }  # a dropout's result in eval is the very tensor it was given
    paired |= {entry.seq for entry in a.entries if _tensor(entry) in tensors}
    kinds: dict[str, list[int]] = {"module": [0, 0], "pipeline": [0, 0], "operation": [0, 0]}
    for entry in a.entries:
        counts = kinds[_kind(entry.key)]
        counts[1] += 1
        counts[0] += entry.seq in paired
    return Coverage(
        captured=kinds["module"][1] + kinds["pipeline"][1],
        compared=kinds["module"][0] + kinds["pipeline"][0],
        missing=[str(e.key) for e in alignment.missing if not e.key.is_operation and e.seq not in paired],
        extra=[str(e.key) for e in alignment.extra if not e.key.is_operation],
        by_kind={kind: (done, total) for kind, (done, total) in kinds.items()},
    )


def _tensor(entry: Entry) -> int:
    """Values that are one and the same tensor share this number: comparing one of them compares all."""
    return entry.seq if entry.same is None else entry.same


def _kind(key: Key) -> str:
    if key.is_operation:
        return "operation"
    return "pipeline" if key.path.startswith("@") else "module"


class _Measurement:
    """Errors, priors and thresholds of aligned values."""

    def __init__(self, a: Trace, b: Trace, floor: Floor | None, limits: Thresholds, otherwise: set[str]) -> None:
        self.a, self.b, self.floor, self.limits = a, b, floor, limits
        self._otherwise = otherwise  # paths of modules whose settings are known to differ
        self._pairs: dict[Key, Pair] = {}
        self._inputs = captured_inputs(a)
        self._attributes = {
            path: described.get("attrs") or {}
            for trace in (b, a)
            for path, described in (trace.meta.get("modules") or {}).items()
            if isinstance(described, dict)
        }

    def node(self, pair: Pair, order: int) -> NodeResult:
        a, b = pair.a, pair.b
        self._pairs[a.key] = pair
        op = a.op or b.op
        length = self._length(a, op)
        node = NodeResult(
            a.key, order, Status.SAME, b.key, pair.how, op, a.shape, (a.dtype, b.dtype), other_shape=b.shape,
            exact=a.has_data and b.has_data,
            prior=prior((a.dtype, b.dtype), length, self.limits.prior),
            inputs=self._inputs.get(a.seq, []),
        )  # fmt: skip
        node.problem = self._problem(pair)
        if node.problem:
            node.status = Status.STRUCT
        else:
            self._measure(node, pair)
        return node

    def _length(self, entry: Entry, op: str) -> int:
        """Length of the sums that a value comes from; an input is what its source was."""
        if entry.key.is_input:
            source = self.a.by_seq.get(entry.same if entry.same is not None else next(iter(entry.deps), -1))
            return self._length(source, source.op) if source is not None and source.seq < entry.seq else UNKNOWN_LENGTH
        return reduction_length(op, self._attributes.get(entry.key.path, {}))

    def _problem(self, pair: Pair) -> str:
        """What makes two values incomparable as numbers."""
        a, b = pair.a, pair.b
        if pair.rows_a or pair.rows_b:
            left, right = rows(self.a.array(a), pair.rows_a).shape, rows(self.b.array(b), pair.rows_b).shape
        else:
            left, right = a.shape, b.shape
        if squeezed(left) != squeezed(right) and not self._same_numbers(a, b) and not self._is_one_number(pair):
            return f"shape {list(left)} in the reference, {list(right)} in the candidate"
        if ("C64" in (a.dtype, b.dtype)) and a.dtype != b.dtype:
            return f"{a.dtype} in the reference, {b.dtype} in the candidate"
        stats_a, stats_b = self.a.stats(a), self.b.stats(b)
        if (stats_a.nan, stats_a.inf) != (stats_b.nan, stats_b.inf):
            return (
                f"{stats_a.nan} NaN and {stats_a.inf} infinite elements in the reference, "
                f"{stats_b.nan} and {stats_b.inf} in the candidate"
            )
        return ""

    def _same_numbers(self, a: Entry, b: Entry) -> bool:
        """Another view of the same elements in the same order, such as height and width as one axis."""
        if not _same_axes(a.shape, b.shape) or not a.is_float or not b.is_float:
            return False
        error = sketch_error(self.a.sketch(a), self.b.sketch(b), self.a.stats(a).l2)
        return error <= _ANOTHER_VIEW

    def _is_one_number(self, pair: Pair) -> bool:
        """True if a part is handed one number on one side and on the other one for every row, all of them alike."""
        sizes = sorted(math.prod(entry.shape) for entry in (pair.a, pair.b))
        given = pair.a.key.is_input and not pair.rows_a and not pair.rows_b
        stats = (self.a.stats(pair.a), self.b.stats(pair.b))
        return given and sizes[0] == 1 < sizes[1] and all(s.min == s.max and s.nan + s.inf == 0 for s in stats)

    def _measure(self, node: NodeResult, pair: Pair) -> None:
        if squeezed(pair.a.shape) != squeezed(pair.b.shape) and self._is_one_number(pair):
            mine, theirs = np.array([self.a.stats(pair.a).min]), np.array([self.b.stats(pair.b).min])
            node.error, node.tail, node.cosine = errors(mine, theirs)
            equal = node.error == 0
        elif node.exact:
            values_a, values_b = rows(self.a.array(pair.a), pair.rows_a), rows(self.b.array(pair.b), pair.rows_b)
            masked = is_masked(values_a, values_b)
            node.masked = bool(masked.any())
            kept = (values_a[~masked], values_b.reshape(values_a.shape)[~masked]) if node.masked else None
            node.error, node.tail, node.cosine = errors(*(kept or (values_a, values_b)))
            equal = node.error == 0
            if not equal:
                (sketch_a, stats_a), (sketch_b, stats_b) = sketch_and_stats(values_a), sketch_and_stats(values_b)
                node.structure = from_sketches(sketch_a, sketch_b, stats_a.l2, stats_b.l2)
        else:
            sketch_a, sketch_b = self.a.sketch(pair.a), self.b.sketch(pair.b)
            stats_a, stats_b = self.a.stats(pair.a), self.b.stats(pair.b)
            equal = bool((sketch_a == sketch_b).all())
            node.error = 0.0 if equal else sketch_error(sketch_a, sketch_b, stats_a.l2)
            node.cosine = _sketch_cosine(sketch_a, sketch_b, stats_a, stats_b)
            if not equal:
                node.structure = from_sketches(sketch_a, sketch_b, stats_a.l2, stats_b.l2)
        if not equal and not (pair.a.is_float and pair.b.is_float):
            # an integer has no rounding, and what became of it in a coarser type is another number
            node.status, node.problem = Status.STRUCT, "integers differ"

    def apply_thresholds(self, nodes: list[NodeResult]) -> None:
        by_key = {str(node.key): node for node in nodes}
        depth = 0
        for node in nodes:
            depth += not node.key.is_input and not node.key.is_operation
            measured = self.floor is not None and not node.masked  # the floor is of all of it
            value = self.floor.value(node.key, node.other) if measured and self.floor is not None else None
            node.floor = value.f if value is not None else None
            if node.status is Status.STRUCT or node.error is None:
                continue
            inputs_same = self._inputs_same(node, by_key)
            stated = (value.f, value.s, value.k) if value is not None else None
            otherwise = node.key.path in self._otherwise
            node.tau = threshold(node, stated, depth, inputs_same, self.limits, otherwise)
            node.ratio = ratio(node.error, node.tau)
            node.status = self._status(node)

    def _inputs_same(self, node: NodeResult, by_key: dict[str, NodeResult]) -> bool:
        """True if what went in is known and equal to the last bit; for a module that is its own arguments."""
        if node.key.path == "@pipeline":
            return False  # a whole run is no single step, whatever it is given: its floor was measured
        keys = [Key.parse(key) for key in node.inputs]
        if not node.key.is_input and not node.key.is_operation:
            keys = [key for key in keys if key.is_input and key.node == node.key.node]
        known = [by_key[str(key)] for key in keys if str(key) in by_key]
        return bool(known) and len(known) == len(keys) and all(k.status is Status.SAME for k in known)

    def _status(self, node: NodeResult) -> Status:
        if not node.error:
            return Status.SAME
        if (node.ratio or 0.0) > 1:
            return Status.OVER
        explained = max(node.prior, prior(node.dtypes, self.limits.pass_length, self.limits.prior))
        return Status.PRIOR if node.error <= explained else Status.FLOOR

    def add_structure(self, node: NodeResult) -> None:
        pair = self._pairs.get(node.key)
        if pair is None or node.status is not Status.OVER or not node.exact:
            return
        values_a, values_b = rows(self.a.array(pair.a), pair.rows_a), rows(self.b.array(pair.b), pair.rows_b)
        if values_a.size > 1 and values_a.dtype.kind != "c":
            node.structure = from_arrays(values_a, values_b.reshape(values_a.shape))


def captured_inputs(trace: Trace) -> dict[int, list[str]]:
    """Per value the keys of the captured values that it was computed from."""
    found: dict[int, list[str]] = {}
    incoming = {(node.step, node.path, node.call): list(node.inputs) for node in trace.nodes}
    for entry in trace.entries:
        sources: list[Entry] = []
        if not entry.key.is_input and not entry.key.is_operation:
            sources += [e for e in incoming.get(entry.key.node, ()) if e.seq < entry.seq]
        twin = trace.by_seq.get(entry.same) if entry.same is not None else None
        if twin is not None:
            sources.append(twin)
        sources += [trace.by_seq[seq] for seq in entry.deps]
        found[entry.seq] = [str(e.key) for e in {e.seq: e for e in sources}.values() if e.key.slot != "param"]
    return found


def rows(values: Array, selection: tuple[int | None, int | None] | None) -> Array:
    return values if selection is None else values[selection[0] : selection[1]]


def _same_axes(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """True if the one shape is the other with neighbouring axes joined; exchanged axes are a label that lies."""
    borders_a, borders_b = ({math.prod(shape[:end]) for end in range(len(shape) + 1)} for shape in (a, b))
    return math.prod(a) == math.prod(b) and (borders_a <= borders_b or borders_b <= borders_a)


def _reals(values: Array) -> Array:
    """The numbers in float64, a complex one as two."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return flat.astype(np.complex128).view(np.float64) if np.iscomplexobj(flat) else flat.astype(np.float64)


def is_masked(a: Array, b: Array) -> Array:
    """Where both sides hold the same number in the place of minus infinity: beside it any difference is rounding."""
    if a.size != b.size or a.dtype.kind != "f" or b.dtype.kind != "f":
        return np.zeros(a.shape, bool)
    found: Array = (a.astype(np.float64) <= -MASK) & (b.reshape(a.shape) == a)
    return found if not found.all() else np.zeros(a.shape, bool)


def errors(a: Array, b: Array) -> tuple[float, float, float | None]:
    """Relative L2, tail and cosine over the elements that are finite on both sides; other masks count as infinite."""
    x, y = (_reals(side) for side in (a, b))
    finite = np.isfinite(x)
    if not finite.all():
        if not np.array_equal(finite, np.isfinite(y)) or not np.array_equal(x[~finite], y[~finite], equal_nan=True):
            return math.inf, math.inf, None
        x, y = x[finite], y[finite]
    d = y - x
    norm_x, norm_y = float(np.linalg.norm(x)), float(np.linalg.norm(y))
    tail = ratio(float(np.abs(d).max(initial=0.0)), norm_x / math.sqrt(max(x.size, 1)))
    cosine = float(x @ y) / (norm_x * norm_y) if norm_x and norm_y else None
    return ratio(float(np.linalg.norm(d)), norm_x), tail, cosine


def _sketch_cosine(a: Array, b: Array, stats_a: Stats, stats_b: Stats) -> float | None:
    if not stats_a.l2 or not stats_b.l2:
        return None
    squared = float(np.linalg.norm(b - a)) ** 2
    return (stats_a.l2**2 + stats_b.l2**2 - squared) / (2 * stats_a.l2 * stats_b.l2)


def _end_of_candidate(a: Trace, b: Trace, alignment: Alignment, result: Comparison) -> None:
    """A run that died is different from one that went on: the first value it lacks is where."""
    if b.exception is None or a.exception is not None:
        return
    last = alignment.pairs[-1].a.seq if alignment.pairs else -1
    lacking = next((e for e in a.entries if e.seq > last and not e.key.is_operation), None)
    if lacking is not None:
        what = _ending("candidate", b.exception)
        result.nodes.append(
            NodeResult(lacking.key, len(result.nodes), Status.STRUCT, op=lacking.op, shape=lacking.shape, problem=what)
        )


def _ended_early(a: Trace, b: Trace, result: Comparison) -> None:
    """A side that raised has a verdict of its own, with what was compared until there."""
    raised = [(side, t.exception) for side, t in (("reference", a), ("candidate", b)) if t.exception is not None]
    if not raised or result.verdict is Verdict.INVALID:
        return
    before = "what was compared until there agrees"
    if result.first is not None and result.first.status is Status.OVER:
        before = f"before that, first difference: {result.first.describe()}"
    elif result.first is not None:
        before = f"the first value that is missing is `{result.first.key}`; {before}"
    result.verdict = Verdict.RAISED
    result.reasons.insert(0, "; ".join([*(_ending(side, what) for side, what in raised), before]))


def _ending(side: str, exception: Mapping[str, Any]) -> str:
    where = f" ({exception['where']})" if exception.get("where") else ""
    return f"the {side} ended with {exception.get('type')}: {exception.get('message')}{where}"


def _add_remarks(a: Trace, b: Trace, result: Comparison) -> None:
    different = [w for w in result.weights if w["kind"] == "different"]
    if different:
        result.reasons.append(f"{len(different)} parameters hold other values, first {different[0]['a'][0]}")
    suspects = result.suspects()
    if suspects:
        first = suspects[0]
        result.reasons.append(
            f"{len(suspects)} effective setting{'s differ' if len(suspects) > 1 else ' differs'}, first "
            f"{first['path']}.{first['name']}: "
            f"{first['a']!r} and {first['b']!r}"
        )
    for side, trace in (("reference", a), ("candidate", b)):
        for name, source in _temporary_sources(trace):
            result.reasons.append(
                f"the {side}'s {name} was loaded from {source}, a temporary place: the weights may be gone tomorrow"
            )
    for side, trace in (("reference", a), ("candidate", b)):
        fused = trace.meta.get("fused")
        if isinstance(fused, dict) and fused:
            first, inside = next(iter(fused.items()))
            result.reasons.append(
                f"the {side}'s `{first}` is compiled: the values of {sum(map(_count, fused.values()))} modules inside "
                f"were fused away and are not compared, the first of them {_first_name(inside)}"
            )


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _first_name(value: Any) -> str:
    return f"`{value[0]}`" if isinstance(value, list) and value else "unknown"


def _add_arrangements(result: Comparison) -> None:
    """Which values were read in another order than they stand in, and which could not be."""
    kinds: dict[str, list[NodeResult]] = defaultdict(list)
    for node in result.nodes:
        if node.arranged:
            word = node.arranged.split(" ")[0]
            kinds["rows" if word.isdigit() else word].append(node)
    for nodes in kinds.values():
        first = nodes[0]
        result.reasons.append(
            f"{len(nodes)} values are arranged otherwise in the candidate and were compared in the reference's order, "
            f"first `{first.key}`: {first.arranged}"
        )
    if result.unmeasured:
        result.reasons.append(
            f"{len(result.unmeasured)} values are arranged otherwise in the candidate and only sketches of them were "
            f"kept, first `{result.unmeasured[0]}`: not compared; record them with --keep full to compare them"
        )


def _temporary_sources(trace: Trace) -> list[tuple[str, str]]:
    sources = trace.meta.get("sources")
    if not isinstance(sources, dict):
        return []
    places = tuple({f"{tempfile.gettempdir()}/", "/tmp/", "/var/tmp/"})
    return [(name, path) for name, path in sources.items() if isinstance(path, str) and path.startswith(places)]
