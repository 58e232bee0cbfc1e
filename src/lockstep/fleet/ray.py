"""Workers as actors of a Ray cluster; what they make and how it is counted is as on one machine.

Ray restarts nothing and retries nothing here: a row that is lost is the driver's to hand out again, so that the ledger
and the poison list are the same for every backend.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from typing import Any

from ..errors import MachineError
from .local import told_error
from .making import Maker, Setup
from .plan import PlannedRow
from .workers import Died, Event, Failed, Made, Ready

SECONDS_TO_ANSWER = 10.0


class RayWorkers:
    """One actor a worker, each with as many cores as it has threads."""

    def __init__(self, setup: Setup, count: int, address: str | None = None) -> None:
        heard = signal.getsignal(signal.SIGTERM)
        os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")  # which would abort at a SIGTERM
        try:
            import ray
        except ImportError:
            raise MachineError("This needs Ray: pip install 'lockstep-diffusion[ray]'.") from None
        self.ray, self.setup, self.count = ray, setup, count
        self._own = not ray.is_initialized()
        if self._own:
            connect(ray, address)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, heard)  # Ray's own would leave before the ledger is closed
        threads = {"OMP_NUM_THREADS": str(setup.threads or 1)}
        kind = ray.remote(num_cpus=setup.threads or 1, max_restarts=0, runtime_env={"env_vars": threads})
        self._actor = kind(Actor)
        self._actors: dict[int, Any] = {}
        self._calls: dict[Any, tuple[int, PlannedRow | None]] = {}

    def start(self, worker: int) -> None:
        self._actors[worker] = self._actor.remote()
        self._calls[self._actors[worker].load.remote(self.setup)] = worker, None

    def give(self, worker: int, row: PlannedRow) -> None:
        self._calls[self._actors[worker].make.remote(row)] = worker, row

    def events(self, seconds: float) -> list[Event]:
        if not self._calls:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait(list(self._calls), num_returns=1, timeout=seconds)
        more, _ = self.ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)
        found: list[Event] = []
        for call in sorted({*done, *more}, key=list(self._calls).index):
            found += self._answer(call)
        return found

    def _answer(self, call: Any) -> list[Event]:
        if call not in self._calls:
            return []  # of an actor that was told dead by another call
        worker, row = self._calls.pop(call)
        try:
            kind, told = self.ray.get(call)
        except (
            self.ray.exceptions.RayError
        ) as problem:  # errors of rows are answers: this is an actor or a node that is gone
            self.end(worker)  # one that cannot be reached may live, and hold its cores
            self._calls = {one: held for one, held in self._calls.items() if held[0] != worker}
            return [Died(worker, type(problem).__name__)]
        if kind == "ready":
            return [Ready(worker, told)]
        return [Made(worker, row, told)] if kind == "made" and row is not None else [Failed(worker, row, *told)]

    def end(self, worker: int) -> None:
        self.ray.kill(self._actors[worker])

    def close(self) -> None:
        for actor in self._actors.values():
            self.ray.kill(actor)
        if self._own:
            self.ray.shutdown()


def connect(ray: Any, address: str | None) -> None:
    """Join the cluster at an address, or begin one on this machine."""
    require_answer(address)
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    except (ConnectionError, ray.exceptions.RayError) as problem:
        reason = str(problem).strip().splitlines()[-1]
        raise MachineError(
            f"The Ray cluster{f' at {address}' if address else ''} took no connection: {reason}. `ray status` says "
            "whether it takes one of yours: it wants the token of its head (`ray get-auth-token` there) in "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token, unless all of it was started with RAY_AUTH_MODE=disabled."
        ) from None


def require_answer(address: str | None) -> None:
    """Refuse an address at which nothing listens; Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if not port.isdigit() or "/" in host:
        return  # a name that Ray resolves
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER).close()
    except OSError as problem:
        raise MachineError(f"No Ray cluster answers at {address}: {problem}. Start one: ray start --head.") from None


class Actor:
    """A maker in another process, perhaps of another machine; the folder has to be one that all of them see.

    Its calls are coroutines of one thread: while a file is awaited from the disk, the next row is computed.
    """

    async def load(self, setup: Setup) -> tuple[str, Any]:
        try:
            self.maker = Maker(setup)
            self.maker.check()
            return "ready", self.maker.shared()
        except Exception as problem:
            return "unable", told_error(problem)

    async def pid(self) -> int:
        return os.getpid()

    async def make(self, row: PlannedRow) -> tuple[str, Any]:
        try:
            return "made", await asyncio.wrap_future(self.maker.make(row))
        except Exception as problem:
            return "failed", told_error(problem)
