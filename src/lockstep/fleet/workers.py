"""What a driver knows of workers, whether they are processes here or actors elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from .plan import PlannedRow


@dataclass(frozen=True)
class Ready:
    """A worker has loaded its pipeline, and says what it makes files from."""

    worker: int
    shared: dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A row has its file."""

    worker: int
    row: PlannedRow
    told: dict[str, Any]


@dataclass(frozen=True)
class Failed:
    """A row ended with an error; `lasting` where another try would end the same way."""

    worker: int
    row: PlannedRow | None  # None: the pipeline could not be loaded
    error: str
    lasting: bool


@dataclass(frozen=True)
class Died:
    """A worker is gone, with whatever it was at."""

    worker: int
    why: str


STAGES = ("texts", "denoising", "decoding")  # of a row that is made by several machines
Event = Ready | Made | Failed | Died


class Workers(Protocol):
    """A number of workers that make rows."""

    count: int

    def start(self, worker: int) -> None:
        """Bring a worker up, for the first time or again."""

    def give(self, worker: int, row: PlannedRow) -> None:
        """Hand a row to a worker, which may still be at another one."""

    def events(self, seconds: float) -> list[Event]:
        """What has happened; waits so long for something to happen."""

    def end(self, worker: int) -> None:
        """End a worker at once; it counts as dead."""

    def close(self) -> None:
        """End all of them."""
