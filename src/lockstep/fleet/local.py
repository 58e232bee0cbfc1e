"""Workers as processes of this machine: the reference that every other kind has to equal, file by file."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import signal
import threading
import traceback
from concurrent.futures import Future
from multiprocessing.connection import Connection, wait
from typing import Any

from ..errors import LockstepError
from .making import Maker, Setup
from .plan import PlannedRow
from .workers import Died, Event, Failed, Made, Ready


class LocalWorkers:
    """One process a worker, which dies with this one."""

    def __init__(self, setup: Setup, count: int) -> None:
        self.setup, self.count = setup, count
        self._context = multiprocessing.get_context("spawn")
        self._processes: dict[int, Any] = {}
        self._lines: dict[int, Connection] = {}
        self._rows: dict[int, dict[int, PlannedRow]] = {}

    def start(self, worker: int) -> None:
        here, there = self._context.Pipe()
        process = self._context.Process(target=work, args=(there, self.setup), name=f"worker {worker}", daemon=True)
        process.start()
        there.close()
        self._processes[worker], self._lines[worker], self._rows[worker] = process, here, {}

    def give(self, worker: int, row: PlannedRow) -> None:
        self._rows[worker][row.number] = row
        with contextlib.suppress(OSError):  # dead: the next look at the events tells it
            self._lines[worker].send(row)

    def events(self, seconds: float) -> list[Event]:
        ready = set(wait([*self._lines.values(), *(one.sentinel for one in self._processes.values())], seconds))
        found: list[Event] = []
        for worker, line in list(self._lines.items()):
            dead = self._processes[worker].sentinel in ready
            if line in ready or dead:  # what a dead one has said still counts
                found += self._heard(worker, line)
            if dead:
                found.append(self._buried(worker))
        return found

    def _heard(self, worker: int, line: Connection) -> list[Event]:
        found: list[Event] = []
        try:
            while line.poll():
                kind, number, told = line.recv()
                if kind == "ready":
                    found.append(Ready(worker, told))
                elif kind == "unable":
                    found.append(Failed(worker, None, *told))
                else:
                    row = self._rows[worker].pop(number)
                    found.append(Made(worker, row, told) if kind == "made" else Failed(worker, row, *told))
        except (EOFError, OSError):
            pass
        return found

    def _buried(self, worker: int) -> Died:
        process = self._processes.pop(worker)
        process.join()
        self._lines.pop(worker).close()
        code = process.exitcode
        return Died(worker, signal.Signals(-code).name if code < 0 else f"exit code {code}")

    def end(self, worker: int) -> None:
        self._processes[worker].kill()

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()


def work(line: Connection, setup: Setup) -> None:
    """A worker's life: load, then one row after the other until nobody is there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the driver's to hear
    one_at_a_time = threading.Lock()

    def tell(kind: str, number: int | None, told: Any) -> None:
        with one_at_a_time, contextlib.suppress(OSError):  # a driver that is gone needs no answer
            line.send((kind, number, told))

    def tell_written(number: int, written: Future[dict[str, Any]]) -> None:
        problem = written.exception()
        if isinstance(problem, Exception):
            tell("failed", number, told_error(problem))
        else:
            tell("made", number, written.result())

    try:
        maker = Maker(setup)
        maker.check()
        tell("ready", None, maker.shared())
    except Exception as problem:
        tell("unable", None, told_error(problem))
        return
    while True:
        try:
            row = line.recv()
        except (EOFError, OSError):
            return
        try:
            maker.make(row).add_done_callback(functools.partial(tell_written, row.number))
        except Exception as problem:
            tell("failed", row.number, told_error(problem))


def told_error(problem: Exception) -> tuple[str, bool]:
    """An error for people, and whether another try would end the same way: what Lockstep refuses, it refuses again."""
    if isinstance(problem, LockstepError):
        return str(problem), True
    return "".join(traceback.format_exception_only(problem)).strip(), False
