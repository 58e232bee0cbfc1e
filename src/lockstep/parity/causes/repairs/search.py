"""Lines of the port written otherwise, likely ones first, until the whole run agrees."""

from __future__ import annotations

import ast
import io
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from enum import IntEnum
from itertools import combinations
from typing import Any

import torch

from ...comparison.results import Cause, Comparison, FailedHypothesis, Standing
from ..edits import Edit
from ..failures import noted
from ..limits import TooLong, limited
from ..live import Live
from ..whole_run import NEVER, OPEN, Closing, WholeRun
from .constants import constants_of
from .executed import KnownValues, LineWatch, RunLine
from .kept import kept
from .results import Wanted
from .rewrites import acts, rewrites_of
from .sources import Running, module_statement
from .spots import Rewrite
from .suspects import Files, Suspect, lines_of, reference_values, suspects_of

PAIRED, MOST_SMALL, PAIR_RANK = 8, 16, 3.5  # two small things of one line, behind everything else
SMALL = ("index_offset", "axes_swapped", "argument_order", "order_exchanged", "operand_order")
MOST_TRIED, MOST_PLAIN = 4000, 200  # of everything, and where something stands already
MOST_GONE = 3  # lines of a helper that was called too much
COST = 0.1  # of the evaluations that a whole run counts
MOST_SUSPECTS = 60
LATER, FIRST_PLACES, MUCH_LATER = 0.34, 6, 0.06  # ranks that a suspect comes behind the one before it
NEAR = 2e-2  # of the distance before: worth a comparison
CLOSE = 3e-5  # relative: what rounding may leave of a result
SLOWER, LEAST_SECONDS = 10.0, 1.0
CHECKED = 250  # runs after which the port is asked whether it still gives the same
MOST_ENDLESS, MOST_ENDLESS_RUNS = 2, 12  # of one statement, of all
COMPARED = 12  # rewrites that are compared whole


class Depth(IntEnum):
    """The last rank that is tried: little where something stands already."""

    PLAIN = 2  # one thing in the place of another
    WHOLE_TERMS = 3  # steps around a whole value, too
    EVERYTHING = 9


def repaired_line(
    search: Any, comparison: Comparison, evaluations: int, seen: Iterable[str] = (), depth: Depth = Depth.EVERYTHING
) -> Cause | None:
    """On the candidate's side: the line with which, written otherwise, the whole run agrees; None if none is found.

    `seen`: lines of the candidate (`port.py:12`) where something else was seen to be computed.
    """
    if not search.turned or search.across is None or search.live.call is None or comparison.first is None:
        return None
    found: Cause | None = None
    with noted(search.log, (), "the port's own lines"):
        found = _Repair(search, comparison, evaluations, seen, depth).found()
    return found


class _Repair:
    def __init__(
        self, search: Any, comparison: Comparison, evaluations: int, seen: Iterable[str], depth: Depth
    ) -> None:
        self.search, self.comparison, self.log = search, comparison, search.log
        self.seen, self.files = frozenset(seen), Files()
        self.wanted = Wanted(None)
        self.before = float("inf")
        self.seconds = LEAST_SECONDS
        self._running: dict[int, Running] = {}
        self._endless: Counter[int] = Counter()  # runs of a statement's rewrites that had to be ended
        self.called: dict[tuple[str, int], RunLine] = {}  # lines that run when the port is called
        self._left, self._count = float(evaluations), 0
        self._depth, self._most = depth, MOST_PLAIN if depth is Depth.PLAIN else MOST_TRIED
        self.constants = constants_of(search.across.live)

    def found(self) -> Cause | None:
        live = self.search.live
        with _quiet():
            began = time.perf_counter()
            mine = live.run(self.search.own)
            self.seconds = max(LEAST_SECONDS, SLOWER * (time.perf_counter() - began))
            self.wanted = Wanted(self.search.across.live.run(self.search.across.own))
            self.before = self.wanted.distance(mine)
            if not self.wanted.is_known or self.before <= CLOSE or not self._repeats():
                return None
            suspects = self._suspects()
        compared = 0
        files = {suspect.source.name for suspect in suspects}
        with kept((self.search, self.search.across), files, live.target) as before:
            for rewrite, suspect in self._rewrites(suspects):
                if self._is_late() or (self._count % CHECKED == CHECKED - 1 and not self._repeats()):
                    break
                if self._endless[id(rewrite.statement.node)] >= MOST_ENDLESS:
                    continue
                left = self._tried(rewrite, suspect)
                before.give_back()
                if left > max(CLOSE, NEAR * min(self.before, 1.0)) or compared >= COMPARED:
                    continue
                compared += 1
                if not self._still_runs(rewrite, suspect):
                    continue
                closing = self._compared(rewrite, suspect)
                if closing is not None and closing.closes:
                    return self._cause(rewrite, closing, left)
        return None

    def _repeats(self) -> bool:
        """False for a port that gives something else each time: nothing can be said of a line of it."""
        with _quiet():
            again = self.wanted.distance(self.search.live.run(self.search.own))
        return abs(again - self.before) <= CLOSE * max(1.0, self.before)

    def _is_late(self) -> bool:
        return (
            sum(self._endless.values()) >= MOST_ENDLESS_RUNS
            or self._left <= 0
            or self._count >= self._most
            or self.log.interrupted
        )

    def _suspects(self) -> list[Suspect]:
        search, live = self.search, self.search.live
        known = reference_values(search.across, self.constants.numbers)
        with _quiet():
            right = lines_of(search.across.live, search.across.own, KnownValues(), self.files)
            mine = lines_of(live, search.own, known, self.files)
        self.called = {key: line for key, line in mine.items() if not line.built}
        found = suspects_of(mine, set(right), self.files, self.seen)
        acting = next((suspect for suspect in found if acts(suspect.statement.node)), None)
        if acting is not None:  # a name or a number of its may come from any other line
            said = f"it does more than compute (`{acting.statement.text()}`), so no line was written otherwise"
            self.log.add(FailedHypothesis("the port's own lines", acting.statement.line, said, False, ""))
            return []
        return found[:MOST_SUSPECTS]

    def _rewrites(self, suspects: list[Suspect]) -> Iterator[tuple[Rewrite, Suspect]]:
        """Each text once, what porters do often and the likeliest lines first."""
        many: list[tuple[float, int, Rewrite, Suspect]] = []
        for place, suspect in enumerate(suspects):
            for rewrite in rewrites_of(suspect, self.constants, self._globals(suspect.statement.file) or {}):
                decides = isinstance(rewrite.statement.node, ast.If) and self._depth is not Depth.EVERYTHING
                if rewrite.rank > self._depth or decides:
                    continue
                many.append((rewrite.rank + _later(place), len(many), rewrite, suspect))
        for place, suspect in enumerate(suspects[: PAIRED if self._depth is Depth.EVERYTHING else 0]):
            small = [entry[2] for entry in many if entry[3] is suspect and entry[2].kind in SMALL][:MOST_SMALL]
            for one, other in combinations(small, 2):
                if both := one.beside(other):
                    many.append((PAIR_RANK + _later(place), len(many), both, suspect))
        tried: set[str] = set()
        for _, _, rewrite, suspect in sorted(many, key=lambda entry: entry[:2]):
            if rewrite.described() and rewrite.compiled not in tried:
                tried.add(rewrite.compiled)
                yield rewrite, suspect

    def _tried(self, rewrite: Rewrite, suspect: Suspect) -> float:
        """How far the result is from the reference's; infinite if there is none."""
        self.log.trying(rewrite.kind, rewrite.statement.line)
        self.log.runs += 1
        self._count += 1
        self._left -= COST * self.search.whole.cost
        result: Any = None
        try:
            with self._in_force(rewrite, suspect) as made, _quiet(), limited(self.seconds):
                result = made.run(self.search.own) if made is not None else None
            return self.wanted.distance(result) if result is not None else float("inf")
        except TooLong:
            self._endless[id(rewrite.statement.node)] += 1
            return float("inf")
        except (Exception, SystemExit):  # a line that makes no sense
            return float("inf")

    @contextmanager
    def _in_force(self, rewrite: Rewrite, suspect: Suspect) -> Iterator[Live | None]:
        """The port with the line written so; made again where the line runs while it is made."""
        search, statement = self.search, rewrite.statement
        running = self._runs(statement.top, statement.file)  # as the file is read
        with ExitStack() as stack:
            stack.enter_context(rewrite.applied())
            if statement.function is None and statement.owner is None:
                names = self._globals(statement.file)
                done = names is not None and stack.enter_context(
                    module_statement(statement.node, statement.file, names)
                )
            else:
                done = stack.enter_context(running.changed())
            if not done:
                yield None
                return
            if not suspect.built or search.live.build is None:
                yield search.live if not suspect.built else None
                return
            with _quiet(), limited(2 * self.seconds):
                live = search.live.again()
            live.rename(search.own)
            yield live

    def _runs(self, top: ast.stmt, file: str) -> Running:
        if id(top) not in self._running:
            self._running[id(top)] = Running(top, file)
        return self._running[id(top)]

    def _globals(self, file: str) -> dict[str, Any] | None:
        for running in self._running.values():
            if running.file == file and running.functions:
                return running.functions[0][0].__globals__
        source = self.files.read(file)
        for statement in source.statements if source is not None else ():
            if isinstance(statement.node, ast.FunctionDef) and statement.function is None and statement.owner is None:
                running = self._runs(statement.top, file)
                if running.functions:
                    return running.functions[0][0].__globals__
        return None

    def _still_runs(self, rewrite: Rewrite, suspect: Suspect) -> bool:
        """False if much of the port's code is not run any more: without it the reference's may be, which proves
        nothing of the line."""
        watch = LineWatch(KnownValues(), self.files.reads)
        try:
            with self._in_force(rewrite, suspect) as made, _quiet(), watch.watching():
                if made is not None:
                    made.run(self.search.own)
        except (Exception, SystemExit, TooLong):
            return False
        gone = [line for key, line in self.called.items() if key not in watch.lines]
        here = {line.code for line in self.called.values() if rewrite.statement.holds(line.file, line.number)}
        node = rewrite.statement.node
        branch = node.body[0] if isinstance(node, ast.If | ast.While) and rewrite.kind != "condition" else None
        if branch is not None and (gone or branch.lineno == node.lineno):  # it may not be taken any more
            return False
        elsewhere = [line for line in gone if line.code not in here]
        return len(elsewhere) <= (MOST_GONE if rewrite.kind == "extra_step" and not suspect.built else 0)

    def _compared(self, rewrite: Rewrite, suspect: Suspect) -> Closing | None:
        """The whole comparison with the line written so."""
        self.log.say(f"the whole run with {rewrite.after}")
        search, again = self.search, None
        try:
            with self._in_force(rewrite, suspect) as made, _quiet():
                if made is not None:
                    whole = WholeRun(
                        made, search.own, search.foreign, True, search.whole.floor, search.whole.map, self.log
                    )
                    whole.without = search.whole.without
                    again = whole.compared_again([])
        except (Exception, SystemExit, TooLong):
            return None
        if again is None:
            return None
        over = again.verdict in OPEN and again.first is not None
        return Closing(Edit(rewrite.kind, "", ()), again, again.first.order if over and again.first else NEVER)

    def _cause(self, rewrite: Rewrite, closing: Closing, left: float) -> Cause:
        node = self.comparison.first
        assert node is not None
        self.comparison.explained = closing.again
        line, before, after = rewrite.statement.line, rewrite.before, rewrite.after
        said = f"`{before}` at {line} in the candidate, where `{after}` belongs"
        if not before:
            said = f"`{after}` is missing at {line} in the candidate"
        elif not after:
            said = f"`{before}` at {line} in the candidate is too much"
        why = f"{said}: with that line written so the whole run of the candidate agrees"
        again = closing.again.node(str(node.key))
        ends = node.error, again.error if again is not None else None
        if ends[0] is None or ends[1] is None or ends[1] > node.tau:  # another way to the same result begins there
            ends = self.before, left
        change = f"`{after}`, not `{before}`" if before and after else said
        evidence = {
            "accepted": True, "line": line, "before": before, "after": after, "rank": rewrite.rank,
            "with it": closing.again.sentence(), "runs": self.search.runs + self.log.runs,
        }  # fmt: skip
        return Cause(
            rewrite.kind, why, str(node.key), ends[0] or self.before, left if ends[1] is None else ends[1], node.floor,
            f"in the port at {line}: {change}", evidence, Standing.PROVEN,
        )  # fmt: skip


def _later(place: int) -> float:
    """Ranks by which the suspect at this place comes later than the first."""
    return LATER * min(place, FIRST_PLACES) + MUCH_LATER * max(0, place - FIRST_PLACES)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), torch.no_grad(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
