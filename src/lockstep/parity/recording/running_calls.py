"""The stack of running modules: whose operation is this, and the how-manieth call."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from .capture import Capture
from .looping import Loop

PIPELINE = "@pipeline"
DRAWS = "@rng"


@dataclass(slots=True)
class RunningCall:
    """One call in progress."""

    path: str
    step: str
    call: int
    opaque: bool  # operations inside are the module's own business
    owner: Any = None
    counts: Counter[str] = field(default_factory=Counter)


class RunningCalls:
    """Calls in progress, innermost last; below them the pipeline itself."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._stack: list[RunningCall] = []
        self._calls: Counter[tuple[str, str]] = Counter()
        self._pipeline: dict[str, RunningCall] = {}
        self._draws: Counter[str] = Counter()
        self.inside_pipeline = False

    @property
    def inside_model(self) -> bool:
        """True while a model runs: what it calls is a part of that."""
        return bool(self._stack)

    def push(self, path: str, opaque: bool, owner: Any = None) -> RunningCall:
        step = self._loop.label
        frame = RunningCall(path, step, self._calls[step, path], opaque, owner)
        self._calls[step, path] += 1
        self._stack.append(frame)
        return frame

    def pop(self, owner: Any) -> RunningCall | None:
        """Close the innermost call of `owner`; calls that an exception left open inside it go with it."""
        for index in range(len(self._stack) - 1, -1, -1):
            if self._stack[index].owner is owner:
                frame = self._stack[index]
                del self._stack[index:]
                return frame
        return None

    def clear(self) -> None:
        self._stack.clear()

    def open_for_operations(self) -> bool:
        if not self._loop.recording:
            return False
        return not self._stack[-1].opaque if self._stack else self.inside_pipeline

    def current_path(self) -> str:
        return self._stack[-1].path if self._stack else PIPELINE

    def operation_path(self, name: str) -> tuple[str, RunningCall]:
        frame = self._stack[-1] if self._stack else self._pipeline_frame()
        number = frame.counts[name]
        frame.counts[name] += 1
        return f"{frame.path}/{name}.{number}", frame

    def _pipeline_frame(self) -> RunningCall:
        """Between the models: one frame per step, so that operations are counted from 0 in each."""
        step = self._loop.label
        if step not in self._pipeline:
            self._pipeline[step] = RunningCall(PIPELINE, step, 0, False)
        return self._pipeline[step]

    def random_draw(self, capture: Capture, tensor: torch.Tensor, meta: dict[str, Any]) -> None:
        if self._loop.recording:
            step = self._loop.label
            capture.tensor(
                DRAWS, "rng", tensor, step=step, call=self._draws[step], op=meta["function"], full=True, meta=meta
            )
            self._draws[step] += 1
