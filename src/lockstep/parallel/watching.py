"""Who lives: every rank says so to a store that all of them see, and hears it of the others.

A process that dies says nothing any more; one that ends says why. So an exchange that fails, or does not end, can
name the rank that it failed for, and no process waits for a dead one longer than the config says.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import RankError

BEATS = 5  # in the time after which a rank is lost
GRACE = 3.0  # seconds in which an exchange may fail by itself, before the process is ended
LOST = 70  # with which a process leaves that waits for a dead rank
ENDED = "its script is over. Every rank makes the same calls to the end"
STORE_GONE = "rank 0, or the launcher, which kept the store that all ranks see, is gone"


class KeyStore(Protocol):
    """What all ranks write to and read from: a store of torch.distributed."""

    def set(self, key: str, value: str, /) -> None: ...

    def get(self, key: str, /) -> bytes: ...

    def check(self, keys: list[str], /) -> bool: ...


@dataclass
class Heard:
    """What was last heard of a rank, and when that changed."""

    told: dict[str, Any] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    def name(self, rank: int) -> str:
        return f"rank {rank} (process {self.told.get('pid', '?')} on {self.told.get('host', '?')})"


class Watch:
    """One thread: says that this process lives, hears whether the others do, and ends it where nothing else can."""

    def __init__(self, store: KeyStore, rank: int, world: int, lost_after_s: float) -> None:
        self.rank, self.lost_after_s = rank, lost_after_s
        self.exchanges, self.doing, self.waiting_since = 0, "", 0.0
        self._store = store
        self._told: dict[str, Any] = {"pid": os.getpid(), "host": socket.gethostname(), "beat": 0, "left": None}
        self._others = {other: Heard() for other in range(world) if other != rank}
        self._ended = threading.Event()
        self._lock = threading.Lock()  # a store's client does one thing at a time
        self._say()
        self._thread = threading.Thread(target=self._watch, name="lockstep ranks", daemon=True)
        self._thread.start()

    def leave(self, reason: str) -> None:
        """Say that this process ends, and why; what was said first counts."""
        if not self._ended.is_set():
            self._ended.set()
            self._told["left"] = reason
            with contextlib.suppress(RuntimeError):  # nobody may be left to hear it
                self._say()

    def explained(self, problem: Exception) -> RankError:
        """Why an exchange failed, with the name of the rank that it failed for."""
        deadline = time.monotonic() + self.lost_after_s + 1
        while (found := self._find()) is None and time.monotonic() < deadline and "imed out" not in str(problem):
            time.sleep(self.lost_after_s / BEATS / 2)
        found = found or self._elsewhere() or f"every rank lives; {type(problem).__name__}: {problem}"
        return RankError(f"Rank {self.rank} cannot go on with {self.doing!r} (exchange {self.exchanges}): {found}.")

    # ---- the thread ----

    def _watch(self) -> None:
        while not self._ended.wait(self.lost_after_s / BEATS):
            try:
                self._say()
                lost = self._find()
            except RuntimeError:
                lost = STORE_GONE
            waits = time.monotonic() - self.waiting_since if self.waiting_since else 0.0
            if lost is not None and waits > GRACE + self.lost_after_s:
                line = f"lockstep: rank {self.rank} waits in {self.doing!r}, but {lost}. It ends now.\n"
                os.write(sys.stderr.fileno() if sys.stderr else 2, line.encode())
                os._exit(LOST)

    def _say(self) -> None:
        self._told |= {"beat": self._told["beat"] + 1, "exchanges": self.exchanges, "doing": self.doing}
        with self._lock:
            self._store.set(f"rank{self.rank}", json.dumps(self._told))

    def _find(self) -> str | None:
        """The ranks that are gone, with what they said at the end; None while all live."""
        gone = []
        for rank, heard in self._others.items():
            try:
                self._hear(rank, heard)
            except RuntimeError:
                return STORE_GONE
            silent = time.monotonic() - heard.since
            if heard.told.get("left") is not None:
                gone.append(f"{heard.name(rank)} has left: {heard.told['left']}")
            elif silent > self.lost_after_s:
                gone.append(f"{heard.name(rank)} has said nothing for {silent:.0f} s and is taken for dead")
        return "; ".join(gone) or None

    def _hear(self, rank: int, heard: Heard) -> None:
        with self._lock:
            key = f"rank{rank}"
            told = json.loads(self._store.get(key)) if self._store.check([key]) else {}
        if told != heard.told:
            heard.told, heard.since = told, time.monotonic()

    def _elsewhere(self) -> str | None:
        """The rank that was last heard of at another exchange than this one; of several, the one furthest behind."""
        places = {
            rank: (heard.told.get("exchanges", 0), heard.told.get("doing")) for rank, heard in self._others.items()
        }
        apart = [rank for rank, place in places.items() if place != (self.exchanges, self.doing)]
        if not apart:
            return None
        rank = min(apart, key=lambda one: places[one][0])
        made, doing = places[rank]
        return f"{self._others[rank].name(rank)} lives, but is at exchange {made} ({doing!r}) and did not come"
