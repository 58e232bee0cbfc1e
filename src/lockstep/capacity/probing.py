"""Measures a pipeline on this machine: its steps and the rest, by size of the batch; and what neighbours cost."""

from __future__ import annotations

import io
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import MachineError
from .measured import Measured, Run

START = 300.0  # seconds that neighbours may take until all of them are ready


def probe(
    load: Callable[[], Any],
    inputs: Mapping[str, Any],
    count_input: str,
    *,
    batches: Sequence[int] = (1,),
    repeats: int = 3,
    beside: int = 1,
) -> Measured:
    """The measurement of a pipeline; `beside` so many workers of this machine, each in a process of its own."""
    began = time.perf_counter()
    pipe = load()
    loaded = time.perf_counter() - began
    runs, seconds, steps, size = {}, [], 1, 0
    timed(pipe, inputs)  # the first run finds everything cold
    for pictures in sorted({1, *batches}):
        more = {count_input: pictures} if pictures > 1 else {}
        found = [timed(pipe, {**inputs, **more}) for _ in range(repeats)]
        runs[pictures] = Run(*(statistics.median(values) for values in zip(*(one[:2] for one in found), strict=True)))
        if pictures == 1:
            seconds, steps, size = [one[2] for one in found], found[0][3], found[0][4]
    spread = statistics.stdev(seconds) / statistics.mean(seconds) if repeats > 1 else 0.0
    crowding = crowded(load, inputs, beside, repeats)
    return Measured(steps, runs, loaded, spread, crowding, size)


def timed(pipe: Any, inputs: Mapping[str, Any]) -> tuple[float, float, float, int, int]:
    """One run: seconds of a step, of the rest, of all; the steps, and the bytes of its first picture."""
    run = pipe.run(**inputs)
    marks: dict[str, list[float]] = {}
    began = time.perf_counter()
    for event in run:
        if event.kind == "step":
            marks.setdefault(event.path, []).append(time.perf_counter())
    whole = time.perf_counter() - began
    moments: list[float] = max(marks.values(), key=len, default=[])  # of the loop that has the most of them
    if len(moments) < 2:
        return 0.0, whole, whole, 1, picture_bytes(run.output)
    step = statistics.median(later - earlier for earlier, later in itertools.pairwise(moments))
    return step, max(whole - len(moments) * step, 0.0), whole, len(moments), picture_bytes(run.output)


def picture_bytes(output: Any) -> int:
    """What goes over a wire for the first picture; nothing is said of videos."""
    part = output.parts()[0]
    if part.kind.name != "picture":
        return 0
    data = io.BytesIO()
    part.preview().save(data, format="PNG")
    return len(data.getvalue())


def crowded(load: Callable[[], Any], inputs: Mapping[str, Any], most: int, repeats: int) -> dict[int, float]:
    """Workers on this machine -> how many times slower each is than alone, of all numbers up to `most`."""
    if most < 2:
        return {}
    alone = together(load, inputs, 1, repeats)
    return {count: max(together(load, inputs, count, repeats) / alone, 1.0) for count in range(2, most + 1)}


def together(load: Callable[[], Any], inputs: Mapping[str, Any], count: int, repeats: int) -> float:
    """Seconds of a run of each of so many processes that run at once."""
    context = multiprocessing.get_context("spawn")
    ready, told = context.Barrier(count), context.SimpleQueue()
    processes = [
        context.Process(target=_beside, args=(load, dict(inputs), ready, told, repeats), daemon=True)
        for _ in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if told.empty() or any(process.exitcode for process in processes):
        raise MachineError(f"{count} workers beside each other could not be measured: one of them ended. Try fewer.")
    return statistics.median(seconds for _ in processes for seconds in told.get())


def _beside(load: Callable[[], Any], inputs: dict[str, Any], ready: Any, told: Any, repeats: int) -> None:
    pipe = load()
    pipe.set_progress_bar_config(disable=True)
    pipe(**inputs)
    ready.wait(START)
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        pipe(**inputs)
        seconds.append(time.perf_counter() - began)
    told.put(seconds)
