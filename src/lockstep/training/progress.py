"""What a person sees of a run: a bar in a terminal, plain lines in a log file, and every number in `log.jsonl`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Reporter:
    """Live loss and speed of one stage; `note` keeps a line for good."""

    def __init__(self, title: str, total: int | None, log: Path | None = None, every_seconds: float = 30.0) -> None:
        self.title, self.total, self.log, self.every_seconds = title, total, log, every_seconds
        self.console = Console(file=sys.stdout)
        self.started = self.last_line = time.monotonic()
        self.bar: Progress | None = None
        if self.console.is_terminal:
            columns = (
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[numbers]}"),
            )
            self.bar = Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=self.console)

    def __enter__(self) -> Reporter:
        if self.bar:
            self.bar.start()
            self.task = self.bar.add_task(self.title, total=self.total, numbers="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()

    def advance(self, done: int, **numbers: float) -> None:
        """Show where the run is; in a log file only every so often."""
        text = "  ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        if self.bar:
            self.bar.update(self.task, completed=done, numbers=text)
            return
        now = time.monotonic()
        if now - self.last_line >= self.every_seconds or done == self.total:
            self.last_line = now
            print(
                f"{time.strftime('%H:%M:%S')} {self.title} {done}{f'/{self.total}' if self.total else ''}  {text}",
                flush=True,
            )

    def note(self, step: int, **numbers: Any) -> None:
        """A line that stays: on the screen and in the run's log."""
        text = "  ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in numbers.items()
        )
        line = f"{time.strftime('%H:%M:%S')} {self.title} step {step}: {text}"
        if self.bar:
            self.bar.console.print(line)
        else:
            print(line, flush=True)
        if self.log:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"time": time.time(), "step": step, **numbers}) + "\n")
