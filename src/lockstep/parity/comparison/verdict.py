"""From errors per value to one verdict; the constants are calibrated on the fault benchmark's negative controls."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..trace.names import Key
from .priors import HALF, UNKNOWN_LENGTH, unit
from .priors import prior as rounding_prior
from .results import Comparison, Coverage, NodeResult, Role, Status, Verdict


@dataclass(frozen=True)
class Thresholds:
    """Every constant of the decision in one place."""

    prior: float = 4.0  # c of the rounding prior
    spread: float = 3.0  # standard deviations of the log floor
    least_spread: float = 0.35  # of the log floor, where few runs were made
    local: float = 8.0  # times the prior: a node whose inputs are equal to the last bit
    local_structured: float = 2.0  # the same where the difference follows the value, as rounding does not
    aligned: float = 0.35  # cosine between difference and value from which it does
    aligned_spread: float = 5.0  # standard deviations of that cosine by chance, for few elements
    no_floor: float = 32.0  # times the prior and the root of the depth, where no floor was measured
    gain: float = 2.0  # times the measured gain: what an input's error may become
    heal: float = 1e-3  # of a value's error: what may be left of it in the result of the module around it
    half: float = (
        1.5  # times the floor: what a right result in 16 bits may be off by, where a value on the way is wrong
    )
    divergent: float = 0.1  # floor above which the reference does not agree with itself
    pass_length: int = 1024  # sum length of the prior that PASS is measured against


ABOUT = 3.0  # times as wrong at most: what a value further on may have diluted
MUCH_LESS = 0.1  # of an error: what the same tensor may have elsewhere if it is compared with something else here


def threshold(
    node: NodeResult,
    floor: tuple[float, float, int] | None,
    depth: int,
    inputs_same: bool,
    limits: Thresholds,
    set_otherwise: bool = False,
) -> float:
    """tau: rounding prior, measured floor, and the tighter local bound where the inputs are the same bits.

    `set_otherwise`: the module is known to have another setting, so that a difference that is no noise is its effect.
    """
    structured = is_structured(node, limits)
    unit_prior = limits.prior * unit(*node.dtypes)
    prior = node.prior if not structured else min(node.prior, unit_prior)
    if floor is None:
        tau = limits.no_floor * node.prior * math.sqrt(max(depth, 1))
    else:
        f, s, k = floor
        tau = max(prior, f * math.exp(limits.spread * math.sqrt(1 + 1 / k) * max(s, limits.least_spread)))
    if not inputs_same:
        return tau
    if structured:
        least = unit(*node.dtypes) if set_otherwise else limits.local_structured * unit_prior
        # one rounding at the front of a whole model (a time's sine) is seen in all of it, and has its direction
        return min(tau, max(least, floor[0]) if floor is not None and _is_whole(node, limits) else least)
    return min(tau, limits.local * prior)


def _is_whole(node: NodeResult, limits: Thresholds) -> bool:
    """True for what is made of many steps."""
    return node.prior >= rounding_prior(node.dtypes, UNKNOWN_LENGTH, limits.prior)


def is_structured(node: NodeResult, limits: Thresholds) -> bool:
    """True if the difference follows the value itself: rounding has no direction, whatever its size."""
    if node.structure is None or node.structure.aligned is None:
        return False
    by_chance = limits.aligned_spread / math.sqrt(max(math.prod(node.shape), 1))
    return abs(node.structure.aligned) > max(limits.aligned, by_chance)


def assign_roles(nodes: list[NodeResult], limits: Thresholds, local: Mapping[str, float] | None = None) -> None:
    """Origin, propagated, amplified or healed, for every value that is over its threshold."""
    by_key = {str(node.key): node for node in nodes}
    outs = _outputs_by_module(nodes)
    ends = [node for node in nodes if _hands_on(node.key)]
    seen = _seen_of_a_run(nodes)
    taken, kept = _taken_as_it_is(nodes), _kept_for_later(nodes)
    by_shape_only = all(node.how == "sequence" for node in nodes)
    bad_so_far: list[NodeResult] = []
    own_faults: list[NodeResult] = []
    for node in nodes:
        if not node.bad:
            continue
        elsewhere = taken.get(str(node.key), [])
        right = bool(elsewhere) and not any(_is_as_wrong(other, node) for other in elsewhere)
        healed = _is_healed(node, outs, limits, kept.get(str(node.key), -1))
        if right or healed or _is_healed_later(node, ends, seen, limits):
            node.role = Role.HEALED
            continue
        captured = [by_key[k] for k in node.inputs if k in by_key] if node.key.is_operation else _sources(node, by_key)
        node.local_error = local.get(str(node.key)) if local is not None else None
        if _contains(node, captured, own_faults if node.local_error is not None else bad_so_far):
            node.role = Role.PROPAGATED
        elif node.local_error is not None:
            node.role = Role.ORIGIN if node.local_error > limits.local * node.prior else Role.PROPAGATED
        else:
            node.role = _role(node, captured, bool(bad_so_far), limits)
        if node.role is Role.ORIGIN and not node.key.is_operation:
            own_faults.append(node)
        if not _is_weak(node, by_shape_only):
            bad_so_far.append(node)


def _is_as_wrong(other: NodeResult, node: NodeResult) -> bool:
    return other.bad or (other.error or 0.0) > MUCH_LESS * (node.error or 0.0)


def _kept_for_later(nodes: list[NodeResult]) -> dict[str, int]:
    """By an operation's result the last place at which a part is given it, and it is wrong there: as a cache is."""
    found: dict[str, int] = {}
    for node in nodes:
        if node.bad and node.key.is_input and len(node.inputs) == 1 and not node.key.path.startswith("@"):
            found[node.inputs[0]] = max(node.order, found.get(node.inputs[0], -1))
    return found


def _taken_as_it_is(nodes: list[NodeResult]) -> dict[str, list[NodeResult]]:
    """By a module's result what the next modules are given, where that is the very same tensor: compared there, too."""
    found: dict[str, list[NodeResult]] = {}
    makers: dict[str, list[NodeResult]] = {}  # by the step that made it, results of modules that are that very tensor
    for node in nodes:
        if not node.key.is_input and not node.key.is_operation:
            own = [key for key in node.inputs if key.partition("|")[2].startswith(f"{node.key.path}/")]
            for key in [str(node.key), *own[-1:]]:
                makers.setdefault(key, []).append(node)
    for node in nodes:
        single = node.key.is_input and len(node.inputs) == 1 and node.error is not None and node.how != "sequence"
        for made in makers.get(node.inputs[0], []) if single else []:
            if made.shape == node.shape and made.order < node.order:
                found.setdefault(str(made.key), []).append(node)
    return found


def _sources(node: NodeResult, by_key: dict[str, NodeResult]) -> list[NodeResult]:
    """The captured values that a value was made from, seen through the operations in between."""
    found: dict[str, NodeResult] = {}
    waiting, visited = list(node.inputs), set()
    while waiting:
        key = waiting.pop()
        if key in visited or key not in by_key:
            continue
        visited.add(key)
        source = by_key[key]
        if source.key.is_operation:
            waiting.extend(source.inputs)
        else:
            found[key] = source
    return list(found.values())


def _contains(node: NodeResult, captured: list[NodeResult], bad: list[NodeResult]) -> bool:
    """True for a module's result if something that went wrong lies inside the module's own call."""
    own = [c.order for c in captured if c.key.node == node.key.node and c.key.is_input]
    if node.key.is_input or not own:
        return False
    begin = min(own)
    for other in reversed(bad):
        if other.order < begin:
            return False
        if other.key.step == node.key.step and other.key.path.startswith((f"{node.key.path}.", f"{node.key.path}/")):
            return True
    return False


def _role(node: NodeResult, captured: list[NodeResult], seen_bad: bool, limits: Thresholds) -> Role:
    if node.status is Status.STRUCT:
        return Role.PROPAGATED if any(c.bad for c in captured) or (not captured and seen_bad) else Role.ORIGIN
    if not captured:
        return Role.PROPAGATED if seen_bad else Role.ORIGIN
    incoming = max((c.error or 0.0 for c in captured), default=0.0)
    explained = limits.gain * _gain(node, captured) * incoming
    if not any(c.bad for c in captured):
        return Role.PROPAGATED if (node.error or 0.0) <= explained else Role.ORIGIN
    return Role.PROPAGATED if (node.error or 0.0) <= max(explained, 4 * incoming) else Role.AMPLIFIED


def _gain(node: NodeResult, captured: list[NodeResult]) -> float:
    """Measured amplification: the floor of the output over the largest floor of an input."""
    floors = [c.floor for c in captured if c.floor]
    if node.floor and floors:
        node.gain = node.floor / max(floors)
        return node.gain
    return 1.0


def _outputs_by_module(nodes: list[NodeResult]) -> dict[tuple[str, str], list[NodeResult]]:
    table: dict[tuple[str, str], list[NodeResult]] = defaultdict(list)
    for node in nodes:
        if not node.key.is_input and not node.key.is_operation:
            table[node.key.step, node.key.path].append(node)
    return table


def _is_healed(node: NodeResult, outs: dict[tuple[str, str], list[NodeResult]], limits: Thresholds, kept: int) -> bool:
    """True if a module around this value, or the scheduler's call that it goes into, gives the right result all the
    same: permuted weights, other algebra, tokens in another order, a step named otherwise.

    Right means right by far: a residual alone dilutes an error tenfold, and that is still an error. What is `kept` for
    a later call is not healed by the result of this one.
    """
    called = [node.key.path] if node.key.is_input and node.key.path.startswith("@") else []
    for path in [*called, *_containers(node.key)]:
        later = [o for o in outs.get((node.key.step, path), ()) if o.order > node.order]
        if later and kept > later[0].order:
            continue
        if later and _heals([o for o in later if o.key.call == later[0].key.call], node, limits):
            return True
    return False


def _is_healed_later(node: NodeResult, ends: list[NodeResult], seen: list[NodeResult], limits: Thresholds) -> bool:
    """True if a pipeline hands on the right thing wherever it hands something on: rows in another order, say.

    What it hands to its scheduler it may keep in another form (scaled, packed): then its models and its end tell.
    """
    if _hands_on(node.key):
        ends = seen if node.key.path != "@pipeline" else []
    later = [end for end in ends if end.order > node.order]
    return bool(later) and _heals(later, node, limits)


def _seen_of_a_run(nodes: list[NodeResult]) -> list[NodeResult]:
    """What the models of a pipeline are given, and its result; nothing where the result was not compared."""
    ends = [node for node in nodes if node.key.path == "@pipeline" and not node.key.is_input]
    given = [n for n in nodes if n.key.is_input and "." not in n.key.path and not n.key.path.startswith("@")]
    return [*(n for n in given if not n.key.is_operation), *ends] if ends else []


def _heals(results: list[NodeResult], node: NodeResult, limits: Thresholds) -> bool:
    """True if all of the results are right, and by far more so than the value."""
    own = node.error if node.error is not None else math.inf
    return not any(o.bad for o in results) and all(_is_right_by_far(o, own, limits) for o in results)


def _is_right_by_far(result: NodeResult, own: float, limits: Thresholds) -> bool:
    """In 16 bits what rounding does to it is all that can be asked for."""
    error = result.error if result.error is not None else math.inf
    in_half = not HALF.isdisjoint(result.dtypes) and error <= limits.half * (result.floor or 0.0) <= MUCH_LESS * own
    return error <= limits.heal * own or in_half


def _hands_on(key: Key) -> bool:
    """True where a pipeline hands on what it has computed: to its scheduler's step, from there, and at the end."""
    if not key.path.startswith("@") or key.is_operation:
        return False
    return key.path.endswith(".step") or (key.path == "@pipeline" and not key.is_input)


def _containers(key: Key) -> list[str]:
    """Enclosing modules, innermost first; a value at the border of a module is inside the next one out."""
    path = key.path.partition("/")[0]
    found = [path] if key.is_operation else []
    while "." in path:
        path = path.rpartition(".")[0]
        found.append(path)
    return found


def decide(comparison: Comparison, limits: Thresholds) -> None:
    """Fill verdict, first, origins and reasons from the nodes."""
    nodes = comparison.nodes
    by_key = {str(node.key): node for node in nodes}
    by_shape_only = all(node.how == "sequence" for node in nodes)
    strong = [n for n in nodes if n.bad and n.role is not Role.HEALED and not _is_weak(n, by_shape_only)]
    if not strong:
        comparison.verdict, reason = _clean_verdict(nodes, comparison.coverage)
        comparison.reasons.insert(0, reason)
        return
    weak = [
        n for n in nodes if n.role is Role.ORIGIN and not n.key.is_operation
    ]  # paired by shape: says where at least
    origins = [_refine(n, by_key) for n in [s for s in strong if s.role is Role.ORIGIN] or weak]
    comparison.origins = sorted({str(n.key): n for n in origins}.values(), key=lambda n: n.order)
    divergent = max((n.floor or 0.0 for n in nodes if not n.key.is_operation), default=0.0)
    if comparison.origins:
        comparison.verdict, comparison.first = Verdict.BUG, _begun_before(comparison.origins[0], nodes)
        reason = f"first difference: {comparison.first.describe()}"
    elif divergent > limits.divergent:
        comparison.verdict = Verdict.INCONCLUSIVE
        reason = f"the reference differs from itself by {divergent:.1%}: use float32, teacher forcing, or fewer steps"
    else:
        comparison.verdict = Verdict.DRIFT
        comparison.first, worst = strong[0], max(strong, key=lambda n: n.ratio or 0.0)
        reason = (
            f"{len(strong)} values over the floor without one origin (largest R {worst.ratio:.2g} at "
            f"{worst.key}): typical of a systematic tiny difference"
        )
    comparison.reasons.insert(0, reason)
    others = [n for n in comparison.origins[1:] if not n.key.is_operation]
    if others:
        shown = ", ".join(f"`{n.key}`" for n in others[:3])
        comparison.reasons.append(f"independent of it another difference begins at {shown}")


def _is_weak(node: NodeResult, by_shape_only: bool) -> bool:
    """Operations and values paired by shape alone say where, never whether: two right programs may differ in them."""
    return node.key.is_operation or (node.how == "sequence" and not by_shape_only)


def _refine(node: NodeResult, by_key: dict[str, NodeResult]) -> NodeResult:
    """Walk back from the first bad value through the bad operations that it was made by."""
    current, visited = node, {str(node.key)}
    while True:
        sources = [by_key[k] for k in current.inputs if k in by_key and k not in visited]
        bad = [s for s in sources if s.bad and s.key.is_operation and s.role is not Role.HEALED]
        if not bad:
            return current
        current = min(bad, key=lambda n: n.order)
        visited.add(str(current.key))


def _begun_before(first: NodeResult, nodes: list[NodeResult]) -> NodeResult:
    """Of values paired by shape alone that lie before what a module is given: the result of one that was given the
    right thing, and is about as wrong."""
    if not first.key.is_input or first.key.is_operation or first.error is None:
        return first
    given: dict[tuple[str, str, int], list[NodeResult]] = defaultdict(list)
    for node in nodes:
        if node.key.is_input and not node.key.is_operation:
            given[node.key.node].append(node)
    for node in nodes:
        near = node.order < first.order and node.key.step == first.key.step
        weak = node.bad and node.how == "sequence" and not node.key.is_input and not node.key.is_operation
        if near and weak and node.key.path.rpartition(".")[0] == first.key.path.rpartition(".")[0]:
            right = given[node.key.node] and not any(n.bad for n in given[node.key.node])
            if right and node.error is not None and node.error <= ABOUT * first.error:
                return node
    return first


def _clean_verdict(nodes: list[NodeResult], coverage: Coverage) -> tuple[Verdict, str]:
    """No value is over its threshold: PASS, or NOISE if some are above what rounding alone explains."""
    compared = [n for n in nodes if n.error is not None and not n.key.is_operation and n.role is not Role.HEALED]
    above = [n for n in compared if n.status is Status.FLOOR]
    unknown = [n for n in above if n.floor is None]
    if unknown:
        worst = max(unknown, key=lambda n: n.error or 0.0)
        return Verdict.INCONCLUSIVE, (
            f"{len(unknown)} values differ by more than rounding explains (up to {worst.error:.1e} at {worst.key}) and "
            "no floor was measured there: measure it to tell noise from a bug"
        )
    if above:
        worst = max(above, key=lambda n: n.ratio or 0.0)
        return Verdict.NOISE, (
            f"no value is over its threshold; {len(above)} are above the rounding prior and inside the floor "
            f"(largest R {worst.ratio:.2g} at {worst.key})"
        )
    half = sorted({d for n in compared for d in n.dtypes if d in HALF})
    if half:
        hidden = max(n.prior for n in compared)
        return Verdict.NOISE, (
            f"no difference found, but {', '.join(half)} hides everything below {hidden:.1e}: "
            "only a float32 pair can PASS"
        )
    same = sum(n.status is Status.SAME for n in compared)
    besides = _besides(nodes, len(compared), coverage)
    if same == len(compared):
        return Verdict.PASS, f"all {same} values equal to the last bit{besides}"
    words = f"{same} of {len(compared)} values equal to the last bit, the rest inside the rounding prior"
    return Verdict.PASS, f"{words}{besides}"


def _besides(nodes: list[NodeResult], counted: int, coverage: Coverage) -> str:
    """What was compared without being counted, so that the numbers of a sentence add up to its coverage."""
    values = [n for n in nodes if not n.key.is_operation]
    healed = sum(n.role is Role.HEALED for n in values)
    numbers = {
        "that differ on the way only": healed,
        "of another form": len(values) - counted - healed,
        "of these once more, under another name": coverage.compared - len(values),
    }
    told = [f"{number} {words}" for words, number in numbers.items() if number > 0]
    return f"; besides {', '.join(told)}" if told else ""
