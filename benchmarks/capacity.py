"""Is what `lockstep capacity` foretells what happens? One and two local workers, foretold and measured.

    python -m benchmarks.capacity [--model lockstep/emoji] [--steps 10] [--rows 60] [--load 0.6]

Measured are a step, the rest, and what a neighbour costs, each for itself. Foretold from that and then run: the rate of
workers that are never idle, and the mean and 99th percentile of the time in system where rows come at random, each
worker at one thread. Wanted are 15 %. The forecast plays the very arrivals that are run, so that only the service is
foretold and not chance.
"""

from __future__ import annotations

import argparse
import functools
import os
import random
import statistics
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any

from rich.table import Table

from .fleet import CHEAP, cheap_model
from .fleet_speed import fleet, rows_of
from .machine import console, print_machine

WANTED = 0.15


def open_loop(load: Any, rows: list[dict[str, Any]], workers: int, arrivals: list[float]) -> list[float]:
    """Seconds from the coming of each row to its file, with rows handed to whoever is free."""
    from lockstep.cli.batch_rows import row_inputs
    from lockstep.fleet.local import LocalWorkers
    from lockstep.fleet.making import Setup
    from lockstep.fleet.plan import Plan
    from lockstep.fleet.workers import Made, Ready

    with tempfile.TemporaryDirectory() as place:
        own = LocalWorkers(Setup(load, row_inputs, Path(place), 1), workers)
        free: list[int] = []
        for worker in range(workers):
            own.start(worker)
        planned = Plan.of({}, rows, rows, ".png").rows
        warm = Plan.of({"for": "warm"}, rows[:workers], rows[:workers], ".png").rows
        while len(free) < workers:
            free += [event.worker for event in own.events(1.0) if isinstance(event, Ready)]
        for worker, row in zip(range(workers), warm, strict=True):
            own.give(worker, row)
        made = 0
        while made < workers:
            made += sum(isinstance(event, Made) for event in own.events(1.0))
        begin = time.perf_counter()
        waiting, coming, times = deque[Any](), deque(zip(arrivals, planned, strict=True)), {}
        while len(times) < len(planned):
            now = time.perf_counter() - begin
            while coming and coming[0][0] <= now:
                waiting.append(coming.popleft()[1])
            while waiting and free:
                own.give(free.pop(0), waiting.popleft())
            pause = max(coming[0][0] - now, 0.0) if coming else 1.0
            for event in own.events(min(pause, 1.0)):
                assert isinstance(event, Made), event
                times[event.row.number] = time.perf_counter() - begin - arrivals[event.row.number]
                free.append(event.worker)
        own.close()
    return [times[row.number] for row in planned]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lockstep/emoji", help="or tiny, the model of benchmarks.fleet")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--load", type=float, default=0.6)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    from lockstep.capacity.events import play, poisson
    from lockstep.capacity.forecast import Planner, Service
    from lockstep.capacity.probing import probe
    from lockstep.cli.batch_rows import row_inputs
    from lockstep.cli.capacity import measured_pipe
    from lockstep.cli.pipelines import described

    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        tiny = options.model == "tiny"
        model = str(cheap_model(Path(temporary))) if tiny else options.model
        words = {name[2:].replace("-", "_"): value for name, value in zip(CHEAP[:4:2], CHEAP[1:4:2], strict=True)}
        inputs = {**(words if tiny else {}), "num_inference_steps": str(options.steps)}
        rows = rows_of(options.rows, inputs)
        load = functools.partial(
            measured_pipe, 1, model, dtype="float32", device=None, workflow=None, scheduler=None, guider=None
        )
        given = row_inputs(described(model), rows[0])
        measured = probe(load, given, "num_images_per_prompt", repeats=options.repeats, beside=2)
        console.print(f"measured: {measured.to_dict()}", highlight=False)
        table = Table("", "foretold", "measured", "off by", title="Foretold and measured", title_justify="left")
        worst = 0.0
        for workers in (1, 2):
            planner = Planner(measured, Service(1.0, a_machine=workers))
            rate = options.load * planner.most(workers)
            arrivals = poisson(rate, options.rows, random.Random(workers))
            foretold = play(arrivals, workers, lambda size, w=workers, p=planner: p.seconds(size, w))
            times = open_loop(load, rows, workers, arrivals)[options.rows // 10 :]
            p99 = sorted(times)[min(int(0.99 * len(times)), len(times) - 1)]
            found = {
                "pictures a second, never idle": (planner.most(workers), 1 / fleet(load, rows, workers, "local")),
                f"mean seconds at {rate:.2f} a second": (foretold.mean, statistics.fmean(times)),
                f"99th percentile at {rate:.2f} a second": (foretold.quantile(0.99), p99),
            }
            for name, (said, got) in found.items():
                worst = max(worst, abs(said / got - 1))
                table.add_row(f"{workers} workers: {name}", f"{said:.3f}", f"{got:.3f}", f"{said / got - 1:+.1%}")
        console.print(table)
        console.print(f"the worst is off by {worst:.1%} (wanted: {WANTED:.0%})", highlight=False)


if __name__ == "__main__":
    main()
