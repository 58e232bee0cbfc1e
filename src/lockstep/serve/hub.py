"""Who listens to which job. Changes of state are numbered and kept in the queue; steps and previews pass by."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from .queue import OPEN, Event

ROOM = 512  # messages that a listener may be behind; then steps and previews are left out
ENDS = ("done", "failed", "cancelled")
LOOKING = 5.0  # seconds that one look at a preview counts as watching


class Listener:
    """The messages for one connection."""

    def __init__(self, job: str | None, watches: bool) -> None:
        self.job, self.watches, self.messages = job, watches, asyncio.Queue[dict[str, Any]]()

    def put(self, message: dict[str, Any]) -> None:
        passing = "id" not in message
        if self.job in (None, message["job"]) and not (passing and self.messages.qsize() >= ROOM):
            self.messages.put_nowait(message)


class Hub:
    """All listeners, and what is known of the jobs that run now."""

    def __init__(self) -> None:
        self.listeners: set[Listener] = set()
        self.progress: dict[str, dict[str, Any]] = {}
        self.previews: dict[str, tuple[int, bytes]] = {}
        self.open: dict[str, str] = {}  # jobs that have not ended, and their states: health asks here, and no disk
        self.watch_changed: Callable[[], None] = lambda: None
        self._looked: dict[str, float] = {}
        self._ends: dict[str, asyncio.Event] = {}

    def state_changed(self, event: Event) -> None:
        """A change that is on the disk already."""
        if event.kind != "running":
            self.progress.pop(event.job, None)
        self.open[event.job] = event.kind
        if event.kind in ENDS:
            self.open.pop(event.job, None)
            self.previews.pop(event.job, None)
            self._looked.pop(event.job, None)
            if (waiter := self._ends.pop(event.job, None)) is not None:
                waiter.set()
        self._send({"id": event.seq, "kind": event.kind, "job": event.job, "time": event.time})

    def passing(self, message: dict[str, Any]) -> None:
        """A step, a block or a preview, as the worker tells it."""
        kind, job = message["tell"], message["job"]
        told = {
            "kind": kind,
            "job": job,
            **{key: value for key, value in message.items() if key not in ("tell", "job", "png")},
        }
        if kind == "step":
            before = self.progress.get(job, {"began": time.time()})
            self.progress[job] = {**before, "step": message["step"], "steps": message["steps"]}
        if kind == "preview":
            self.previews[job] = (message["step"], base64.b64decode(message["png"]))
            told["png"] = message["png"]
        self._send(told)

    def _send(self, message: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener.put(message)

    @asynccontextmanager
    async def listening(self, job: str | None, watch: bool) -> AsyncIterator[Listener]:
        """A listener, for as long as the block runs; `watch` asks for previews and blocks, too."""
        listener = Listener(job, watch)
        self.listeners.add(listener)
        self.watch_changed()
        try:
            yield listener
        finally:
            self.listeners.discard(listener)
            self.watch_changed()

    def look(self, job: str) -> None:
        """Somebody asks for this job's picture now and again."""
        new = job not in self._looked
        self._looked[job] = time.monotonic()
        if new:
            self.watch_changed()

    def watched(self, running: set[str]) -> list[str]:
        """The jobs among those that run of which somebody wants to see more than the state."""
        listeners = [one for one in self.listeners if one.watches]
        looked = {job for job, when in self._looked.items() if time.monotonic() - when < LOOKING}
        everything = any(one.job is None for one in listeners)
        return sorted(running if everything else running & (looked | {one.job or "" for one in listeners}))

    async def ended(self, job: str, state: Callable[[], Any]) -> None:
        """Until a job has ended; `state` says how it stands when asked after the waiting has begun."""
        waiter = self._ends.setdefault(job, asyncio.Event())
        if await state() not in OPEN:
            waiter.set()
            self._ends.pop(job, None)
        await waiter.wait()
