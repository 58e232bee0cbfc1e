"""What every stage with a fixed number of steps does with its training: go on, let the rate fall at the end, keep."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import Tensor

from ... import files
from ...training.loop import Run, train
from ...training.progress import Reporter
from ...training.settings import Cadence
from ...training.trainee import Trainee


class Training(Protocol):
    """A stage's training."""

    run: Run
    trainee: Trainee

    def loss_at(self, step: int) -> Tensor: ...

    def evaluate(self, reporter: Reporter) -> dict[str, float]: ...


class Stage(Protocol):
    """What of a stage's settings its course depends on."""

    @property
    def steps(self) -> int: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def decay_share(self) -> float: ...

    @property
    def cadence(self) -> Cadence: ...


def run_stage(training: Training, settings: Stage, *, until: int | None = None, settings_text: str = "") -> Path:
    """Train from the start or from the run's checkpoint to the configured number of steps, or to `until`."""
    run = training.run
    run.resume(training.trainee)
    falling = int(settings.steps * settings.decay_share)
    run.begin_decay(settings.steps - falling, falling)
    if settings_text:
        files.write_text(run.folder / "settings.toml", settings_text)
    train(
        training.trainee, run, training.loss_at, title=run.folder.name, batch_size=settings.batch_size,
        until=until or settings.steps, cadence=settings.cadence, evaluate=training.evaluate,
    )  # fmt: skip
    return run.checkpoint
