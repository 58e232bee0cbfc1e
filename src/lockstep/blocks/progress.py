"""Progress bars: one per running loop, nested as the loops are; every run of a pipeline has its own lines."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Self, TypedDict, Unpack

from ..errors import UnknownNameError
from .events import Event
from .wiring import NUMBER

SETTINGS = {"disable": None, "desc": None, "leave": True}  # disable None: quiet where there is no terminal


class BarSettings(TypedDict, total=False):
    """How the bars of a pipeline look."""

    disable: bool | None
    desc: str | None
    leave: bool


class StepBar:
    """A bar for a loop that a person writes: over something, or moved on by `update`."""

    def __init__(self, bars: ProgressBars, iterable: Iterable[Any] | None, total: int | None) -> None:
        self._bars, self._iterable = bars, iterable
        self._total = len(iterable) if total is None and isinstance(iterable, Sized) else total
        self._display: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        self._display = self._bars.open()
        if self._display is not None:
            self._task = self._display.add_task(self._bars.settings["desc"] or "steps", total=self._total)
        return self

    def __exit__(self, *problem: object) -> None:
        if self._display is not None:
            self._bars.close()

    def __iter__(self) -> Iterator[Any]:
        with self:
            for item in self._iterable or ():
                yield item
                self.update()

    def update(self, steps: int = 1) -> None:
        """So many steps further."""
        if self._display is not None:
            self._display.update(self._task, advance=steps)


class ProgressBars:
    """The display of one pipeline, shared by its runs: it starts with the first loop and ends with the last run."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = dict(SETTINGS)
        self._lock = threading.Lock()
        self._display: Any = None
        self._users = 0

    def configure(self, **settings: Unpack[BarSettings]) -> None:
        for name in settings:
            if name not in SETTINGS:
                raise UnknownNameError("progress bar setting", name, SETTINGS)
        self.settings.update(settings)

    def for_run(self) -> RunBars:
        return RunBars(self)

    def open(self) -> Any:
        """The display, or None where none is wanted or another one holds the terminal."""
        with self._lock:
            if self._display is None:
                self._display = self._start()
            if self._display is not None:
                self._users += 1
            return self._display

    def close(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._display is not None:
                self._display.stop()
                self._display = None

    def _start(self) -> Any:
        from rich.console import Console
        from rich.errors import LiveError
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        disabled = self.settings["disable"]
        if disabled or (disabled is None and not console.is_terminal):
            return None
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        display = Progress(*columns, console=console, transient=not self.settings["leave"])
        try:
            display.start()
        except LiveError:
            return None
        return display


class RunBars:
    """The bars of one run, moved by its events."""

    def __init__(self, bars: ProgressBars) -> None:
        self.bars = bars
        self.display: Any = None
        self.asked = False
        self.tasks: dict[str, Any] = {}

    def __call__(self, event: Event) -> None:
        if event.kind != "step":
            return
        if not self.asked:
            self.asked, self.display = True, self.bars.open()
        if self.display is None:
            return
        loop = NUMBER.sub("", event.path)  # a loop inside a loop keeps its line and starts over
        if loop not in self.tasks:
            depth = len(NUMBER.findall(event.path))
            name = self.bars.settings["desc"] or loop.rpartition(".")[2]
            self.tasks[loop] = self.display.add_task("  " * depth + name, total=event.total)
        self.display.update(self.tasks[loop], completed=(event.index or 0) + 1, total=event.total)

    def close(self) -> None:
        if self.display is not None:
            self.bars.close()
            self.display = None
