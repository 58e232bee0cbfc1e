"""`lockstep batch`: thousands of rows over many workers, each file exactly once; `verify` and `pack` what was made."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from ..errors import InputError, InterruptedRun, UnknownNameError
from .batch_rows import (
    by_their_names,
    checked_rows,
    given_words,
    hashed_row,
    one_of_each,
    require_different,
    row_inputs,
)
from .console import err, out, print_json
from .exit_codes import ExitCode
from .generate import PipelineCommand, described_inputs, result_kind
from .inputs import numbers
from .options import Json, Quiet, Variant
from .pipelines import DEFAULT_MODEL, loaded

if TYPE_CHECKING:
    from ..fleet.driving import Tally
    from ..fleet.making import Maker, Setup
    from ..fleet.plan import Plan
    from ..fleet.workers import Workers

EXAMPLES = """
Examples:

  lockstep batch prompts.txt -o pictures/ --workers 2

  lockstep batch rows.csv -o pictures/ --num-inference-steps 12 (columns: prompt, seed, guidance_scale …)

  lockstep batch verify pictures/

  lockstep batch pack pictures/ shards/
"""
BACKENDS = ("local", "ray")
LISTED = 8  # names of a kind that `verify` prints
Chain = tuple[list[int], dict[str, str]]  # actors of each stage, and the resource that its nodes have


class RunsByDefault(TyperGroup):
    """`lockstep batch prompts.txt` is `lockstep batch run prompts.txt`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if not args or args[0] in own else ["run", *args])


app = typer.Typer(
    name="batch", cls=RunsByDefault, no_args_is_help=True, epilog=EXAMPLES,
    help="Make a picture for every row of a file, over many workers, and go on where it was interrupted.",
)  # fmt: skip
extra = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(cls=PipelineCommand, context_settings=extra)
def run(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="ROWS", help="One prompt a line, or a table: .csv, .tsv, .jsonl, .parquet.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the batch; the same one goes on.")],
    model: Annotated[
        str, typer.Option("--model", "-m", is_eager=True, help="A folder, a file, a hub id, or an embedded model.")
    ] = DEFAULT_MODEL,
    workers: Annotated[int, typer.Option(min=1, help="How many pipelines work side by side.")] = 1,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of each; the cores shared out where it is left out.")
    ] = None,
    backend: Annotated[str, typer.Option(help="local: processes of this machine; ray: actors of a cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster; this machine alone where it is left out.")
    ] = None,
    stages: Annotated[
        str | None, typer.Option(help="Actors for texts, denoising, decoding, each with its own models: 1,2,1 (Ray).")
    ] = None,
    places: Annotated[
        str | None, typer.Option(help="Resources of the nodes for stages: texts=small,denoising=large (Ray).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Row k has the seed + k, unless it names its own.")] = 0,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, help="Pictures a row, with seeds one after the other.")
    ] = 1,
    ending: Annotated[
        str | None, typer.Option("--format", help="png, webp, jpg; of videos mp4, webm, mkv, gif.")
    ] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", "--sampler", help="euler, dpm++_2m_karras …")] = None,
    guider: Annotated[str | None, typer.Option(help="A guider, with settings.")] = None,
    lora: Annotated[list[str] | None, typer.Option(help="A LoRA, with its strength: style.safetensors:0.8")] = None,
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps …")] = None,
    speed: Annotated[str, typer.Option(help="off, exact, high or fast, as for generate.")] = "off",
    variant: Variant = None,
    merge_equal: Annotated[
        bool, typer.Option("--merge-equal", help="Rows that are the same, seed included, become one file.")
    ] = False,
    attempts: Annotated[int, typer.Option(min=1, help="After so many deaths or errors a row is given up.")] = 3,
    stall: Annotated[float, typer.Option(min=1, help="Seconds of silence after which a worker is replaced.")] = 600.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Make a picture for every row; run again, it makes what is missing."""
    from ..fleet.driving import Driver, locked, require_own
    from ..fleet.making import Setup, known_early
    from ..fleet.plan import Plan, with_seeds
    from ..fleet.rows import read_rows

    if backend not in BACKENDS:
        raise UnknownNameError("backend", backend, BACKENDS)
    chain = chain_of(stages, places)
    settings: dict[str, Any] = {"dtype": dtype, "device": device, "workflow": None, "variant": variant}
    settings |= {"scheduler": scheduler, "guider": guider}
    pipe = loaded(model, **settings, load=False)
    kind, common = result_kind(pipe), by_their_names(given_words(context))
    described_inputs(pipe, context)  # a mistyped option is told before a row is looked at
    suffix = f".{ending.lstrip('.')}" if ending else kind.formats[0].suffixes[0]
    kind.format_for(Path(f"x{suffix}"))
    rows = with_seeds(checked_rows(pipe, read_rows(source), common, count), seed, count)
    hashed = [hashed_row(pipe, row) for row in rows]
    if not merge_equal:
        require_different(hashed)
    load = functools.partial(loaded, model, **settings, loras=lora or (), speed=speed, load=stages is None)
    share = threads or max((os.cpu_count() or 1) // workers, 1)
    place = {"threads": share, "device": device or "cpu"}
    read = functools.partial(row_inputs, base=Path.cwd())
    setup = Setup(load, read, output.absolute(), share, one_of_each(rows))

    def planned(shared: dict[str, Any]) -> Plan:
        plan, before = Plan.of(shared, rows, hashed, suffix, place), Plan.read(output)
        if before is not None:
            plan.require_same(before, output)
        else:
            plan.write(output)
        return plan

    with locked(output), FilesBar(quiet or json) as tell:
        sweep(output)
        tell_place(require_own(output, rows, suffix, known_early(pipe)), place)
        made = workers_of(backend, setup, workers, address, chain)
        driver = Driver(made, output, planned, attempts=attempts, stall=stall, tell=tell)
        try:
            report = driver.run()
        except KeyboardInterrupt:
            done = driver.report
            told = (
                f"{done.there + done.made} of {done.rows} files are there" if done.rows else "No worker was ready yet"
            )
            raise InterruptedRun(f"{told}. The same command goes on.") from None
    show(report, output, json)
    if report.failed:
        raise typer.Exit(ExitCode.INCOMPLETE)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of a batch.")],
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Where the model is; without it nothing is made again.")
    ] = None,
    replays: Annotated[int, typer.Option(min=0, help="So many files are made again and compared.")] = 3,
    scheduler: Annotated[str | None, typer.Option("--scheduler", "--sampler", help="As the batch was made.")] = None,
    guider: Annotated[str | None, typer.Option(help="As the batch was made.")] = None,
    lora: Annotated[list[str] | None, typer.Option(help="As the batch was made.")] = None,
    dtype: Annotated[str, typer.Option(help="As the batch was made.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="As the batch was made.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Whether every planned file is there, none besides, each made from its row; with --model some are made again."""
    from ..fleet.making import Maker, Setup
    from ..fleet.verifying import verify as look

    def maker(plan: Plan) -> Maker:
        load = functools.partial(
            loaded, str(model), dtype=dtype, device=None, workflow=None, scheduler=scheduler, guider=guider,
            loras=lora or (),
        )  # fmt: skip
        return Maker(Setup(load, row_inputs, folder, threads))

    with err.status("looking at every file") as status:
        found = look(
            folder,
            maker if model is not None else None,
            replays=replays,
            tell=lambda count: None if quiet or json else status.update(f"{count} files looked at"),
        )
    if json:
        print_json({"fine": found.fine, **vars(found)})
    else:
        for name, why in found.wrong.items():
            out.print(f"[bold red]wrong[/] {name}: {why}", highlight=False)
        for word, names in (("missing", found.missing), ("not planned", found.strange)):
            for name in names[:LISTED]:
                out.print(f"[bold red]{word}[/] {name}", highlight=False)
            if len(names) > LISTED:
                out.print(f"[dim]… and {len(names) - LISTED} more; --json lists all[/]", highlight=False)
        word = "[bold green]as planned[/]" if found.fine else "[bold red]not as planned[/]"
        counts = (
            f"{found.files} files, {len(found.missing)} missing, {len(found.strange)} besides, {len(found.wrong)} wrong"
        )
        out.print(f"{word}: {counts}, {found.replayed} made again", highlight=False)
    if not found.fine:
        raise typer.Exit(ExitCode.DIFFERENT)


@app.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="The folder of a batch.")],
    target: Annotated[Path, typer.Argument(help="A new folder for the shards.")],
    megabytes: Annotated[int, typer.Option(min=1, help="Of a shard, at most.")] = 1000,
    json: Json = False,
) -> None:
    """Put the files into shards of tar (WebDataset), each with its words and inputs."""
    from ..fleet.packing import pack as put

    shards = put(folder, target, most_bytes=megabytes * 10**6)
    if json:
        print_json({"shards": [str(shard) for shard in shards]})
    else:
        out.print(f"[bold green]{target}[/]  {len(shards)} shards", highlight=False)


def chain_of(stages: str | None, places: str | None) -> Chain | None:
    """`1,2,1` and `texts=small` as numbers, and as resources by stage."""
    from ..fleet.workers import STAGES

    pairs = [pair.partition("=") for pair in places.split(",")] if places else []
    for name, _, resource in pairs:
        if name not in STAGES or not resource:
            raise UnknownNameError("stage (written stage=resource)", name, STAGES)
    if stages is None:
        if pairs:
            raise InputError("--places is for --stages: give both.")
        return None
    counts = numbers(stages, "--stages")
    if len(counts) != len(STAGES):
        raise InputError(f"--stages wants three numbers ({', '.join(STAGES)}), got {stages!r}.")
    return counts, {name: resource for name, _, resource in pairs}


def workers_of(backend: str, setup: Setup, count: int, address: str | None, chain: Chain | None = None) -> Workers:
    """The workers of a backend."""
    if chain is not None:
        if backend != "ray":
            raise InputError("--stages are actors of Ray: give --backend ray, or leave it out.")
        from ..fleet.ray_stages import RayStages

        return RayStages(setup, chain[0], address, chain[1])
    if backend == "ray":
        from ..fleet.ray import RayWorkers

        return RayWorkers(setup, count, address)
    from ..fleet.local import LocalWorkers

    if address is not None:
        raise InputError("--address is that of a Ray cluster: give --backend ray, or leave it out.")
    return LocalWorkers(setup, count)


def tell_place(before: Plan | None, place: Mapping[str, Any]) -> None:
    """Say it where a batch goes on with other threads or elsewhere: that is allowed, and may round otherwise."""
    from ..fleet.plan import told_differences

    if before is not None and before.place and (told := told_differences(before.place, place)):
        err.print(
            f"[yellow]note[/] {told}: new files may differ in the last bits from what they would have been. Give what "
            "it was to go on as it was begun.",
            highlight=False,
        )


def sweep(folder: Path) -> None:
    """What a death left half-written goes."""
    for path in folder.glob(".*.part"):
        path.unlink(missing_ok=True)


class FilesBar:
    """A bar of files made, for as long as a batch runs."""

    def __init__(self, hidden: bool) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=err, disable=hidden, transient=True)
        self._task = self._bar.add_task("loading", total=None)

    def __enter__(self) -> Any:
        self._bar.start()
        return self.tell

    def tell(self, report: Tally) -> None:
        told = "".join(f", {len(report.failed)} failed" * bool(report.failed))
        told += f", {report.deaths} deaths" * bool(report.deaths)
        self._bar.update(
            self._task, total=report.rows or None, completed=report.there + report.made, description=f"making{told}"
        )

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def show(report: Tally, output: Path, as_json: bool) -> None:
    """What came of it."""
    counted: Mapping[str, Any] = {**vars(report), "folder": str(output)}
    if as_json:
        print_json(counted)
        return
    for number, why in report.failed.items():
        out.print(f"[bold red]row {number + 1}[/] {why}", highlight=False)
    for name in report.damaged[:LISTED]:
        out.print(f"[bold yellow]made again[/] {name}: it had another size than was written", highlight=False)
    rate = f" in {report.seconds - report.loading:.1f} s, {report.rate:.2f} a second" if report.made else ""
    was = f"{report.there} were there, " * bool(report.there)
    loading = f" (loaded in {report.loading:.1f} s)"
    out.print(
        f"[bold green]{output}[/]  {was}{report.made} made{rate}, {len(report.failed)} failed{loading}", highlight=False
    )
