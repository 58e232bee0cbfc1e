"""The one thread that the queue is used on, and what waits where the disk takes nothing more."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from .problems import of_storage

T = TypeVar("T")
AGAIN = 0.5  # seconds between two tries at a disk that refuses
log = logging.getLogger("lockstep.serve")


class Database:
    """Runs what uses the queue, one after the other; the loop never waits for a disk."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="queue")
        self.room = asyncio.Event()  # set while the disk takes what it is given
        self.room.set()

    async def __call__(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **options))

    async def patiently(self, work: Callable[..., T], *args: Any) -> T:
        """The same, again and again until the disk takes it: what a worker tells is not lost where there is no room."""
        while True:
            try:
                return await self(work, *args)
            except (sqlite3.Error, OSError) as problem:
                if of_storage(problem) is None:
                    raise
                self.note_full(problem)
            await asyncio.sleep(AGAIN)

    def note_full(self, reason: object) -> None:
        """The disk has refused something: no job begins until it takes things again."""
        if self.room.is_set():
            log.error("the disk refuses to be written to, and jobs wait until it does not: %s", reason)
        self.room.clear()

    async def look_for_room(self, try_it: Callable[[], None]) -> None:
        """Where the disk had refused, whether it does so still."""
        if self.room.is_set():
            return
        try:
            await asyncio.to_thread(try_it)
        except OSError:
            return
        log.warning("the disk can be written to again: jobs go on")
        self.room.set()

    def close(self) -> None:
        self._thread.shutdown()
