"""The worker as a replica of a Ray Serve deployment: the same batches, told over a stream in place of a pipe.

Serve decides how many replicas there are, on which nodes, and which of them has a model already; what is run, tried
again or given up is the queue's to decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

POLL = 0.1  # seconds between two looks at what is to stop
END = {"tell": "idle"}


class Board:
    """Where the web process leaves word for a run, which only its replica can find: what to stop, who watches."""

    def __init__(self) -> None:
        self._words: dict[str, list[dict[str, Any]]] = {}

    def leave(self, run: str, message: dict[str, Any]) -> None:
        self._words.setdefault(run, []).append(message)

    def take(self, run: str) -> list[dict[str, Any]]:
        return self._words.pop(run, [])


class Replica:
    """Models and batches of one process of the cluster; one batch at a time."""

    def __init__(self, settings: dict[str, Any], board: Any) -> None:
        from .models import Models

        self.settings, self.board = settings, board
        given = (settings[name] for name in ("models", "controlnets", "loras", "budget", "device", "dtype"))
        self.models = Models(*given)

    def describe(self) -> dict[str, Any]:
        """What there is, as a worker process says it when it is ready."""
        return self.models.introduction()

    async def load(self, name: str) -> str:
        """Have a model; Serve is told by the wrapper around it, and sends what needs this model here."""
        await asyncio.to_thread(self.models.pipeline, name)
        return name

    async def run(self, key: str, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        """A batch, told as it goes."""
        import ray

        from ...errors import LockstepError
        from .batch import Batch, Task

        told: queue.Queue[dict[str, Any]] = queue.Queue()
        place = ray.get_runtime_context()
        yield {"tell": "begun", "replica": place.get_actor_name(), "node": place.get_node_id(), "pid": os.getpid()}
        with contextlib.suppress(LockstepError):  # the batch says why, for each of its jobs
            await self.load(batch[0]["request"]["model"])
        yield {"tell": "loaded", "models": self.models.loaded()}
        tasks = [Task(one["job"], one["attempt"], one["request"], Path(one["place"])) for one in batch]
        current = Batch(tasks, self.models, Path(self.settings["inputs"]), told.put, int(self.settings["most_rows"]))

        def work() -> None:
            try:
                current.run()
            finally:
                told.put(END)

        threading.Thread(target=work, name="batch", daemon=True).start()
        while True:
            for word in await self.board.take.remote(key):
                obey(current, word)
            try:
                message = await asyncio.to_thread(told.get, True, POLL)
            except queue.Empty:
                continue
            yield message
            if message is END:
                return


def obey(batch: Any, word: dict[str, Any]) -> None:
    """What the web process has left for a run: who watches it, what is to stop."""
    if word["do"] == "watch":
        batch.watched = set(word["jobs"])
    else:
        getattr(batch, word["do"])(word["job"])
