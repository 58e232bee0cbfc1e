"""Keeps a worker alive and busy: starts it, hands it batches, hears from it, and replaces it when it dies or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ..errors import LockstepError
from .hub import Hub
from .problems import Problem
from .queue import Job, Queue
from .results import DataFolder
from .settings import Settings
from .wishes import Catalogue

T = TypeVar("T")
LINE = 64 * 2**20  # bytes of one message
LONG_QUEUE = 4  # batches that wait: then a batch is twice as large
TICK = 0.25
log = logging.getLogger("lockstep.serve")

DIED = {
    "status": 500,
    "code": "worker_died",
    "message": "The process that computes died under this job, more than once.",
}
LATE = {"status": 504, "code": "deadline", "message": "The job took longer than its deadline allows."}


class Database:
    """The one thread that the queue is used on; the loop never waits for a disk."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="queue")

    async def __call__(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **options))

    def close(self) -> None:
        self._thread.shutdown()


class Supervisor:
    """The worker as the web process sees it."""

    def __init__(self, settings: Settings, queue: Queue, folder: DataFolder, hub: Hub, database: Database) -> None:
        self.settings, self.queue, self.folder, self.hub, self.database = settings, queue, folder, hub, database
        self.catalogue: Catalogue | None = None
        self.unable: str | None = None  # why no worker can start
        self.running: dict[str, Job] = {}
        self.loaded: dict[str, int] = {}
        self.restarts, self.batches, self.batched_rows = 0, 0, 0
        self.seconds_per_cost = 1e-6
        self.ready = asyncio.Event()
        self._idle, self._wake = asyncio.Event(), asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._heard = 0.0
        self._overdue: set[str] = set()
        self._watched: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        hub.watch_changed = self._tell_watched

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        self._tasks = [asyncio.create_task(self._keep_alive()), asyncio.create_task(self._clock())]

    async def stop(self) -> None:
        """The worker ends with its input; what it was at is taken up by the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._end_worker()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    async def wait(self, seconds: float) -> Catalogue:
        """What the worker can do, as soon as it has said so."""
        with contextlib.suppress(TimeoutError):
            if self.catalogue is None:
                await asyncio.wait_for(self.ready.wait(), seconds)
        if self.catalogue is None:
            raise Problem(503, "unavailable", self.unable or "The server is starting.", retry_after=2)
        return self.catalogue

    # ---- stopping jobs ----

    async def cancel(self, job: str) -> Job:
        """A waiting job at once, a running one at its next step."""
        found = await self.database(self.queue.cancel, job)
        if found.state == "running":
            self._send({"do": "cancel", "job": job})
        return found

    async def shorten(self, job: str) -> Job:
        """A running job ends its loop now and gives what there is; a waiting one is cancelled."""
        found = await self.database(self.queue.cancel, job)
        if found.state == "running":
            self._send({"do": "shorten", "job": job})
        return found

    # ---- the worker's life ----

    async def _keep_alive(self) -> None:
        quick_deaths = 0
        while True:
            began = time.monotonic()
            try:
                await self._one_life()
            except (OSError, ValueError, KeyError, TimeoutError) as problem:
                log.error("worker: %s: %s", type(problem).__name__, problem)
            await self._end_worker()
            await self._release_all()
            self.restarts += 1
            quick_deaths = quick_deaths + 1 if time.monotonic() - began < 10 else 0
            await asyncio.sleep(min(0.05 * 2**quick_deaths, 10.0))

    async def _one_life(self) -> None:
        await self._spawn()
        first = await asyncio.wait_for(self._hear(), self.settings.start)
        if first is None or first["tell"] != "ready":
            self.unable = None if first is None else f"No worker can start: {first.get('message')}"
            raise OSError(self.unable or "it died before it was ready")
        self._take_catalogue(first)
        self._idle.set()
        self._tell_watched()
        feeding = asyncio.create_task(self._feed())
        try:
            while (message := await self._hear()) is not None:
                await self._obey(message)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _spawn(self) -> None:
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONUNBUFFERED": "1"}
        environment.pop("LOCKSTEP_TOKEN", None)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "lockstep.serve.worker", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=LINE, env=environment,
        )  # fmt: skip
        given = self.settings
        self._send(
            {
                "inputs": str(self.folder.inputs),
                "most_rows": given.batch * 2,
                "models": dict(given.models),
                "controlnets": dict(given.controlnets),
                "loras": dict(given.loras),
                "budget": given.memory,
                "device": given.device,
                "dtype": given.dtype,
            }
        )

    def _take_catalogue(self, told: dict[str, Any]) -> None:
        given = self.settings
        self.catalogue = Catalogue(
            told["models"], told["schedulers"], told["guiders"], list(given.loras), list(given.controlnets)
        )
        self.unable = None
        self.loaded = {}
        self.ready.set()

    async def _end_worker(self) -> None:
        process, self._process = self._process, None
        self._idle.clear()
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # it has nothing that would have to be written: files count when the row does
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()

    async def _release_all(self) -> None:
        """The jobs of a worker that is gone wait again, or are given up."""
        for job in list(self.running.values()):
            await self.database(self._release, job)
        self.running.clear()
        self.wake()

    def _release(self, job: Job) -> None:
        self.folder.forget_work(job.id, job.attempt)
        self.queue.release(job.id, job.attempt, DIED)

    async def _hear(self) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        self._heard = time.monotonic()
        return json.loads(line) if line.endswith(b"\n") else None

    def _send(self, message: dict[str, Any]) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(json.dumps(message).encode() + b"\n")

    def _tell_watched(self) -> None:
        self._watched = self.hub.watched(set(self.running))
        self._send({"do": "watch", "jobs": self._watched})

    # ---- batches ----

    async def _feed(self) -> None:
        """Give the worker the next batch whenever it has none."""
        while True:
            await self._idle.wait()
            jobs = await self.database(self.queue.claim, self.settings.batch, LONG_QUEUE * self.settings.batch)
            if not jobs:
                self._wake.clear()
                if not (await self.database(self.queue.counts)).get("queued"):
                    await self._wake.wait()
                    await asyncio.sleep(self.settings.gather)  # company may be on its way
                continue
            self._idle.clear()
            self.running = {job.id: job for job in jobs}
            self._heard = time.monotonic()
            self.batches, self.batched_rows = self.batches + 1, self.batched_rows + sum(job.rows for job in jobs)
            batch = [
                {"job": job.id, "attempt": job.attempt, "request": job.request,
                 "place": str(self.folder.place_for(job.id, job.attempt))}
                for job in jobs
            ]  # fmt: skip
            self._send({"do": "run", "batch": batch})
            self._tell_watched()

    async def _obey(self, message: dict[str, Any]) -> None:
        """What the worker tells, where it belongs."""
        what = message["tell"]
        if what == "idle":
            self._learn()
            self.running.clear()
            self._idle.set()
        elif what == "loaded":
            self.loaded = message["models"]
        elif what in ("step", "block", "preview"):
            self.hub.passing(message)
        elif what in ("done", "failed", "cancelled"):
            job = self.running.get(message["job"])
            if job is not None and job.attempt == message["attempt"]:
                await self.database(self._conclude, job, message)
                self._overdue.discard(job.id)

    def _conclude(self, job: Job, message: dict[str, Any]) -> None:
        """Files first, the row last."""
        if message["tell"] == "done":
            try:
                outputs = self.folder.take(job.id, job.attempt, message["outputs"])
            except (LockstepError, OSError) as problem:
                log.error("job %s: %s", job.id, problem)
                lost = {"status": 500, "code": "internal", "message": "The result could not be stored."}
                self.queue.fail(job.id, job.attempt, lost)
                return
            self.queue.finish(job.id, job.attempt, outputs, message["result"])
            return
        self.folder.forget_work(job.id, job.attempt)
        if message["tell"] == "failed":
            self.queue.fail(job.id, job.attempt, message["error"])
        elif job.id in self._overdue:
            self.queue.fail(job.id, job.attempt, LATE)
        else:
            self.queue.cancelled(job.id, job.attempt)

    def _learn(self) -> None:
        """How long work takes here, for those who are told to come again."""
        work, began = (
            sum(job.cost for job in self.running.values()),
            [job.started or 0 for job in self.running.values()],
        )
        if work and began:
            self.seconds_per_cost = 0.7 * self.seconds_per_cost + 0.3 * (time.time() - min(began)) / work

    async def seconds_ahead(self) -> float:
        """When what waits now will be done, at a guess."""
        return self.seconds_per_cost * await self.database(self.queue.work_ahead)

    async def _clock(self) -> None:
        """Ends what hangs, and jobs that are over their time."""
        while True:
            await asyncio.sleep(TICK)
            now = time.time()
            if self.hub.watched(set(self.running)) != self._watched:  # somebody has looked away
                self._tell_watched()
            for job in list(self.running.values()):
                if job.deadline is not None and job.deadline < now and job.id not in self._overdue:
                    self._overdue.add(job.id)
                    self._send({"do": "cancel", "job": job.id})
            if self.running and time.monotonic() - self._heard > self.settings.stall and self._process is not None:
                log.error("worker: no sign of life for %s seconds", self.settings.stall)
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
