"""Pairs of values that are none: guessed and contradicted, or of another form on either side."""

from __future__ import annotations

import math

from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error
from .align import ALIKE_VALUES, Pair
from .handed_in import prepared_outside
from .result_names import is_result_of_whole
from .results import NodeResult, Status

GUESSED = ("weights", "order", "sequence")  # pairs that no name and no map says

SAME = 1e-5  # relative: one value, whatever kernel made it


def doubtful(
    a: Trace, b: Trace, pairs: list[Pair], nodes: list[NodeResult]
) -> tuple[set[int], list[NodeResult], list[str]]:
    """The numbers of the reference's values whose pairs are to be dropped, which of them have another form, and what is
    to be said of that."""
    forms = [*_in_another_form(nodes), *_guessed_shapes(nodes)]
    dropped = _contradicted(a, pairs, nodes) | _of_a_part(a, b, pairs, nodes) | _other_results(a, b, pairs, nodes)
    dropped |= {pair.a.seq for pair, node in zip(pairs, nodes, strict=True) if node.bad and pair.how == ALIKE_VALUES}
    dropped |= _mistaken(a, b, pairs, nodes) | prepared_outside(a, pairs, nodes)
    dropped -= {pair.a.seq for pair in pairs if is_result_of_whole(pair.a.key) and is_result_of_whole(pair.b.key)}
    formed = {id(node) for node in forms}
    dropped |= {pair.a.seq for pair, node in zip(pairs, nodes, strict=True) if id(node) in formed}
    if not forms:
        return dropped, [], []
    told = (
        f"{len(forms)} values of parts have another form in the candidate and were not compared, first "
        f"`{forms[0].key}`: {forms[0].problem}"
    )
    return dropped, forms, [told]


def _contradicted(a: Trace, pairs: list[Pair], nodes: list[NodeResult]) -> set[int]:
    """Pairs that were guessed, and that a value of the reference with the same numbers contradicts: what goes into a
    part of the module, or comes out of it, has another partner, and agrees with that one."""
    both = list(zip(pairs, nodes, strict=True))
    right = [pair for pair, node in both if not node.bad and not pair.a.key.is_operation and pair.a.is_float]
    found: set[int] = set()
    for pair, node in both:
        if not node.bad or pair.how not in GUESSED or pair.a.key.is_operation or not pair.a.is_float:
            continue
        inside = [p.a for p in right if p.a.key.path.startswith(f"{pair.a.key.path}.") and p.a.shape == pair.a.shape]
        if any((a.sketch(entry) == a.sketch(pair.a)).all() for entry in inside):
            found.add(pair.a.seq)
    return found


def _of_a_part(a: Trace, b: Trace, pairs: list[Pair], nodes: list[NodeResult]) -> set[int]:
    """Guessed pairs where the candidate's value is what a part inside of the reference's module gives, and the
    module's own is found elsewhere: the candidate has a module for that part alone, and does the rest after it."""
    found: set[int] = set()
    for pair, node in zip(pairs, nodes, strict=True):
        entry = pair.a
        if not node.bad or pair.how not in GUESSED or entry.key.is_operation or entry.key.is_input:
            continue
        inside = [
            e for e in a.entries
            if e.key.path.startswith(f"{entry.key.path}.") and e.shape == pair.b.shape
            and e.key.step == entry.key.step and e.is_float and not e.key.is_input
        ]  # fmt: skip
        elsewhere = [e for e in b.entries if e.shape == entry.shape and e.is_float]
        if any(_same(a, e, b, pair.b) for e in inside) and any(_same(a, entry, b, e) for e in elsewhere):
            found.add(entry.seq)
    return found


def _other_results(a: Trace, b: Trace, pairs: list[Pair], nodes: list[NodeResult]) -> set[int]:
    """Results of two modules that hold the same weights and give other things: a norm with its modulation here, the
    modulation alone there. What is made of them is compared."""
    sizes = [_result_sizes(trace) for trace in (a, b)]
    found: set[int] = set()
    for pair, node in zip(pairs, nodes, strict=True):
        key, other = pair.a.key, pair.b.key
        if not node.bad or pair.how not in GUESSED or key.is_operation or key.is_input or other.is_operation:
            continue
        mine, theirs = sizes[0].get(key.node, []), sizes[1].get(other.node, [])
        if len(mine) + len(theirs) > 2 and sorted(mine) != sorted(theirs):
            found.add(pair.a.seq)
    return found


def _mistaken(a: Trace, b: Trace, pairs: list[Pair], nodes: list[NodeResult]) -> set[int]:
    """Pairs by order alone where either side has the other's value somewhere else: both are right, and not partners."""
    both = zip(pairs, nodes, strict=True)
    guessed = [pair for pair, node in both if node.bad and pair.how == "sequence" and not pair.a.key.is_operation]
    found: set[int] = set()
    for pair in guessed:
        if pair.a.is_float and _elsewhere(a, pair.a, b, pair.b) and _elsewhere(b, pair.b, a, pair.a):
            found.add(pair.a.seq)
    return found


def _elsewhere(mine: Trace, value: Entry, other: Trace, partner: Entry) -> bool:
    """True if the other side has a value, and not as the partner that was guessed."""
    alike = (e for e in other.entries if e.shape == value.shape and e.is_float and e.seq != partner.seq)
    return any(_same(mine, value, other, entry) for entry in alike)


def _result_sizes(trace: Trace) -> dict[tuple[str, str, int], list[int]]:
    """How many numbers each result of a call holds."""
    found: dict[tuple[str, str, int], list[int]] = {}
    for entry in trace.entries:
        if entry.key.slot.startswith("out") and not entry.key.is_operation and entry.is_float:
            found.setdefault(entry.key.node, []).append(math.prod(entry.shape))
    return found


def _same(a: Trace, left: Entry, b: Trace, right: Entry) -> bool:
    return sketch_error(a.sketch(left), b.sketch(right), a.stats(left).l2) <= SAME


def _in_another_form(nodes: list[NodeResult]) -> list[NodeResult]:
    """What a part inside of a model is given in another form: a table of pairs, of angles or of complex numbers, a mask
    of another kind. What the part makes of it is compared, so that alone is no difference."""
    other = {n.key.node for n in nodes if n.status is Status.STRUCT and not n.key.is_input and not n.key.is_operation}
    known = {n.key.node for n in nodes if n.status is not Status.STRUCT and not n.key.is_input}
    given = [n for n in nodes if n.status is Status.STRUCT and n.key.is_input and "." in n.key.path]
    return [n for n in given if _other_axes(n) or (_other_extents(n) and n.key.node in known - other)]


def _guessed_shapes(nodes: list[NodeResult]) -> list[NodeResult]:
    """Values of parts that were put together without a name and have other extents: no first difference as long as
    something that can be compared differs."""
    if not any(n.status is Status.OVER and not n.key.is_operation for n in nodes):
        return []
    inside = [n for n in nodes if n.status is Status.STRUCT and "." in n.key.path and not n.key.is_input]
    return [n for n in inside if n.how in GUESSED and n.shape != n.other_shape and not n.key.is_operation]


def _other_axes(node: NodeResult) -> bool:
    return node.other_shape is not None and len(squeezed(node.shape)) != len(squeezed(node.other_shape))


def _other_extents(node: NodeResult) -> bool:
    """True for two numbers in the place of one, and for complex ones in the place of real ones."""
    few, many = sorted(math.prod(shape) for shape in (node.shape, node.other_shape or node.shape))
    return (few > 0 and many in (2 * few, 4 * few)) or ("C64" in node.dtypes and len(set(node.dtypes)) > 1)


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)
