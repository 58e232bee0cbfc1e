"""The driver: hands rows to workers, takes them back from the dead, and keeps the ledger.

Execution is at least once, the effect exactly once: a file is named by its key and takes its name when it is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError, MachineError, WriteError
from ..files import writing
from .plan import NAME, Plan, PlannedRow
from .rows import Row
from .workers import Died, Event, Failed, Made, Ready, Workers

LEDGER, LOCK = "ledger.jsonl", ".lock"
WINDOW = 3  # rows at a worker: one on its way to the disk, one that it makes, one that waits there
LOOK = 0.5  # seconds between two looks at workers from which nothing comes
NO_ROOM = ("No space left on device", "Disk quota exceeded")  # then no row can be made, and none is tried
BREAK = 0.2  # seconds before a worker that died is started again
SYNC = 1.0  # seconds of the ledger that a power cut may take; the files themselves are on the disk before they count


@dataclass
class Tally:
    """How a batch went."""

    rows: int = 0
    there: int = 0  # files that were there before
    made: int = 0
    failed: dict[int, str] = field(default_factory=dict)  # row -> why
    damaged: list[str] = field(default_factory=list)  # files of another size than was written: made again
    deaths: int = 0
    loading: float = 0.0  # seconds until the first worker was ready …
    seconds: float = 0.0  # … of all that it took

    @property
    def rate(self) -> float:
        """Files a second, once a worker was ready."""
        return self.made / max(self.seconds - self.loading, 1e-9)


class Ledger:
    """What was made, by whom and in how long: one line a file, on the disk once a second.

    It is a record of what the folder holds: a file without a line is as good as any other.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER
        _end_line(self.path)
        self._file = self.path.open("a", encoding="utf-8")
        self._synced = time.monotonic()

    def write(self, **told: Any) -> None:
        self._file.write(f"{json.dumps(told)}\n")
        self._file.flush()
        if time.monotonic() - self._synced > SYNC:
            self._sync()

    def _sync(self) -> None:
        os.fsync(self._file.fileno())
        self._synced = time.monotonic()

    def close(self) -> None:
        self._sync()
        self._file.close()

    @staticmethod
    def read(folder: Path) -> list[dict[str, Any]]:
        """Every whole line; one that a death cut off says nothing."""
        path = folder / LEDGER
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                found += [entry] if isinstance(entry, dict) and "key" in entry else []
        return found


def _end_line(path: Path) -> None:
    """After a line that was cut off, the next begins on its own."""
    if path.is_file() and (data := path.read_bytes()) and not data.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder for one driver alone; the system lets go of it even after kill -9."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("w")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"Another batch is at work in {folder}. Wait for it, or choose another folder.") from None
        yield


def require_own(folder: Path, rows: Sequence[Row], suffix: str, known: Mapping[str, Any]) -> Plan | None:
    """The plan that a folder was begun with; one that belongs to something else is refused before a model is loaded."""
    plan = Plan.read(folder)
    if plan is not None:
        plan.require_rows(rows, suffix, folder)
        plan.require_settings(known, folder)
        return plan
    strange = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".") and path.name != LEDGER)
    if strange:
        raise InputError(f"{folder} holds other files ({strange[0]} …) and no {NAME}. A batch has a folder of its own.")
    return None


def looked_at(folder: Path, plan: Plan) -> tuple[set[str], list[str]]:
    """The planned files that are there; and those that have another size than the ledger says, which count as none."""
    sizes: dict[str, set[int]] = {}
    for entry in Ledger.read(folder):
        if "bytes" in entry:
            sizes.setdefault(entry["key"], set()).add(entry["bytes"])
    there, damaged = set(), []
    for name, row in plan.files.items():
        try:
            size = (folder / name).stat().st_size
        except OSError:
            continue
        if size in sizes.get(row.key, {size}):
            there.add(name)
        else:
            damaged.append(name)
    return there, damaged


class Driver:
    """One run of a batch, from what is there to what is planned."""

    def __init__(
        self,
        workers: Workers,
        folder: Path,
        plan: Callable[[dict[str, Any]], Plan],
        *,
        attempts: int = 3,
        stall: float = 600.0,
        tell: Callable[[Tally], None] = lambda report: None,
    ) -> None:
        self.workers, self.folder, self._plan_from = workers, folder, plan
        self.attempts, self.stall, self.tell = attempts, stall, tell
        self.report = Tally()
        self._plan: Plan | None = None
        self._waiting: deque[PlannedRow] = deque()
        self._held: dict[int, list[PlannedRow]] = {worker: [] for worker in range(workers.count)}
        self._heard: dict[int, float] = {}
        self._ready: set[int] = set()
        self._tries: dict[int, int] = {}
        self._starts: dict[int, int] = dict.fromkeys(range(workers.count), 0)
        self._began = 0.0

    def run(self) -> Tally:
        """Until every row has its file or its reason; what was made stays, however this ends."""
        self._began = time.monotonic()
        ledger = Ledger(self.folder)
        try:
            for worker in range(self.workers.count):
                self._start(worker)
            while self._plan is None or self._waiting or any(self._held.values()):
                for event in self.workers.events(LOOK):
                    self._take(event, ledger)
                self._hand_out()
                self._end_the_stalled()
        finally:
            self.workers.close()
            ledger.close()
            self.report.seconds = time.monotonic() - self._began
        return self.report

    def _start(self, worker: int) -> None:
        self._starts[worker] += 1
        self._heard[worker] = time.monotonic()
        self.workers.start(worker)

    def _take(self, event: Event, ledger: Ledger) -> None:
        self._heard[event.worker] = time.monotonic()
        match event:
            case Ready(worker, shared):
                self._agree(worker, shared)
            case Made(worker, row, told):
                self._held[worker].remove(row)
                self._starts[worker] = 0
                attempt, now = self._tries.get(row.number, 0) + 1, round(time.time(), 3)
                ledger.write(row=row.number, worker=worker, attempt=attempt, time=now, **told)
                self.report.made += 1
            case Failed(worker, None, error, lasting):
                raise (InputError if lasting else MachineError)(f"No worker can begin: {error}")
            case Failed(worker, row, error, lasting) if row is not None:
                self._held[worker].remove(row)
                self._try_again(row, error, lasting, ledger)
            case Died(worker, why):
                self._bury(worker, why, ledger)
        self.tell(self.report)

    def _agree(self, worker: int, shared: dict[str, Any]) -> None:
        """The first worker says what the plan is made from; every other one has to say the same."""
        self._ready.add(worker)
        if self._plan is None:
            self._plan = self._plan_from(shared)
            self.report.loading = time.monotonic() - self._began
            there, self.report.damaged = looked_at(self.folder, self._plan)
            self.report.rows, self.report.there = len(self._plan.files), len(there)
            self._waiting.extend(row for name, row in self._plan.files.items() if name not in there)
        elif shared != self._plan.shared:
            names = [name for name in shared if shared[name] != self._plan.shared.get(name)]
            raise MachineError(
                f"Worker {worker} has other {', '.join(names)} than the rest: its files would not be the same. Give "
                "all of them the same model and the same versions."
            )

    def _hand_out(self) -> None:
        for worker in sorted(self._ready, key=lambda one: len(self._held[one])):
            while self._waiting and len(self._held[worker]) < WINDOW:
                row = self._waiting.popleft()
                self._held[worker].append(row)
                self.workers.give(worker, row)

    def _bury(self, worker: int, why: str, ledger: Ledger) -> None:
        """What a dead worker held goes to the others; the first that has no file is what it may have died of."""
        self.report.deaths += 1
        held, self._held[worker] = self._held[worker], []
        was_ready = worker in self._ready
        self._ready.discard(worker)
        at = next((row for row in held if not (self.folder / row.file).exists()), None)
        self._waiting.extendleft(row for row in reversed(held) if row is not at)
        if at is not None:
            self._try_again(at, f"the worker died ({why})", False, ledger)
        if not was_ready and self._starts[worker] >= self.attempts:
            del self._heard[worker]  # given up; the others go on without it
            if not self._heard:
                raise MachineError(f"Worker {worker} died {self._starts[worker]} times before it was ready ({why}).")
            return
        time.sleep(BREAK)
        self._start(worker)

    def _try_again(self, row: PlannedRow, error: str, lasting: bool, ledger: Ledger) -> None:
        if any(words in error for words in NO_ROOM):
            raise WriteError(
                f"There is no room for the file of row {row.number + 1} in {self.folder}: {error}. Make room and run "
                "the same command again: it makes what is missing."
            )
        self._tries[row.number] = self._tries.get(row.number, 0) + 1
        if lasting or self._tries[row.number] >= self.attempts:
            self.report.failed[row.number] = error
            ledger.write(row=row.number, key=row.key, failed=error, attempt=self._tries[row.number])
        else:
            self._waiting.append(row)  # behind the others: a row that kills its worker does not stop the rest

    def _end_the_stalled(self) -> None:
        now = time.monotonic()
        for worker, heard in self._heard.items():
            if now - heard > self.stall and (self._held[worker] or worker not in self._ready):
                self._heard[worker] = now
                self.workers.end(worker)
