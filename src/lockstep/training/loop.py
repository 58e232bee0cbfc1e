"""The loop that every stage shares: learn, show, save, evaluate, and stop cleanly when asked."""

from __future__ import annotations

import fcntl
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..errors import InputError, InterruptedRun
from .checkpoint import load_checkpoint, save_checkpoint
from .progress import Reporter
from .settings import Cadence
from .trainee import Trainee, learning_rate_at


@dataclass
class Run:
    """One training run in a folder: where its checkpoint and log are, and since when its learning rate falls."""

    folder: Path
    decay_from: int | None = None
    decay_steps: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.safetensors"

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Two processes in one run would overwrite each other's checkpoints: the second one is refused."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system even after kill -9
            except BlockingIOError:
                raise InputError(
                    f"Another process is training in {self.folder}. Wait for it, stop it, or give this run another "
                    "name."
                ) from None
            yield

    def save(self, trainee: Trainee) -> None:
        decay = {"decay_from": self.decay_from, "decay_steps": self.decay_steps}
        save_checkpoint(self.checkpoint, trainee.tensors(), {**self.facts, **decay, "step": trainee.step})

    def resume(self, trainee: Trainee, start_from: Path | None = None) -> bool:
        """Go on where this run, or else the one it starts from, was left; whether there was anything."""
        own = self.checkpoint.is_file()
        if not own and start_from is None:
            return False
        tensors, facts = load_checkpoint(self.checkpoint if own or start_from is None else start_from)
        trainee.restore(tensors, facts["step"])
        if own:
            self.decay_from, self.decay_steps = facts["decay_from"], facts["decay_steps"]
        return True

    def begin_decay(self, step: int, steps: int) -> None:
        """From here the learning rate falls to its end; asking again changes nothing."""
        if self.decay_from is None:
            self.decay_from, self.decay_steps = step, steps

    @property
    def end(self) -> int | None:
        """The step at which a decaying run is over."""
        return None if self.decay_from is None else self.decay_from + self.decay_steps


def train(
    trainee: Trainee,
    run: Run,
    loss_at: Callable[[int], Tensor],
    *,
    title: str,
    batch_size: int,
    until: int | None,
    cadence: Cadence,
    evaluate: Callable[[Reporter], object] | None = None,
) -> None:
    """Learn step after step until `until` or the end of the decay; leaves a checkpoint behind, on a SIGTERM or
    Ctrl-C too."""
    ends = [end for end in (until, run.end) if end is not None]
    total = min(ends) if ends else None
    recent: deque[float] = deque(maxlen=100)
    saved = started = time.monotonic()
    first = trainee.step
    with run.held(), Reporter(title, total, run.log, cadence.log_seconds) as reporter, stop_signal() as stopped:
        while (total is None or trainee.step < total) and not stopped.is_set():
            rate = learning_rate_at(trainee.step, trainee.settings, run.decay_from, run.decay_steps)
            recent.append(trainee.learn(loss_at(trainee.step), rate))
            now = time.monotonic()
            speed = (trainee.step - first) * batch_size / (now - started)
            mean = sum(recent) / len(recent)
            reporter.advance(trainee.step, loss=mean, images_per_second=speed, learning_rate=rate)
            if cadence.log_steps and trainee.step % cadence.log_steps == 0:
                reporter.note(trainee.step, loss=mean, exact_loss=recent[-1].hex())
            if now - saved > 60 * cadence.checkpoint_minutes:
                run.save(trainee)
                saved = now
            if evaluate and trainee.step % cadence.evaluate_steps == 0 and trainee.step != total:
                reporter.note(trainee.step, loss=mean, images_per_second=speed, learning_rate=rate)
                evaluate(reporter)
        run.save(trainee)
        if stopped.is_set():
            raise InterruptedRun(
                f"The training stopped at step {trainee.step}{f' of {total}' if total else ''}, and everything is "
                "kept in "
                f"{run.checkpoint}. Give the same command again to go on from there."
            )
        if evaluate:
            evaluate(reporter)


@contextmanager
def stop_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM or Ctrl-C sets, so that a run ends between two steps with a checkpoint."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield stopped
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, lambda *_: stopped.set())
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
