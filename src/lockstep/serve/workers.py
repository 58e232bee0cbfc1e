"""One worker as the web process sees it: started, fed, heard, and replaced when it dies or hangs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import LockstepError
from .database import Database
from .hub import Hub
from .problems import NO_ROOM, of_storage
from .queue import Job, Queue
from .results import DataFolder
from .settings import Settings

LINE = 64 * 2**20  # bytes of one message
LONG_QUEUE = 4  # batches that wait: then a batch is twice as large
log = logging.getLogger("lockstep.serve")

DIED = {"status": 500, "code": "worker_died", "message": "The process that computes died under this job, repeatedly."}
LATE = {"status": 504, "code": "deadline", "message": "The job took longer than its deadline allows."}
LOST = {"status": 500, "code": "internal", "message": "The result could not be stored."}


@dataclass
class Shop:
    """What all workers share."""

    settings: Settings
    queue: Queue
    folder: DataFolder
    hub: Hub
    database: Database
    ready: Callable[[dict[str, Any]], None]  # what a worker says of the models
    unable: Callable[[str], None]  # why a worker cannot start
    ended: Callable[[list[Job]], None]  # a batch is over
    wake: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def wait_for_work(self) -> None:
        """Until something waits: told by whoever puts it there."""
        async with self.wake:
            await self.wake.wait_for(lambda: "queued" in self.hub.open.values())


class WorkerProcess:
    """A process and its pipe; the jobs that it is at."""

    def __init__(self, shop: Shop, device: str | None) -> None:
        self.shop, self.device = shop, device
        self.running: dict[str, Job] = {}
        self.loaded: dict[str, int] = {}
        self.restarts, self.batches, self.rows = 0, 0, 0
        self.is_ready = False
        self._idle = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._claiming: asyncio.Future[list[Job]] | None = None
        self._heard = 0.0
        self._overdue: set[str] = set()
        self._stops: dict[str, str] = {}  # job -> `cancel` or `shorten`
        self._watched: list[str] = []

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def stop_job(self, how: str, job: str) -> None:
        """`cancel` or `shorten` one of its jobs, or one that it is being given just now."""
        if job in self.running or self._claiming is not None:
            self._stops[job] = how
        if job in self.running:
            self._send({"do": how, "job": job})

    def check(self) -> None:
        """Now and again: ends what hangs, and jobs that are over their time; tells who is watched."""
        if self.shop.hub.watched(set(self.running)) != self._watched:  # somebody has looked away
            self.tell_watched()
        for job in list(self.running.values()):
            if job.deadline is not None and job.deadline < time.time() and job.id not in self._overdue:
                self._overdue.add(job.id)
                self._send({"do": "cancel", "job": job.id})
        stall = self.shop.settings.stall
        if not self.shop.database.room.is_set():
            self._heard = time.monotonic()  # who waits for the disk is not heard, and does not hang
        if self.running and time.monotonic() - self._heard > stall and self.is_ready:
            log.error("worker: no sign of life for %s seconds", stall)
            self._heard = time.monotonic()
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    # ---- its lives ----

    async def keep_alive(self) -> None:
        """One life after the other, with longer pauses where they are short."""
        quick_deaths = 0
        while True:
            began = time.monotonic()
            for part in (self._one_life, self.end, self._release_all):  # nothing that one of them meets ends the lives
                try:
                    await part()
                except (OSError, ValueError, KeyError, TimeoutError) as problem:
                    log.error("worker: %s: %s", type(problem).__name__, problem)
                except Exception:
                    log.exception("worker: an error of the server's own")
            self.restarts += 1
            quick_deaths = quick_deaths + 1 if time.monotonic() - began < 10 else 0
            await asyncio.sleep(min(0.05 * 2**quick_deaths, 10.0))

    async def _one_life(self) -> None:
        await self._spawn()
        first = await asyncio.wait_for(self._hear(), self.shop.settings.start)
        if first is None or first["tell"] != "ready":
            reason = "it died before it was ready" if first is None else str(first.get("message"))
            self.shop.unable(reason)
            raise OSError(reason)
        self.shop.ready(first)
        self.loaded, self.is_ready = {}, True
        self._idle.set()
        self.tell_watched()
        tasks = [asyncio.create_task(work) for work in (self._feed(), self._listen())]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()  # whichever failed, its error is told
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _spawn(self) -> None:
        environment = {"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONUNBUFFERED": "1"}
        environment.pop("LOCKSTEP_TOKEN", None)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "lockstep.serve.worker", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, limit=LINE, env=environment,
        )  # fmt: skip
        self._send(worker_settings(self.shop.settings, self.shop.folder, self.device))

    async def introduction(self) -> dict[str, Any] | None:
        """What there is, told by a process that ends after it; None where it cannot say so."""
        try:
            await self._spawn()
            told = await asyncio.wait_for(self._hear(), self.shop.settings.start)
        except (OSError, ValueError, TimeoutError):
            told = None
        finally:
            await self.end()
        return told if told is not None and told["tell"] == "ready" else None

    async def end(self) -> None:
        """It has nothing that would have to be written: files count when the row does."""
        process, self._process = self._process, None
        self.is_ready = False
        self._idle.clear()
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()

    async def _release_all(self) -> None:
        """The jobs of a worker that is gone wait again, or are given up; what it never saw is no fault of its."""
        patiently, release = self.shop.database.patiently, self.shop.queue.release
        claiming, self._claiming = self._claiming, None
        if claiming is not None:
            for job in await claiming:
                await patiently(release, job.id, job.attempt)
        for job in list(self.running.values()):
            await asyncio.to_thread(self.shop.folder.forget_work, job.id, job.attempt)
            await patiently(release, job.id, job.attempt, self._fault())
        self.running.clear()
        self._stops.clear()

    def _fault(self) -> dict[str, Any] | None:
        """What its death counts as against the jobs that it was at."""
        return DIED

    # ---- the pipe ----

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

    async def _listen(self) -> None:
        """Until it is gone."""
        while (message := await self._hear()) is not None:
            await self._obey(message)

    def tell_watched(self) -> None:
        self._watched = self.shop.hub.watched(set(self.running))
        self._send({"do": "watch", "jobs": self._watched})

    async def _feed(self) -> None:
        """Give it the next batch whenever it has none. A claim that has begun is not forgotten, whatever comes."""
        size, shop = self.shop.settings.batch, self.shop
        many = LONG_QUEUE * size if size > 1 else 0
        while True:
            await self._idle.wait()
            await shop.database.room.wait()
            self._claiming = asyncio.ensure_future(shop.database.patiently(shop.queue.claim, size, many))
            jobs = await asyncio.shield(self._claiming)
            self.running, self._claiming = {job.id: job for job in jobs}, None
            if not jobs:
                await shop.wait_for_work()
                await asyncio.sleep(shop.settings.gather)  # company may be on its way
                continue
            self._idle.clear()
            self._heard = time.monotonic()
            self.batches, self.rows = self.batches + 1, self.rows + sum(job.rows for job in jobs)
            places = {job.id: str(shop.folder.place_for(job.id, job.attempt)) for job in jobs}
            batch = [
                {"job": job.id, "attempt": job.attempt, "request": job.request, "place": places[job.id]} for job in jobs
            ]
            self._send({"do": "run", "batch": batch})
            for job in self._stops.keys() & self.running.keys():
                self._send({"do": self._stops[job], "job": job})
            self.tell_watched()

    async def _obey(self, message: dict[str, Any]) -> None:
        """What it tells, where it belongs."""
        what = message["tell"]
        if what == "idle":
            self.shop.ended(list(self.running.values()))
            self.running.clear()
            self._stops.clear()
            self._idle.set()
        elif what == "loaded":
            self.loaded = message["models"]
        elif what in ("step", "block", "preview"):
            self.shop.hub.passing(message)
        elif what in ("done", "failed", "cancelled"):
            job = self.running.get(message["job"])
            if job is not None and job.attempt == message["attempt"]:
                late, shop = job.id in self._overdue, self.shop
                if what == "failed" and message["error"]["code"] == NO_ROOM:
                    shop.database.note_full(message["error"]["message"])
                await shop.database.patiently(conclude, shop.queue, shop.folder, job, message, late)
                self._overdue.discard(job.id)


def worker_settings(given: Settings, folder: DataFolder, device: str | None) -> dict[str, Any]:
    """All that a worker has to know before the first batch."""
    sources = {"models": dict(given.models), "controlnets": dict(given.controlnets), "loras": dict(given.loras)}
    limits = {"most_rows": given.most_rows, "budget": given.memory}
    return {**sources, **limits, "inputs": str(folder.inputs), "device": device, "dtype": given.dtype}


def conclude(queue: Queue, folder: DataFolder, job: Job, message: dict[str, Any], late: bool = False) -> None:
    """The end of a job as its worker tells it: files first, the row last. What the disk refuses is raised."""
    unwanted = queue.get(job.id).unwanted == "cancel"
    if message["tell"] == "done" and not unwanted:
        try:
            outputs = folder.take(job.id, job.attempt, message["outputs"])
        except (LockstepError, OSError) as problem:
            if of_storage(problem) is not None:
                raise
            log.error("job %s: %s", job.id, problem)
            queue.fail(job.id, job.attempt, LOST)
            return
        queue.finish(job.id, job.attempt, outputs, message["result"])
        return
    folder.forget_work(job.id, job.attempt)
    if message["tell"] == "failed" and not unwanted:
        full = message["error"]["code"] == NO_ROOM  # it is tried once more when there is room
        (queue.release if full else queue.fail)(job.id, job.attempt, message["error"])
    elif late:
        queue.fail(job.id, job.attempt, LATE)
    else:
        queue.cancelled(job.id, job.attempt)
