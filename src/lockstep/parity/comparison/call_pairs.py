"""Which call of a module is which: told by what goes in, since two right programs may call in another order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..trace.names import Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error

ALIKE = 1e-2  # relative: no two calls of one module are nearer by chance, and half precision is
MOST_CALLS = 64  # of one module inside one step, whose order is looked at

Order = dict[int, int | None]  # call of A -> call of B; None for a call that B does not make
Calls = dict[tuple[str, str], dict[int, list[Entry]]]  # step and path -> call -> what goes in


class CallPairs:
    """The candidate's call of each call of the reference: the one that is given the same.

    Where the values do not tell (they are wrong, or alike in every call) a part follows the model that it belongs to;
    where that says nothing either, calls are told apart by their number.
    """

    def __init__(self, a: Trace, b: Trace, modules: Mapping[str, tuple[str, str]] | None = None) -> None:
        self._a, self._b, self._modules = a, b, modules or {}
        self._of_a, self._of_b = _calls(a), _calls(b)
        self._known: dict[tuple[str, str, str], Order] = {}

    def partner(self, key: Key, other: str) -> int | None:
        """The number of B's call of `other` that is A's call of `key`; None if B does not make it."""
        return self._order(key.step, key.path.partition("/")[0], other.partition("/")[0]).get(key.call, key.call)

    def partner_of_b(self, key: Key, path: str) -> int:
        """The number of A's call of `path` that is B's call of `key`."""
        order = self._order(key.step, path, key.path.partition("/")[0])
        return next((mine for mine, theirs in order.items() if theirs == key.call), key.call)

    def _order(self, step: str, path: str, other: str) -> Order:
        place = (step, path, other)
        if place not in self._known:
            self._known[place] = {}  # while a model's order is asked for by its parts
            self._known[place] = self._found(step, path, other)
        return self._known[place]

    def _found(self, step: str, path: str, other: str) -> Order:
        """Nothing where calls are told apart by their number."""
        mine, theirs = self._of_a.get((step, path), {}), self._of_b.get((step, other), {})
        if not mine or not theirs or max(len(mine), len(theirs)) > MOST_CALLS or len(mine) == len(theirs) == 1:
            return {}
        alike = {call: [o for o in sorted(theirs) if self._alike(mine[call], theirs[o])] for call in sorted(mine)}
        told = all(len(found) == 1 for found in alike.values()) and len({f[0] for f in alike.values()}) == len(mine)
        inherited = {} if told else self._of_the_model(step, path, other, len(mine), len(theirs))
        if not told and len(mine) == len(theirs) and not any(alike.values()):
            return inherited
        return _chosen(alike, inherited, set(theirs))

    def _of_the_model(self, step: str, path: str, other: str, mine: int, theirs: int) -> Order:
        """The order of the calls of the whole model, each of which calls this part as often."""
        root = path.partition(".")[0]
        partner = self._modules.get(root, (other.partition(".")[0], ""))[0]
        if root == path:
            return {}
        order = self._order(step, root, partner)
        counts = len(self._of_a.get((step, root), ())), len(self._of_b.get((step, partner), ()))
        if not order or mine % counts[0] or theirs % counts[1] or mine // counts[0] != theirs // counts[1]:
            return {}
        each = mine // counts[0]
        found: Order = {}
        for call, partner_call in order.items():
            for i in range(each):
                found[call * each + i] = None if partner_call is None else partner_call * each + i
        return found

    def _alike(self, mine: list[Entry], theirs: list[Entry]) -> bool:
        """What can be compared of the two calls' arguments is the same."""
        pairs = [(x, y) for x, y in _by_slot(mine, theirs) if x.shape == y.shape]
        return bool(pairs) and all(
            sketch_error(self._a.sketch(x), self._b.sketch(y), self._a.stats(x).l2) <= ALIKE * x.is_float
            for x, y in pairs
        )


def _chosen(alike: dict[int, list[int]], inherited: Order, theirs: set[int]) -> Order:
    """Of the calls that are given the same, the model's; else the one of the same number, else the next."""
    found: Order = {}
    left, latest = set(theirs), -1
    for call, candidates in alike.items():
        free = [other for other in candidates if other in left]
        wanted = [inherited.get(call), call, *(o for o in free if o > latest), *free]
        other = next((o for o in wanted if o in free), None)
        if other is not None:
            found[call], latest = other, other
            left.discard(other)
    for call in alike:
        if call not in found:
            other = inherited.get(call, call)
            found[call] = other if other in left else None
            left.discard(other if other is not None else -1)
    return found


def _by_slot(mine: list[Entry], theirs: list[Entry]) -> list[tuple[Entry, Entry]]:
    """Arguments of the same name; in their order where the names are others."""
    named = {entry.key.slot: entry for entry in theirs}
    if all(entry.key.slot in named for entry in mine):
        return [(entry, named[entry.key.slot]) for entry in mine]
    return list(zip(mine, theirs, strict=False))


def _calls(trace: Trace) -> Calls:
    """What goes into every call of every module; where that was not written down, what comes out."""
    found: Calls = defaultdict(lambda: defaultdict(list))
    results: Calls = defaultdict(lambda: defaultdict(list))
    for entry in trace.entries:
        if not entry.key.is_operation and entry.key.slot not in ("rng", "param"):
            table = found if entry.key.is_input else results
            table[entry.key.step, entry.key.path][entry.key.call].append(entry)
    for place, calls in results.items():
        if place not in found:
            found[place] = calls
    return found
