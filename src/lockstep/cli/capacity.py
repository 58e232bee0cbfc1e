"""`lockstep capacity`: measure a model here, and plan a service with what was measured."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .console import err, out, print_json
from .generate import PipelineCommand, described_inputs, result_kind
from .inputs import numbers
from .options import Json
from .pipelines import DEFAULT_MODEL, described, loaded

if TYPE_CHECKING:
    from ..capacity.forecast import Forecast, Planner
    from ..capacity.measured import Measured

EXAMPLES = """
Examples:

  lockstep capacity measure -o here.json --batch 1,2,4 --beside 2 --num-inference-steps 25

  lockstep capacity plan here.json --per-day 1000000 --peak 2.5 --within 10 --price 1.10

  lockstep capacity plan here.json --rate 0.5 --within 5 --workers 1,2,4

  lockstep capacity plan pictures/ --rate 2 (the folder of a batch: its ledger has the times)
"""
app = typer.Typer(
    name="capacity", no_args_is_help=True, epilog=EXAMPLES,
    help="Foretell throughput, waiting and cost of a service from what was measured.",
)  # fmt: skip
extra = {"allow_extra_args": True, "ignore_unknown_options": True}
DAY = 86_400


@app.command(cls=PipelineCommand, context_settings=extra)
def measure(
    context: typer.Context,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file of the measurement.")],
    model: Annotated[
        str, typer.Option("--model", "-m", is_eager=True, help="A folder, a file, a hub id, or an embedded model.")
    ] = DEFAULT_MODEL,
    batch: Annotated[str, typer.Option(help="Sizes of batches: 1,2,4")] = "1",
    beside: Annotated[int, typer.Option(min=1, max=64, help="Up to so many workers on this machine.")] = 1,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each kind; the median counts.")] = 3,
    threads: Annotated[int | None, typer.Option(min=1, help="Of a worker; torch's own where it is left out.")] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", "--sampler", help="euler, dpm++_2m_karras …")] = None,
    guider: Annotated[str | None, typer.Option(help="A guider, with settings.")] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps …")] = None,
    speed: Annotated[str, typer.Option(help="off, exact or fast, as for generate.")] = "off",
    json: Json = False,
) -> None:
    """Measure steps, loading, batches and neighbours of a model on this machine."""
    import dataclasses

    from ..capacity.probing import probe
    from .env import describe_machine

    pipe, sizes = described(model), numbers(batch, "--batch")
    inputs = described_inputs(pipe, context)
    load = functools.partial(
        measured_pipe, threads, model, dtype=dtype, device=device, workflow=None, scheduler=scheduler, guider=guider,
        speed=speed,
    )  # fmt: skip
    given = {"prompt": "a photo of a red house on a hill", "seed": 0} | inputs
    with err.status("measuring"):
        found = probe(
            load, given, result_kind(pipe).count_input, batches=sizes, repeats=repeats, beside=beside
        )  # fmt: skip
    facts = describe_machine()
    found = dataclasses.replace(found, model=model, machine=f"{facts['processor']}, {facts['cores']} cores")
    found.write(output)
    if json:
        print_json(found.to_dict())
        return
    for size, run in found.runs.items():
        out.print(
            f"{size} at once: {run.seconds(found.steps) / size:.3f} s a picture ({found.steps} steps of {run.step:.4f} "
            f"s, {run.fixed:.3f} s besides)",
            highlight=False,
        )
    for count, slower in found.crowding.items():
        out.print(f"{count} workers here: each {slower:.2f} times as slow as alone", highlight=False)
    out.print(
        f"[bold green]{output}[/]  loaded in {found.load:.1f} s, runs vary by {found.spread:.1%}", highlight=False
    )


def measured_pipe(threads: int | None, model: str, **options: Any) -> Any:
    """A pipeline as a worker has it."""
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    pipe = loaded(model, **options)
    pipe.load_components()
    pipe.set_progress_bar_config(disable=True)
    return pipe


@app.command()
def plan(
    source: Annotated[Path, typer.Argument(help="What `capacity measure` wrote, or the folder of a batch.")],
    rate: Annotated[float | None, typer.Option(help="Pictures a second that are asked for.")] = None,
    per_day: Annotated[float | None, typer.Option(help="Pictures a day, in place of --rate.")] = None,
    peak: Annotated[float, typer.Option(min=1, help="The busiest hour, in times of a mean one.")] = 1.0,
    within: Annotated[float | None, typer.Option(help="Seconds within which a picture is to be there …")] = None,
    share: Annotated[float, typer.Option(help="… for this share of them.")] = 0.99,
    workers: Annotated[str | None, typer.Option(help="Numbers to look at: 1,2,4; the fewest that do besides.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Another number of steps than was measured.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Pictures that a worker makes at once, where they wait.")] = 1,
    a_machine: Annotated[int, typer.Option("--a-machine", min=1, help="Workers on one machine.")] = 1,
    ranks: Annotated[int, typer.Option(min=1, help="Devices that make one picture together.")] = 1,
    step_bytes: Annotated[float, typer.Option(min=0, help="That ranks send each other at each step.")] = 0.0,
    step_messages: Annotated[float, typer.Option(min=0, help="In so many messages.")] = 0.0,
    bandwidth: Annotated[float, typer.Option(min=1, help="Bytes a second of a link.")] = math.inf,
    latency: Annotated[float, typer.Option(min=0, help="Seconds of a message.")] = 0.0,
    deaths: Annotated[float, typer.Option(min=0, help="Of a worker, an hour; each costs a loading.")] = 0.0,
    price: Annotated[float, typer.Option(min=0, help="Of a worker's hour.")] = 0.0,
    json: Json = False,
) -> None:
    """How many workers a service needs: load, waiting and cost for each number, by formula and played through."""
    import dataclasses

    from ..capacity.forecast import Planner, Service
    from ..capacity.measured import Link, Split

    if (rate is None) == (per_day is None):
        raise InputError("Give --rate (pictures a second) or --per-day (pictures a day): one of them.")
    asked = (rate if rate is not None else (per_day or 0) / DAY) * peak
    split = Split(ranks, step_messages, step_bytes)
    service = Service(
        asked, within, share, batch, price=price, a_machine=a_machine, deaths=deaths, link=Link(bandwidth, latency),
        split=split,
    )  # fmt: skip
    measured = measurement(source)
    planner = Planner(dataclasses.replace(measured, steps=steps or measured.steps), service)
    fewest = planner.fewest()
    counts = sorted({*(numbers(workers, "--workers") if workers else ()), fewest.workers, fewest.workers + 1})
    rows = [fewest if count == fewest.workers else planner.forecast(count) for count in counts]
    if json:
        print_json({"rate": asked, "fewest": fewest.workers, "forecasts": [in_json(row) for row in rows]})
    else:
        show(planner, rows, fewest)


def measurement(source: Path) -> Measured:
    """A file of `capacity measure`, or the times that the ledger of a batch has."""
    from ..capacity.measured import Measured

    if not source.is_dir():
        return Measured.read(source)
    from ..fleet.driving import LEDGER, Ledger

    seconds = [entry["seconds"] for entry in Ledger.read(source) if "seconds" in entry]
    if not seconds:
        raise InputError(f"{source / LEDGER} has no times in it: it is the folder of a batch that has made something.")
    return Measured.of_seconds(seconds)


def show(planner: Planner, rows: list[Forecast], fewest: Forecast) -> None:
    """The forecasts as a table, and in words what they come to."""
    from rich.table import Table

    service = planner.service
    table = Table("workers", "busy", "mean", "by formula", "median", "p99", "within", "cost of 1000")
    for row in rows:
        times = [readable(seconds) for seconds in (row.mean, row.by_formula, row.median, row.p99)]
        kept = f"{row.kept:.2%}" if service.promise is not None else "-"
        style = "bold green" if row.workers == fewest.workers else None
        table.add_row(str(row.workers), f"{row.load:.0%}", *times, kept, f"{row.cost:.2f}", style=style)
    out.print(table)
    load = planner.measured.load  # of which a ledger says nothing
    later = f" A further one helps {load:.0f} s after it was asked for." if load else ""
    promise = (
        f" and {service.share:.0%} of them within {service.promise:g} s" if service.promise is not None else ""
    )  # fmt: skip
    out.print(
        f"{fewest.workers} workers for {service.rate:.2f} pictures a second{promise}; at the most they make "
        f"{fewest.most:.2f} a second.{later}",
        highlight=False,
    )


def in_json(row: Forecast) -> dict[str, float | None]:
    """A forecast in JSON, which has no infinity: null where workers cannot keep up, or no formula is known."""
    return {name: value if math.isfinite(value) else None for name, value in row.to_dict().items()}


def readable(seconds: float) -> str:
    return "-" if math.isnan(seconds) else "too many" if math.isinf(seconds) else f"{seconds:.2f} s"
