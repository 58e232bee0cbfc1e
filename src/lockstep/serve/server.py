"""The parts of a running server, and what faces ask of them."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ..errors import WriteError
from ..files import writing
from . import pictures
from .database import Database
from .hub import Hub
from .metrics import Metrics
from .problems import Problem
from .queue import Event, Job, Output, Queue, Room
from .results import DataFolder
from .settings import Settings
from .supervisor import Supervisor
from .wishes import Catalogue, Wish, request_of, submission_of

SWEEP = 600.0  # seconds between two looks for files that no row names
KEEP_ALIVE = 15.0  # seconds between two signs of life of a stream
log = logging.getLogger("lockstep.serve")


class Server:
    """The data folder, the queue, the worker and those who listen."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings, self.metrics, self.hub = settings, metrics, Hub()
        self.began, self.streams = time.time(), 0

    def open(self) -> None:
        """Take the data folder and read the queue: what can go wrong with them is told before anything is served."""
        self.folder = DataFolder(self.settings.data)
        room = Room(self.settings.queue_jobs, self.settings.queue_per_client, self.settings.attempts)
        try:
            with writing(self.folder.root):
                self.queue = Queue(self.folder.database, room)
                self.queue.recover()
                self.folder.sweep(*self.queue.names_in_use())
        except sqlite3.Error as problem:
            self.folder.close()
            raise WriteError(f"The queue {self.folder.database} cannot be used: {problem}.") from problem

    async def start(self) -> None:
        loop = asyncio.get_running_loop()

        def tell(event: Event) -> None:
            loop.call_soon_threadsafe(self.hub.state_changed, event)

        self.database, self.queue.tell = Database(), tell
        self.hub.open |= await self.database(self.queue.open_states)
        self.supervisor = Supervisor(self.settings, self.queue, self.folder, self.hub, self.database)
        await self.supervisor.start()
        self._sweeping = asyncio.create_task(self._sweep())

    async def _sweep(self) -> None:
        """Pictures that came in for nothing do not stay."""
        while True:
            await asyncio.sleep(SWEEP)
            try:
                used = await self.database(self.queue.names_in_use)
                await asyncio.to_thread(self.folder.sweep, *used, work=False)
            except (sqlite3.Error, OSError) as problem:
                log.error("unused files stay for now: %s", problem)

    async def stop(self) -> None:
        self._sweeping.cancel()
        await self.supervisor.stop()
        await self.database(self.queue.close)
        self.database.close()
        self.folder.close()

    # ---- jobs ----

    async def catalogue(self) -> Catalogue:
        return await self.supervisor.wait(self.settings.start if self.supervisor.restarts == 0 else 2.0)

    async def submit(
        self, wish: Wish, *, client: str, face: str, key: str | None = None, priority: int = 0, waits: bool = False
    ) -> Job:
        """A job for a wish, checked before anything waits; the same key and wish give the same job.

        Where a caller `waits` for it on an open connection, it has a deadline.
        """
        catalogue = await self.catalogue()
        request = request_of(wish, catalogue, self.settings.limits)
        deadline = time.time() + self.settings.deadline if waits else None  # nobody waits for a job of the page's
        own_key = None if key is None else f"{client} {key}"
        who = {"client": client, "face": face, "priority": priority, "deadline": deadline, "key": own_key}
        try:
            job, _ = await self.database(self.queue.submit, submission_of(request, catalogue, **who))
        except Problem as problem:
            if problem.status == 429:
                problem.retry_after = await self.supervisor.seconds_ahead() / 4
            held = await self.database(self.queue.by_key, own_key) if own_key is not None else None
            if held is None or wish.seed is not None:
                raise
            request["seed"] = held.request["seed"]  # the one that was drawn must not make another request of it
            job, _ = await self.database(self.queue.submit, submission_of(request, catalogue, **who))
        await self.supervisor.wake()
        return job

    def fitted(self, width: int | None, height: int | None, card: dict[str, Any]) -> tuple[int | None, int | None]:
        """A size as asked for; with the policy `fit`, of the model's own area, in a form near to what was asked for."""
        if self.settings.size_policy == "fit" and width and height and card["width"] and card["height"]:
            factor = card["inputs"]["width"].get("multiple_of") or 8
            scale = (card["width"] * card["height"] / (width * height)) ** 0.5
            width, height = (max(factor, round(side * scale / factor) * factor) for side in (width, height))
        return width, height

    async def job(self, job: str) -> Job:
        return await self.database(self.queue.get, job)

    async def ended(self, job: str) -> None:
        async def state() -> str:
            return (await self.job(job)).state

        await self.hub.ended(job, state)

    # ---- pictures ----

    async def take_picture(self, data: bytes, param: str, mask: bool = False) -> dict[str, Any]:
        """A picture that came in, as requests name it."""
        read = pictures.mask_from_alpha if mask else pictures.read
        made = await asyncio.to_thread(read, data, self.settings.limits, param)
        return {
            "file": await asyncio.to_thread(self.folder.keep_input, made.png, ".png"),
            "width": made.width,
            "height": made.height,
        }

    async def output(self, job: str, n: int) -> tuple[Output, Path]:
        """A file of a job; one whose file is gone is told as lost."""
        found = next((one for one in (await self.job(job)).outputs if one.n == n), None)
        if found is None:
            raise Problem(404, "not_found", "There is no such picture.")
        path = self.folder.results / found.name
        if not path.exists():
            raise Problem(404, "lost", "The file of this picture is gone.")
        return found, path

    async def read_output(self, job: str, n: int) -> bytes:
        return await asyncio.to_thread((await self.output(job, n))[1].read_bytes)

    # ---- streams ----

    def require_stream(self) -> None:
        """Refuse one stream too many, before its answer begins."""
        if self.streams >= self.settings.limits.streams:
            raise Problem(429, "queue_full", f"{self.streams} streams are open, the most there can be.", retry_after=5)

    async def events(self, job: str | None, after: int | None, previews: bool) -> AsyncIterator[bytes]:
        """Server-sent events: what was missed since `after`, then what happens. With a job, until that has ended."""
        self.streams += 1
        try:
            async with self.hub.listening(job, previews) as listener:
                last = -1
                if after is not None:
                    for event in await self.database(self.queue.events_after, after):
                        if job in (None, event.job):
                            last = event.seq
                            yield sse({"id": event.seq, "kind": event.kind, "job": event.job, "time": event.time})
                for running, progress in list(self.hub.progress.items()):
                    if job in (None, running):
                        yield sse({"kind": "step", "job": running, **progress})
                if job is not None and not (await self.job(job)).is_open:
                    return
                while True:
                    try:
                        message = await asyncio.wait_for(listener.messages.get(), KEEP_ALIVE)
                    except TimeoutError:
                        yield b": still here\n\n"
                        continue
                    if message.get("id", last + 1) > last and (previews or message["kind"] != "preview"):
                        yield sse(message)
                    if job is not None and message["kind"] in ("done", "failed", "cancelled"):
                        return
        finally:
            self.streams -= 1


def sse(message: dict[str, Any]) -> bytes:
    """One message of a stream."""
    number = f"id: {message['id']}\n" if "id" in message else ""
    return f"{number}event: {message['kind']}\ndata: {json.dumps(message)}\n\n".encode()
