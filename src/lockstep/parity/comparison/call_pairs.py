"""Which call of a module is which, where one side calls it more often: told by what goes in."""

from __future__ import annotations

from collections import defaultdict

from ..trace.names import Key
from ..trace.reader import Entry, Trace
from ..trace.sketch import sketch_error

ALIKE = 1e-2  # relative: no two calls of one module are nearer by chance, and half precision is


class CallPairs:
    """The candidate's call of each call of the reference: by number, or by values where the numbers of calls differ."""

    def __init__(self, a: Trace, b: Trace) -> None:
        self._a, self._b = a, b
        self._of_a, self._of_b = _calls(a), _calls(b)
        self._known: dict[tuple[str, str, str], dict[int, int | None]] = {}

    def partner(self, key: Key, other: str) -> int | None:
        """The number of B's call of `other` that is A's call of `key`; None if B does not make it."""
        module, partner = key.path.partition("/")[0], other.partition("/")[0]
        place = (key.step, module, partner)
        if place not in self._known:
            mine, theirs = self._of_a[key.step, module], self._of_b[key.step, partner]
            differ = mine.keys() != theirs.keys() and len(mine) * len(theirs) > 0
            self._known[place] = self._by_values(mine, theirs) if differ else {}
        return self._known[place].get(key.call, key.call)

    def _by_values(self, mine: dict[int, list[Entry]], theirs: dict[int, list[Entry]]) -> dict[int, int | None]:
        """In order, each call beside the first one that is given the same; by its number if none is."""
        found: dict[int, int | None] = {}
        begin = 0
        for call in sorted(mine):
            rest = [other for other in sorted(theirs) if other >= begin]
            alike = next((other for other in rest if self._alike(mine[call], theirs[other])), None)
            if alike is not None:
                found[call], begin = alike, alike + 1
        taken = set(found.values())
        return {**{call: call if call not in taken else None for call in mine}, **found}

    def _alike(self, mine: list[Entry], theirs: list[Entry]) -> bool:
        pairs = list(zip(mine, theirs, strict=False))
        return bool(pairs) and all(
            x.shape == y.shape and sketch_error(self._a.sketch(x), self._b.sketch(y), self._a.stats(x).l2) <= ALIKE
            for x, y in pairs
        )


def _calls(trace: Trace) -> dict[tuple[str, str], dict[int, list[Entry]]]:
    """What goes into every call of every module, by step and path."""
    found: dict[tuple[str, str], dict[int, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entry in trace.entries:
        if entry.key.is_input and not entry.key.is_operation:
            found[entry.key.step, entry.key.path][entry.key.call].append(entry)
    return found
