"""What a part is handed in another form than the reference's: no difference where all that the part makes of it is
right, such as an activation that the candidate applies before the part instead of inside of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..trace.reader import Entry, Trace
from .align import Pair
from .results import NodeResult

DEEPEST = 6  # steps from what is handed in to what was compared
MOST_USES = 64


def prepared_outside(a: Trace, pairs: list[Pair], nodes: list[NodeResult]) -> set[int]:
    """The numbers of the reference's inputs whose every use inside of the part leads to values that are right."""
    bad = {pair.a.seq: node.bad for pair, node in zip(pairs, nodes, strict=True)}
    suspects = [
        pair.a for pair, node in zip(pairs, nodes, strict=True)
        if node.bad and pair.how != "map" and pair.a.key.is_input and "." in pair.a.key.path
    ]  # fmt: skip
    return {entry.seq for entry in _Uses(a, bad).all_right(suspects)} if suspects else set()


class _Uses:
    """The values of a trace by what they are made of."""

    def __init__(self, trace: Trace, bad: Mapping[int, bool]) -> None:
        self._bad = bad
        self._takers: dict[int, list[Entry]] = defaultdict(list)
        self._results: dict[tuple[str, str, int], list[Entry]] = defaultdict(list)
        self._containers = {path.rpartition(".")[0] for path in {e.key.path for e in trace.entries}}
        self._ends: dict[tuple[str, str, int], int] = {}
        for entry in trace.entries:
            for seq in {*entry.deps, *([entry.same] if entry.same is not None else [])}:
                self._takers[seq].append(entry)
            if not entry.key.is_input and not entry.key.is_operation:
                self._results[entry.key.node].append(entry)
                self._ends[entry.key.node] = entry.seq

    def all_right(self, suspects: list[Entry]) -> list[Entry]:
        found = []
        for entry in suspects:
            if entry.key.path in self._containers:
                ended = self._ends.get(entry.key.node, entry.seq)
                known = self._leads(entry, entry.key.path, entry.seq, ended, DEEPEST)
                if known and all(known):
                    found.append(entry)
        return found

    def _leads(self, value: Entry, inside: str, begun: int, ended: int, left: int) -> list[bool]:
        """Whether each compared value that a value leads to inside of a part is right; False where it is not known."""
        tensor = value.seq if value.same is None else value.same
        below = (f"{inside}.", f"{inside}/")
        uses = [e for e in self._takers[tensor] if begun < e.seq < ended and e.key.path.startswith(below)]
        found: list[bool] = []
        for use in uses[:MOST_USES]:
            compared = use.seq in self._bad
            if compared and not self._bad[use.seq]:
                found.append(True)
            elif use.key.is_input and use.key.path in self._containers and use.same == tensor:
                continue  # handed on: its uses are among these
            elif compared and not use.key.is_operation:
                found.append(False)
            elif left:
                results = self._results[use.key.node] if use.key.is_input else [use]
                for result in results:
                    known = [not self._bad[result.seq]] if self._is_compared(result, use) else []
                    found += known or self._leads(result, inside, begun, ended, left - 1)
            else:
                found.append(False)
        return found

    def _is_compared(self, result: Entry, use: Entry) -> bool:
        return result is not use and result.seq in self._bad
