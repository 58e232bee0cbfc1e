"""Causes that the recorded values prove by themselves, without a live model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..comparison.results import Cause, Comparison, NodeResult, Standing
from ..trace.container import Array
from ..trace.names import Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import relative_l2, sketch_error
from .branches import exchanged_branches
from .earlier_values import ROWS, STALE, earlier_findings
from .schedules import schedule_causes
from .token_tests import token_findings
from .value_tests import (
    ValueFinding,
    combination,
    draw_findings,
    loop_part,
    schedule_findings,
    value_findings,
)

MAX_SOURCES = 5
LATER = 3  # values behind the first one that are looked at
LEAST_SAMPLED = 32  # elements whose signs agree: chance gives one in four thousand millions
SAME = 1e-6  # relative: two sketches of one tensor
STEPPED = ("in.sample", "in.latents", "in.timestep")  # what a scheduler's step is given besides the prediction
FITS = 1e-4  # a combination that explains a value to this is how it was made


def recorded_causes(comparison: Comparison, node: NodeResult, a: Trace, b: Trace) -> list[Cause]:
    """Hypotheses about the first bad value, best first; only those that reach the threshold."""
    right = {n.other for n in comparison.nodes if n.other is not None and not n.bad}
    found = [*schedule_causes(comparison, node, a, b), *_causes_at(node, a, b, right, comparison)]
    if (part := loop_part(_timesteps(a), _timesteps(b))) is not None:
        before = node.error if node.error is not None else float("inf")
        found = [_cause(part, node, before)]  # everything else follows from it
    if node.other is None and b.exception is not None and a.exception is None:
        what = f"the candidate ended with {b.exception.get('type')}: {b.exception.get('message')}"
        found = [Cause("exception", what, str(node.key), float("inf"), 0.0, None, what, {"accepted": True})]
    if any(cause.standing is Standing.PROVEN for cause in found) or not node.key.is_operation:
        return found
    # an operation on a few numbers proves nothing: what it led to may
    later = [n for n in comparison.nodes if n.bad and n.order > node.order and not n.key.is_operation]
    behind = next((causes for n in later[:LATER] if (causes := _causes_at(n, a, b, right, comparison))), [])
    for cause in behind:
        if cause.name == "coefficients":  # of a value behind: other inputs make other sums
            cause.standing, cause.evidence["accepted"] = Standing.FITS, False
    proven = [cause for cause in behind if cause.standing is Standing.PROVEN]
    return proven if proven or not found else found


def _timesteps(trace: Trace) -> list[float]:
    """What the scheduler's step was given, call by call."""
    entries = [e for e in trace.entries if e.key.path == "@scheduler.step" and e.key.slot == "in.timestep"]
    return [float(np.asarray(trace.array(e)).reshape(-1)[0]) for e in entries if e.has_data]


def _causes_at(
    node: NodeResult, a: Trace, b: Trace, right_keys: set[Key], comparison: Comparison | None = None
) -> list[Cause]:
    if node.other is None:
        return []
    left, right = a.get(node.key), b.get(node.other)
    if left is None or right is None:
        return []
    found = [*_other_integers(a, b, left, right)] if not left.is_float else []
    if left.is_float:
        found += [*_provenance(node, a, b, left, right, right_keys), *_module_left_out(a, b, left, right)]
        found += earlier_findings(comparison, node, a, b, left, right) if comparison is not None else []
    found += _drawn_otherwise(a, b, left, right)
    if left.has_data and right.has_data:
        found += exchanged_branches(node, a, b, left, right)
        x, y = np.asarray(a.array(left)), np.asarray(b.array(right))
        found += _of_arrays(node, a, b, left, right, x, y)
    before = node.error if node.error is not None and np.isfinite(node.error) else _integer_error(left, right, a, b)
    good = [f for f in found if f.residual <= max(node.tau, 1e-12) and f.residual <= 0.5 * before]
    good.sort(key=lambda f: (f.rank, f.residual))
    return [_cause(f, node, before) for f in good]


def _drawn_otherwise(a: Trace, b: Trace, left: Entry, right: Entry) -> list[ValueFinding]:
    """Before the value the same random numbers were drawn in blocks of another size."""
    draws = [
        [e for e in trace.entries if e.key.slot == "rng" and e.seq <= end.seq and e.has_data]
        for trace, end in ((a, left), (b, right))
    ]
    if len(draws[0]) != len(draws[1]):
        return []
    for mine, theirs in zip(*draws, strict=True):
        if mine.shape != theirs.shape:
            found = draw_findings(np.asarray(a.array(mine)), np.asarray(b.array(theirs)), [])
            return [f for f in found if f.name == "patch_noise" and f.rank == 0]
    return []


def _integer_error(left: Entry, right: Entry, a: Trace, b: Trace) -> float:
    if left.has_data and right.has_data and left.shape == right.shape:
        return relative_l2(a.array(left), b.array(right))
    return float("inf")


def _of_arrays(
    node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry, x: Array, y: Array
) -> list[ValueFinding]:
    path, slot = node.key.path, node.key.slot
    if slot == "rng":
        later = [np.asarray(a.array(e)) for e in a.entries if e.key.slot == "rng" and e.seq > left.seq and e.has_data]
        return draw_findings(x, y, later[:8])
    name = path.rpartition(".")[2].lstrip("@")
    found: list[ValueFinding] = []
    if name in ("timesteps", "sigmas"):
        found += schedule_findings(name, x, y)
    if "timestep" in slot or path == "@timestep":
        found += schedule_findings("timestep", x, y)
    if x.size == y.size:
        found += _zeros(node, x, y)
        found += value_findings(x, y)
        found += _pooled(a, left, x, y)
        found += _combined(node, a, b, left, right, x, y)
        found += _sampled(a, b, left, right, x, y)
    return found


def _zeros(node: NodeResult, x: Array, y: Array) -> list[ValueFinding]:
    """Nothing at all, where the reference has something."""
    if np.any(y) or not np.any(x) or y.size < MANY:
        return []
    words = "the value is zero everywhere"
    if node.key.path.endswith(".step") and node.key.is_input and node.key.slot not in STEPPED:
        words = "the prediction is zero, as a guider with zero_init_steps makes it in its first steps, but not here"
        return [ValueFinding("guider_state", words, 0.0, 0, "every one of the numbers is 0")]
    return [ValueFinding("zeros", words, 0.0, 0, "every one of the numbers is 0")]


def _provenance(
    node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry, right_keys: set[Key]
) -> list[ValueFinding]:
    """The value is, element by element, another earlier value: a shadowed or stale variable.

    One of its own counts only where it is right itself: of what else it was made says nothing new.
    """
    found = []
    norm = a.stats(left).l2
    for trace, entry, side in ((b, right, "its own"), (a, right, "the reference's")):
        wanted, size = b.sketch(right), int(np.prod(entry.shape or (1,)))
        limit = right.seq if trace is b else left.seq
        for other in trace.entries:
            if (
                other.seq >= limit
                or int(np.prod(other.shape or (1,))) != size
                or not other.is_float
                or other.key.node == node.key.node
                or (trace is b and other.key not in right_keys)
            ):
                continue
            residual = sketch_error(wanted, trace.sketch(other), norm)
            if residual <= node.tau and not _twin(a, left, other.key):
                function = str((other.meta.get("rng") or {}).get("function", ""))
                if "dropout" in function:
                    found.append(ValueFinding("dropout", "the value passed a dropout that was left on", residual, 1))
                    break
                found.append(_taken(a, left, other, side, residual))
                break
    return found


def _taken(a: Trace, left: Entry, other: Entry, side: str, residual: float) -> ValueFinding:
    """In words: another draw, the result of a part where the whole does something more with it, or some other value."""
    words = f"the value is {side} `{other.key}`"
    if other.key.slot == "rng" and _is_draw(a, left):
        return ValueFinding("random_offset", words, residual, 3)
    inside = other.key.path.startswith(f"{left.key.path}.") and not left.key.is_input and not other.key.is_input
    given = [e for e in a.entries if e.key.node == left.key.node and e.key.is_input and e.shape == left.shape]
    if inside and given:
        return ValueFinding(
            "left_out", f"the residual is missing: {words}, to which `{given[0].key}` is added", residual, 2
        )
    return ValueFinding("wrong_operand", words, residual, 3)


def _module_left_out(a: Trace, b: Trace, left: Entry, right: Entry) -> Iterator[ValueFinding]:
    """The value is what goes into the module that gave the reference's."""
    made = [left, *(a.by_seq[seq] for seq in (left.same, *left.deps) if seq in a.by_seq)]
    norm = a.stats(left).l2
    for entry in made:
        path, size = entry.key.path, np.prod(right.shape)
        if entry.key.is_input or entry.key.is_operation or path.startswith("@") or entry.shape != left.shape:
            continue
        if sketch_error(a.sketch(left), a.sketch(entry), norm) > SAME:
            continue
        for given in [e for e in a.entries if e.key.node == entry.key.node and e.key.is_input and e.is_float]:
            if np.prod(given.shape) == size:
                residual = sketch_error(b.sketch(right), a.sketch(given), norm)
                words = f"`{path}` is left out: the value is what goes into it"
                yield ValueFinding("left_out", words, residual, 1, repair=f"in the port: call what is `{path}` there")


def is_time(key: Key) -> bool:
    """True for what a model is told as the time of its step."""
    return key.is_input and key.slot.removeprefix("in.") in ("t", "timestep", "timesteps", "time", "sigma")


def _other_integers(a: Trace, b: Trace, left: Entry, right: Entry) -> list[ValueFinding]:
    """Token ids and indices: of rows filled otherwise, another call's, or simply other ones."""
    if not left.has_data or not right.has_data:
        return []
    x, y = np.asarray(a.array(left)), np.asarray(b.array(right))
    tokens = list(token_findings(x, y))
    if tokens or x.shape != y.shape:
        return tokens
    others = [e for e in a.entries if e.key.is_input and e.key != left.key and not e.is_float and e.has_data]
    twin = next((e for e in others if e.shape == left.shape and np.array_equal(np.asarray(a.array(e)), y)), None)
    if twin is not None:
        return [ValueFinding("wrong_operand", f"the value is the reference's `{twin.key}`", 0.0, 2)]
    wrong = np.flatnonzero(x.reshape(-1) != y.reshape(-1))
    if not wrong.size:
        return []
    at = int(wrong[0])
    if is_time(left.key):
        return []  # which numbers they are says nothing of why
    words = (
        f"{wrong.size} of {x.size} numbers are other ones, first {x.reshape(-1)[at]} and {y.reshape(-1)[at]} at {at}"
    )
    return [
        ValueFinding(
            "input_values", words, 0.0, 6, "integers are equal or they are not: the prompt, the tokenizer or an index"
        )
    ]


def _is_draw(trace: Trace, entry: Entry) -> bool:
    """True if the value is one of the run's random draws, as it was drawn."""
    norm = trace.stats(entry).l2
    draws = [e for e in trace.entries if e.key.slot == "rng" and e.shape == entry.shape]
    return any(sketch_error(trace.sketch(entry), trace.sketch(draw), norm) < 1e-2 for draw in draws)


def _twin(a: Trace, left: Entry, key: Key) -> bool:
    """True if the reference's value is that other one, too, or if that cannot be known."""
    other = a.get(key)
    if other is None:
        return key.slot != "rng"
    return sketch_error(a.sketch(left), a.sketch(other), a.stats(left).l2) < 1e-6


def _pooled(a: Trace, left: Entry, x: Array, y: Array) -> list[ValueFinding]:
    """Another token of a recorded sequence was taken, or the same token of another sequence."""
    if y.ndim != 2:
        return []
    found = []
    places = [_token_of(a, entry, x) for entry in _sequences(a, left, x)]
    wanted = min(places, key=lambda place: place[1], default=None)
    for entry in _sequences(a, left, y):
        index, residual = _token_of(a, entry, y)
        same = wanted is not None and wanted[1] < 1e-6 and index == wanted[0]
        name = "wrong_operand" if same else "pooling_index"
        found.append(ValueFinding(name, f"the value is tokens {index} of `{entry.key}`", residual, 1))
    return found


def _sequences(a: Trace, left: Entry, pooled: Array) -> list[Entry]:
    before = [e for e in a.entries if e.seq < left.seq and e.has_data and len(e.shape) == 3]
    return [e for e in before if e.shape[::2] == pooled.shape]


def _token_of(a: Trace, entry: Entry, pooled: Array) -> tuple[list[int], float]:
    """Which token of each row is nearest, and what is left."""
    tokens = np.asarray(a.array(entry)).astype(np.float64)
    index = ((tokens - pooled[:, None]) ** 2).sum(-1).argmin(1)
    return index.tolist(), relative_l2(pooled, tokens[np.arange(len(index)), index])


def _sampled(a: Trace, b: Trace, left: Entry, right: Entry, x: Array, y: Array) -> list[ValueFinding]:
    """The difference is, element by element, a positive multiple of a draw that only the candidate made before."""
    draws = [[e for e in t.entries if e.key.slot == "rng" and e.seq < end.seq] for t, end in ((a, left), (b, right))]
    if len(draws[1]) <= len(draws[0]) or x.size < LEAST_SAMPLED:
        return []
    difference = (y.astype(np.float64) - x.astype(np.float64)).reshape(-1)
    for draw in draws[1]:
        if draw.has_data and int(np.prod(draw.shape)) == difference.size:
            noise = np.asarray(b.array(draw)).astype(np.float64).reshape(-1)
            moved = (difference != 0) & (noise != 0)
            if moved.mean() > 0.9 and bool(np.all(difference[moved] * noise[moved] > 0)):
                words = (
                    f"a random draw (`{draw.key}`) times a positive spread is added: a posterior is sampled where its "
                    "mode is taken"
                )
                proof = f"all {int(moved.sum())} differences have the sign of the draw"
                return [ValueFinding("posterior_sample", words, 0.0, 0, proof)]
    return []


def _combined(
    node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry, x: Array, y: Array
) -> list[ValueFinding]:
    """Both values are sums of the same earlier values with other weights: guidance, steps, noise levels."""
    if x.size < 16 or not (node.key.path.startswith("@") or node.key.is_input):
        return []
    labels: list[str] = []
    xs: list[Array] = []
    ys: list[Array] = []
    for label, p, q in _sources(node, a, b, left, right):
        if len(labels) < MAX_SOURCES:
            labels.append(label)
            xs.append(p)
            ys.append(q)
    if not labels:
        return []
    for count in range(1, len(labels) + 1):
        weights_a, rest_a = combination(x, xs[:count])
        weights_b, rest_b = combination(y, ys[:count])
        same = sum(w * q.astype(np.float64).reshape(-1) for w, q in zip(weights_a, ys, strict=False))
        others = relative_l2(y.astype(np.float64).reshape(-1), np.asarray(same)) > 10 * max(rest_b, 1e-7)
        if rest_a < FITS and rest_b < max(FITS, node.tau) and others:
            models = {label for label in labels if label.partition(" ")[0] in (a.meta.get("modules") or {})}
            return [_combination_finding(labels[:count], weights_a, weights_b, rest_b, models)]
    return []


def _sources(node: NodeResult, a: Trace, b: Trace, left: Entry, right: Entry) -> list[tuple[str, Array, Array]]:
    found: list[tuple[str, Array, Array]] = []
    size = int(np.prod(left.shape))
    earlier = [e for e in a.entries if e.seq < left.seq and e.has_data and e.is_float and not e.key.is_operation]
    earlier = [e for e in earlier if e.key.step == node.key.step or e.key.step == "-"]
    for entry in sorted(earlier, key=lambda e: ("." in e.key.path, -e.seq)):  # whole models first, the last of them
        other = b.get(entry.key)
        if other is None or not other.has_data or other.shape != entry.shape or other.seq >= right.seq:
            continue
        p, q = np.asarray(a.array(entry)), np.asarray(b.array(other))
        if p.size == size:
            call = f" (call {entry.key.call})" if entry.key.call else ""
            found.append((f"{entry.key.path} {entry.key.slot}{call}", p, q))
        elif p.size == 2 * size and p.ndim and p.shape[0] % 2 == 0:
            half = p.shape[0] // 2
            found += [
                (f"{entry.key.path}[:{half}]", p[:half], q[:half]),
                (f"{entry.key.path}[{half}:]", p[half:], q[half:]),
            ]
    return found


def _combination_finding(
    labels: list[str], a: list[float], b: list[float], residual: float, models: set[str]
) -> ValueFinding:
    least = 1e-4 * max(abs(c) for c in [*a, *b])  # what has no part in either sum is none of its terms
    used = [i for i in range(len(labels)) if max(abs(a[i]), abs(b[i])) > least]
    labels, a, b = [labels[i] for i in used], [a[i] for i in used], [b[i] for i in used]
    halves = len(labels) == 2 and all(label.endswith("]") for label in labels)
    calls = len(labels) == 2 and set(labels) <= models and len({label.partition(" ")[0] for label in labels}) == 1
    # u + w (c - u) has coefficients that sum to one; where they do not, something else is multiplied in as well
    guides = (halves or calls) and all(math.isclose(sum(side), 1.0, abs_tol=1e-3) for side in (a, b))
    name = "guidance" if guides else "combination" if halves else "coefficients"
    shown = [
        " + ".join(f"{c:.4g} {label}" for c, label in zip(side, labels, strict=True) if abs(c) > least) or "0"
        for side in (a, b)
    ]
    words = f"the candidate computes {shown[1]}, the reference {shown[0]}"
    if guides:
        towards = 1 if halves else max((0, 1), key=lambda i: a[i])  # the branch that the guidance leads to
        words = f"guidance weight {b[towards]:.4g} instead of {a[towards]:.4g}: {words}"
    return ValueFinding(name, words, residual, 1)


# True of the values by themselves, bit for bit or by their number; all others only describe the difference.
_FACTS = {
    "step_count",
    "precision",
    "timestep_dtype",
    "timestep_offset",
    "schedule_reversed",
    "schedule_shift",
    "schedule_end",
    "random_stream",
    "random_offset",
    "patch_noise",
    "dropout",
    "left_out",
    "wrong_operand",
    "input_values",
    "padding_side",
    "max_length",
    "pooling_index",
    "posterior_sample",
    "exception",
    "half_swap",
    "reversed",
    "shifted",
    "axes_swapped",
    "interleave",
    "channel_order",
    "permutation",
    "guidance",
    "value_range",
    "zeros",
    "guider_state",
    STALE,
    ROWS,
}
_OF_SEVERAL = ("timestep_offset", "schedule_shift", "schedule_reversed")  # of one number anything is an offset
SEVERAL = 3
MANY = 16  # elements from which a rearrangement is no chance


def _is_fact(finding: ValueFinding, node: NodeResult) -> bool:
    size = int(np.prod(node.shape)) if node.shape else 1
    if finding.name == "coefficients":
        return node.key.path.startswith("@")
    if finding.name == "input_values":  # the prompt; inside of a model numbers that differ are what is to be explained
        return "." not in node.key.path and not node.key.path.startswith("@")
    few = finding.name in (
        "step_count",
        "timestep_dtype",
        "timestep_offset",
        "schedule_end",
        "schedule_shift",
        "schedule_reversed",
        "input_values",
        "padding_side",
        "max_length",
    )
    if finding.name in ("wrong_operand", "left_out") and (node.key.is_operation or node.error is None):
        return False  # a product with one is its other operand, too; another shape is what is to be explained
    if finding.name == "wrong_operand" and not node.key.is_input:
        return False  # what it should have been made of is not known
    return finding.name in _FACTS and (few or size >= MANY) and not (finding.name in _OF_SEVERAL and size < SEVERAL)


def _cause(finding: ValueFinding, node: NodeResult, before: float) -> Cause:
    tail = f", floor {node.floor:.1e}" if node.floor is not None else f", threshold {node.tau:.1e}"
    proof = finding.proof or f"with that the error falls from {before:.2g} to {finding.residual:.2g}{tail}"
    fact = _is_fact(finding, node)
    why = f"{finding.detail}: {proof}"
    if not fact:
        why = f"cause not proven; this fits the value only: {why}"
    evidence: dict[str, Any] = {"accepted": fact, "from": "recorded values", "threshold": node.tau}
    standing = Standing.PROVEN if fact else Standing.FITS
    fix = finding.repair or f"look for what makes it so before `{node.key}`: {finding.detail}"
    return Cause(finding.name, why, str(node.key), before, finding.residual, node.floor, fix, evidence, standing)
