"""What a fleet costs and gains: a bare loop, one worker and two workers of one thread each, side by side.

    python -m benchmarks.fleet_speed [--model lockstep/emoji] [--steps 25] [--rows 24] [--rounds 3] [--ray]

The bare loop calls the pipeline and saves the picture without a manifest, a hash, or a look at the disk: all that a
worker does besides is overhead. Workers are timed from the moment at which each has made its first row to the one at
which the first has made its last: loading is not in it. `--model tiny` is the tiny model of `benchmarks.fleet`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from .fleet import CHEAP, cheap_model, entries
from .machine import console, interleaved, print_machine


def rows_of(count: int, inputs: dict[str, str]) -> list[dict[str, Any]]:
    return [{"prompt": f"a photo of the {k}th red house", **inputs, "seed": k} for k in range(count)]


def bare(pipe: Any, rows: list[dict[str, Any]], folder: Path) -> float:
    """Seconds a picture of a loop that a person writes in a minute."""
    from lockstep.cli.batch_rows import row_inputs
    from lockstep.media import plain

    pipe(**row_inputs(pipe, rows[0]))
    began = time.perf_counter()
    for number, row in enumerate(rows):
        plain(pipe(**row_inputs(pipe, row)).images[0]).save(folder / f"{number}.png")
    return (time.perf_counter() - began) / len(rows)


def fleet(load: Any, rows: list[dict[str, Any]], workers: int, backend: str) -> float:
    """Seconds between two pictures of workers that are all at work."""
    from lockstep.cli.batch import workers_of
    from lockstep.cli.batch_rows import row_inputs
    from lockstep.fleet.driving import Driver, locked
    from lockstep.fleet.making import Setup
    from lockstep.fleet.plan import Plan

    with tempfile.TemporaryDirectory() as place, locked(Path(place)):
        setup = Setup(load, row_inputs, Path(place), 1)
        made = workers_of(backend, setup, workers, None)
        Driver(made, Path(place), lambda shared: Plan.of(shared, rows, rows, ".png")).run()
        times: dict[int, list[float]] = {}
        for entry in entries(Path(place)):
            times.setdefault(entry["worker"], []).append(entry["time"])
    begin, end = max(min(own) for own in times.values()), min(max(own) for own in times.values())
    inside = sum(begin < moment <= end for own in times.values() for moment in own)
    return (end - begin) / max(inside, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="lockstep/emoji")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", action="store_true", help="actors of Ray beside the local workers")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
    import functools

    import torch

    from lockstep.cli.pipelines import loaded

    torch.set_num_threads(1)
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        tiny = options.model == "tiny"
        model = str(cheap_model(Path(temporary))) if tiny else options.model
        words = dict(zip(CHEAP[::2], CHEAP[1::2], strict=True)) if tiny else {"--num-inference-steps": options.steps}
        inputs = {name[2:].replace("-", "_"): str(value) for name, value in words.items()}
        load = functools.partial(
            loaded, model, dtype="float32", device=None, workflow=None, scheduler=None, guider=None
        )  # fmt: skip
        pipe = load()
        pipe.set_progress_bar_config(disable=True)
        rows = rows_of(options.rows, inputs)
        sides = {
            "bare loop": lambda: bare(pipe, rows, Path(temporary)),
            "one worker": lambda: fleet(load, rows, 1, "local"),
            "two workers": lambda: fleet(load, rows, 2, "local"),
        }
        if options.ray:
            sides["two actors"] = lambda: fleet(load, rows, 2, "ray")
        results = interleaved(sides, options.rounds)
    show(results)


def show(results: dict[str, list[float]]) -> None:
    """Each side, and what it says: best and median, since other work only ever adds."""
    table = Table("side", "best, ms a picture", "median", "all", title="A fleet in numbers", title_justify="left")
    for name, values in results.items():
        told = " ".join(f"{1000 * value:.1f}" for value in values)
        table.add_row(name, f"{1000 * min(values):.1f}", f"{1000 * statistics.median(values):.1f}", told)
    console.print(table)
    for word, of in (("best", min), ("median", statistics.median)):
        bare, one, two = (of(results[name]) for name in ("bare loop", "one worker", "two workers"))
        console.print(
            f"{word}: overhead {1000 * (one - bare):.1f} ms a picture (wanted: 5), "
            f"two workers {one / two:.2f} × one (wanted: 1.7)",
            highlight=False,
        )


if __name__ == "__main__":
    main()
