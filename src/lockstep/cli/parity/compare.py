"""`lockstep parity record | floor | diff | prove | explain`: from two models to a verdict and its cause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from ...errors import InputError, NotFoundError
from ..console import err, out, print_json
from ..exit_codes import exit_code_of_verdict
from .options import (
    DEFAULT_FLOOR,
    Dtype,
    Evaluations,
    Floor,
    Floors,
    Guidance,
    Height,
    Html,
    Json,
    Junit,
    Level,
    Library,
    Map,
    Model,
    Negative,
    Prompt,
    Seed,
    Steps,
    Strict,
    Traces,
    Verbose,
    Width,
    Without,
    examples,
    there,
)  # fmt: skip
from .proofs import compared, is_trace, measure_floor, name_causes, proof, proof_with_trace, run_of
from .ranks import OneByOne, Parallel, own_trace
from .recorded import tell_recorded
from .runs import RunRecipe, both, load


def record(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the trace goes (a folder of its own).")] = Path(
        "run.trace"
    ),
    library: Library = "lockstep",
    prompt: Prompt = RunRecipe.prompt, negative_prompt: Negative = None, seed: Seed = 0, steps: Steps = 4,
    guidance_scale: Guidance = None, height: Height = None, width: Width = None, dtype: Dtype = "float32",
    level: Level = "module+ops",
    keep: Annotated[
        list[str] | None, typer.Option(help="sketch (2 KB a value), full, or PATTERN=full; repeat for more.")
    ] = None,
    stop_at: Annotated[
        str | None, typer.Option(help="End the run early: preloop, denoise:01, post_loop or a module's path.")
    ] = None,
    inputs: Annotated[
        Path | None, typer.Option(help="Of a MODEL.onnx: a .safetensors or .npz file with its inputs by name.")
    ] = None,
    parallel: Parallel = None, one_by_one: OneByOne = False,
    json: Json = False,
) -> None:  # fmt: skip
    """Run a model once and write down everything it computes, without editing it."""
    if model.endswith(".onnx"):
        return _record_onnx(Path(model), inputs, output, json)
    if parallel is not None:  # between modules ranks do what one process does not; shares are joined as a whole
        output, level, keep = own_trace(output), "module", keep or ["full"]
    run = RunRecipe(
        model, library, prompt, negative_prompt, seed, steps, guidance_scale, height, width, dtype, level,
        parallel=parallel, one_by_one=one_by_one,
    )  # fmt: skip
    rules = keep_rules(keep or [])
    err.print(f"[dim]loading {run.label}[/]", highlight=False)
    recorder = load(run).record(output, keep=rules, stop_at=stop_at)
    tell_recorded(output, recorder.stopped, json)


def _record_onnx(model: Path, inputs: Path | None, output: Path, json: bool) -> None:
    from ...parity.recording.onnx_graph import read_arrays, record_onnx

    if inputs is None:
        raise InputError(f"{model} needs --inputs FILE.safetensors or FILE.npz, with the inputs of the graph by name.")
    record_onnx(model, read_arrays(inputs), output)
    tell_recorded(output, None, json)


def keep_rules(words: list[str]) -> str | dict[str, str]:
    """`full`, or `unet.*=full` more than once."""
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    rules = {}
    for word in words:
        pattern, equals, mode = word.rpartition("=")
        if not equals:
            raise InputError(f"--keep is sketch, full or PATTERN=full; got {word!r} beside others.")
        rules[pattern] = mode
    return rules or "sketch"


def floor(
    trace: Traces,
    runs: Floors = DEFAULT_FLOOR,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="TRACE.floor if left out.")] = None,
    json: Json = False,
) -> None:
    """Measure how much the reference differs from itself: what a right port may differ by, value by value."""
    measured = measure_floor(load(run_of(trace)), trace, runs, output)
    typical = sorted(value.f for key in measured.errors if (value := measured.value(key)) is not None)
    facts = {
        "floor": str(measured.path),
        "runs": measured.runs,
        "values": len(measured.errors),
        "median": typical[len(typical) // 2],
        "largest": typical[-1],
    }
    if json:
        print_json(facts)
        return
    out.print(f"[bold green]{measured.path}[/]: {len(measured.errors)} values, {len(measured.runs)} runs, "
              f"median {facts['median']:.1e}, largest {facts['largest']:.1e}", highlight=False)  # fmt: skip


def diff(
    reference: Traces,
    candidate: Traces,
    floor: Floor = None, map: Map = None, html: Html = None, junit: Junit = None, json: Json = False,
    strict: Strict = False,
    explain: Annotated[bool, typer.Option("--explain", help="Load both sides again and try causes on them.")] = False,
    without: Without = None, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Compare two traces: PASS, NOISE, BUG with the first node, DRIFT, INVALID or INCONCLUSIVE."""
    comparison = compared(reference, candidate, floor, map, without)
    sides = [load(run) if explain and (run := RunRecipe.of(trace)) else None for trace in (reference, candidate)]
    name_causes(comparison, *sides, map=map)
    show(comparison, html, junit, json, strict, verbose)


def show(
    comparison: Any, html: Path | None, junit: Path | None, json: bool, strict: bool, verbose: bool = False
) -> None:
    """Print and write one comparison, then leave with its exit code."""
    from ...files import write_text
    from ...parity import report as reports

    report = reports.build(comparison, pictures=html is not None)
    if html is not None:
        write_text(html, reports.to_html(report))
    if junit is not None:
        write_text(junit, reports.to_junit(report))
    if json:
        print_json(reports.to_json(comparison))
    else:
        out.print(reports.to_terminal(report), highlight=False)
        if report.command:  # on one line, so that it can be copied
            out.print(f"\n[bold]This node alone:[/] [cyan]{escape(report.command)}[/]", highlight=False, soft_wrap=True)
        for path in (html, junit):
            if path is not None:
                out.print(f"[dim]report:[/] [bold]{path}[/]", highlight=False)
    if verbose and comparison.search is not None:
        _show_search(comparison.search)
    if not comparison.verdict.passes(strict):
        raise typer.Exit(exit_code_of_verdict(comparison.verdict, strict))


def _show_search(log: Any) -> None:
    """How the causes were looked for: runs, what the models refused, and the traceback of what failed."""
    refused = ", ".join(f"{count} with {kind}" for kind, count in sorted(log.misfits.items())) or "none"
    err.print(f"[dim]looked for causes in {log.runs} runs; refused by the model: {refused}[/]", highlight=False)
    for failed in log.failed_hypotheses:
        err.print(f"\n{failed.describe()}\n{failed.traceback}", style="dim", markup=False, highlight=False)


def prove(
    reference: Annotated[
        str, typer.Argument(help="A model's folder or hub id, FILE.py:FUNCTION, or a trace of any framework.")
    ],
    candidate: Annotated[
        str | None,
        typer.Argument(help="Another model, FILE.py:FUNCTION, or the port's trace; the same folder if left out."),
    ] = None,
    reference_library: Annotated[str, typer.Option(help="What runs the reference's folder.")] = "diffusers",
    library: Annotated[str, typer.Option(help="What runs the candidate's folder.")] = "lockstep",
    prompt: Prompt = RunRecipe.prompt, negative_prompt: Negative = None, seed: Seed = 0, steps: Steps = 4,
    guidance_scale: Guidance = None, height: Height = None, width: Width = None, dtype: Dtype = "float32",
    level: Level = "module+ops",
    runs: Floors = DEFAULT_FLOOR,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for traces, floor and reports.")] = Path(
        "out/parity"
    ),
    map: Map = None, html: Html = None, junit: Junit = None, json: Json = False, strict: Strict = False,
    rounding: Annotated[
        bool, typer.Option("--rounding", help="Also look for the cause of differences inside the floor.")
    ] = False,
    evaluations: Evaluations = 3000,
    without: Without = None,
    verbose: Verbose = False,
) -> None:  # fmt: skip
    """Record both sides, measure the floor, compare, and name the cause: the whole proof in one command."""
    asked = RunRecipe(
        reference, reference_library, prompt, negative_prompt, seed, steps, guidance_scale, height, width, dtype, level
    )
    options: dict[str, Any] = {"rounding": rounding, "evaluations": evaluations, "without": without}
    for side in (reference, candidate or ""):
        if side.endswith((".safetensors", ".trace")) and not Path(side).exists():
            raise NotFoundError(f"There is no trace at {side}.")
    if is_trace(reference) or (candidate is not None and is_trace(candidate)):
        comparison = proof_with_trace(asked, reference, candidate, library, output, runs, map, **options)
    else:
        first, second = (load(run) for run in both(asked, candidate, library))
        comparison = proof(first, second, output, runs, map, **options)
    show(comparison, html or output / "report.html", junit, json, strict, verbose)


def explain(
    reference: Annotated[
        Path, typer.Argument(help="The reference's trace, or a report that `diff --json` printed.", callback=there)
    ],
    candidate: Annotated[Path | None, typer.Argument(help="The candidate's trace.", callback=there)] = None,
    floor: Floor = None, map: Map = None, html: Html = None, json: Json = False, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Name the cause of a difference with its proof: both sides are run again with one thing changed at a time."""
    if candidate is None:
        reference, candidate, floor = traces_of_report(reference, floor)
    comparison = compared(reference, candidate, floor, map)
    sides = [load(run) if (run := RunRecipe.of(trace)) else None for trace in (reference, candidate)]
    if comparison.first is not None and not any(sides):
        err.print(
            "[yellow]Neither trace says how it was recorded: only what the recorded values prove can be named.[/]"
        )
    name_causes(comparison, *sides, map=map)
    show(comparison, html, None, json, strict=False, verbose=verbose)


def traces_of_report(report: Path, floor: Path | None) -> tuple[Path, Path, Path | None]:
    import json

    try:
        data = json.loads(report.read_text(encoding="utf-8"))
        paths = Path(data["reference_path"]), Path(data["candidate_path"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise InputError(
            f"{report} is no report of `lockstep parity diff --json` ({problem}); or give two traces."
        ) from problem
    return (*paths, floor or (Path(data["floor_path"]) if data.get("floor_path") else None))


COMMANDS = [
    (
        record,
        examples(
            "record ./stable-diffusion-v1-5 --library diffusers -o ref.trace --prompt 'a cat' --seed 7",
            "record ./stable-diffusion-v1-5 -o cand.trace --prompt 'a cat' --seed 7 --keep 'unet.mid_block.*=full'",
            "record my_port.py:build -o cand.trace",
            "record my_port.onnx --inputs inputs.safetensors -o cand.trace",
            "record ./wan -o run.trace --parallel cfg=2    (by torchrun --nproc-per-node 2 -m lockstep …)",
        ),
    ),
    (floor, examples("floor ref.trace", "floor ref.trace --runs fp64,ulp,ulp,sdpa:math,threads:1,batch")),
    (
        diff,
        examples(
            "diff ref.trace cand.trace",
            "diff ref.trace cand.trace --floor ref.floor --html report.html --junit report.xml",
            "diff candle.safetensors cand.trace --map names.toml --json",
        ),
    ),
    (
        prove,
        examples(
            "prove ./stable-diffusion-v1-5",
            "prove ./stable-diffusion-v1-5 --steps 8 --seed 3 --html report.html",
            "prove reference.py:build port.py:build -o out/port",
            "prove candle.safetensors port.py:build --rounding",
            "prove reference.py:build port.safetensors",
        ),
    ),
    (explain, examples("explain ref.trace cand.trace", "explain report.json")),
]
