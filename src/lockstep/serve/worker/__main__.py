"""The worker process: `python -m lockstep.serve.worker`, with one JSON object a line on its standard input and output.

It knows models and files, and neither the database nor the network. It ends when its input does, so no worker is left
behind by a server that was killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import IO, Any

OOM_SCORE = "500"  # where memory is short, the kernel takes the worker before the server


class Channel:
    """Lines of JSON to the web process; what else prints goes to the log."""

    def __init__(self) -> None:
        self._out: IO[bytes] = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def tell(self, message: dict[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()


class Worker:
    """Reads what to do on a thread of its own, so that a job can be cancelled while it runs."""

    def __init__(self, channel: Channel, settings: dict[str, Any]) -> None:
        from .models import Models

        self.channel, self.settings = channel, settings
        self.inputs, self.most_rows = Path(settings["inputs"]), int(settings["most_rows"])
        given = (settings[name] for name in ("models", "controlnets", "loras", "budget", "device", "dtype"))
        self.models = Models(*given)
        self.models.changed = self.tell_loaded
        self.batches: queue.Queue[list[dict[str, Any]]] = queue.Queue()
        self.current: Any = None
        self.watched: set[str] = set()
        self.early: list[tuple[str, str]] = []  # what is to stop of a batch that has not begun

    def ready(self) -> None:
        """Say what there is; a model that cannot even be described ends the worker with its reason."""
        self.channel.tell(self.models.introduction())

    def tell_loaded(self) -> None:
        self.channel.tell({"tell": "loaded", "models": self.models.loaded()})

    def read(self, lines: IO[str]) -> None:
        """Until the web process is gone."""
        for line in lines:
            message = json.loads(line)
            what, job = message["do"], message.get("job", "")
            if what == "run":
                self.batches.put(message["batch"])
            elif what == "watch":
                self.watched = set(message["jobs"])
                if self.current is not None:
                    self.current.watched = self.watched
            elif self.current is not None:
                getattr(self.current, what)(job)
            else:
                self.early.append((what, job))
        os._exit(0)

    def work(self) -> None:
        from .batch import Batch, Task

        while True:
            batch = self.batches.get()
            tasks = [Task(one["job"], one["attempt"], one["request"], Path(one["place"])) for one in batch]
            self.current = Batch(tasks, self.models, self.inputs, self.channel.tell, self.most_rows)
            self.current.watched = self.watched
            while self.early:
                what, job = self.early.pop(0)
                getattr(self.current, what)(job)
            self.channel.tell({"tell": "begun", "jobs": [task.id for task in tasks]})
            self.current.run()
            self.current = None
            self.channel.tell({"tell": "idle"})


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is for the web process, which ends this one
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(OOM_SCORE, encoding="ascii")
    from ...errors import LockstepError

    channel = Channel()
    settings = json.loads(sys.stdin.readline())
    try:
        worker = Worker(channel, settings)
        worker.ready()
    except LockstepError as problem:
        channel.tell({"tell": "unable", "error": type(problem).__name__, "message": str(problem)})
        return
    threading.Thread(target=worker.read, args=(sys.stdin,), daemon=True).start()
    worker.work()


if __name__ == "__main__":
    main()
