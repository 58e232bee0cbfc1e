"""All workers together, one a device: what they can do, who is at which job, and how long it takes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from .database import Database
from .hub import Hub
from .problems import Problem
from .queue import Job, Queue
from .results import DataFolder
from .settings import Settings
from .wishes import Catalogue
from .workers import Shop, WorkerProcess, worker_settings

log = logging.getLogger("lockstep.serve")
TICK = 0.25  # seconds between two looks at the workers


class Supervisor:
    """Keeps the workers alive, and is asked by everybody else."""

    def __init__(self, settings: Settings, queue: Queue, folder: DataFolder, hub: Hub, database: Database) -> None:
        self.settings, self.queue, self.hub, self.database = settings, queue, hub, database
        self.catalogue: Catalogue | None = None
        self.seconds_per_cost = 1e-6
        self._unable = "The server is starting."
        self._described = asyncio.Event()
        self._service: Any = None  # of a Ray cluster
        self.shop = Shop(settings, queue, folder, hub, database, self._take_catalogue, self._note, self._learn)
        self.workers = self._make_workers()
        self._tasks: list[asyncio.Task[None]] = []
        hub.watch_changed = self._tell_watched

    def _make_workers(self) -> list[WorkerProcess]:
        """A process for each device, or for each replica that there may be a lane to the cluster."""
        settings = self.settings
        if settings.backend == "local":
            return [WorkerProcess(self.shop, device) for device in settings.devices or (None,)]
        from .ray_workers import RayWorker, Service

        self._service = Service(
            settings, worker_settings(settings, self.shop.folder, next(iter(settings.devices), None))
        )
        return [RayWorker(self.shop, self._service) for _ in range(settings.replicas[1])]

    @property
    def running(self) -> dict[str, Job]:
        return {name: job for worker in self.workers for name, job in worker.running.items()}

    @property
    def loaded(self) -> dict[str, int]:
        """What is in memory, on all devices together."""
        found: dict[str, int] = {}
        for worker in self.workers:
            for name, size in worker.loaded.items():
                found[name] = found.get(name, 0) + size
        return found

    @property
    def is_ready(self) -> bool:
        return any(worker.is_ready for worker in self.workers) and self.database.room.is_set()

    @property
    def restarts(self) -> int:
        return sum(worker.restarts for worker in self.workers)

    async def start(self) -> None:
        lives = [worker.keep_alive() for worker in self.workers]
        if self._service is not None:
            lives.append(self._describe_here())
        self._tasks = [asyncio.create_task(work) for work in (*lives, self._clock())]

    async def stop(self) -> None:
        """The workers end; what they were at is taken up by the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self.workers:
            await worker.end()
        if self._service is not None:
            await self._service.stop()

    async def wake(self) -> None:
        """There is something to do."""
        async with self.shop.wake:
            self.shop.wake.notify_all()

    async def wait(self, seconds: float) -> Catalogue:
        """What the workers can do, as soon as one of them has said so."""
        with contextlib.suppress(TimeoutError):
            if self.catalogue is None:
                await asyncio.wait_for(self._described.wait(), seconds)
        if self.catalogue is None:
            raise Problem(503, "unavailable", self._unable, retry_after=2)
        return self.catalogue

    async def stop_job(self, how: str, job: str) -> Job:
        """`cancel`: a waiting job at once, a running one at its next step. `shorten`: that one with what there is."""
        found = await self.database(self.queue.stop, job, how)  # on the disk before anybody is told
        for worker in self.workers if found.is_open else ():
            worker.stop_job(how, job)
        return found

    async def cancel(self, job: str) -> Job:
        return await self.stop_job("cancel", job)

    async def shorten(self, job: str) -> Job:
        return await self.stop_job("shorten", job)

    async def seconds_ahead(self) -> float:
        """When what waits now will be done, at a guess."""
        return self.seconds_per_cost * await self.database(self.queue.work_ahead) / len(self.workers)

    async def _describe_here(self) -> None:
        """Read the models' configs on this machine: what is asked for can be checked and queued before a replica is
        up. Where they cannot be read here, the first replica says what there is."""
        told = await WorkerProcess(self.shop, None).introduction()
        if told is not None and self.catalogue is None:
            self._take_catalogue(told)

    def _take_catalogue(self, told: dict[str, Any]) -> None:
        own = list(self.settings.loras), list(self.settings.controlnets)
        self.catalogue = Catalogue(told["models"], told["schedulers"], told["guiders"], *own)
        self._described.set()
        for card in self.catalogue.models.values():
            if card["unable"]:
                log.warning("%s cannot be used: %s", card["name"], card["unable"])

    def _note(self, reason: str) -> None:
        self._unable = f"No worker can start: {reason}"

    def _learn(self, batch: list[Job]) -> None:
        """How long work takes here, for those who are told to come again."""
        work = sum(job.cost for job in batch)
        if work:
            seconds = time.time() - min(job.started or time.time() for job in batch)
            self.seconds_per_cost = 0.7 * self.seconds_per_cost + 0.3 * seconds / work

    def _tell_watched(self) -> None:
        for worker in self.workers:
            worker.tell_watched()

    async def _clock(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            try:
                for worker in self.workers:
                    worker.check()
                await self.database.look_for_room(self.shop.folder.try_to_write)
            except Exception:
                log.exception("a look at the workers failed")
            await self.wake()  # of workers that have missed what another one left
