"""`lockstep parity record | floor | diff | prove | explain`: from two models to a verdict and its cause."""

from __future__ import annotations

import math
import time
from dataclasses import replace
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
from .runs import RunRecipe, Side, both, load

TOLD_EVERY = 30.0  # seconds, where there is no terminal
FULL_ELEMENTS = 1 << 26  # that a second recording may keep whole: 256 MB in float32


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
    json: Json = False,
) -> None:  # fmt: skip
    """Run a model once and write down everything it computes, without editing it."""
    if model.endswith(".onnx"):
        return _record_onnx(Path(model), inputs, output, json)
    run = RunRecipe(model, library, prompt, negative_prompt, seed, steps, guidance_scale, height, width, dtype, level)
    rules = keep_rules(keep or [])
    err.print(f"[dim]loading {run.label}[/]", highlight=False)
    recorder = load(run).record(output, keep=rules, stop_at=stop_at)
    _tell_recorded(output, recorder.stopped, json)


def _record_onnx(model: Path, inputs: Path | None, output: Path, json: bool) -> None:
    from ...parity.recording.onnx_graph import read_arrays, record_onnx

    if inputs is None:
        raise InputError(f"{model} needs --inputs FILE.safetensors or FILE.npz, with the inputs of the graph by name.")
    record_onnx(model, read_arrays(inputs), output)
    _tell_recorded(output, None, json)


def _tell_recorded(output: Path, stopped: str | None, json: bool) -> None:
    from ...parity import Trace

    trace = Trace.open(output)
    facts: dict[str, Any] = {
        "trace": str(output),
        "values": len(trace.entries),
        "parameters": len(trace.params),
        "steps": len(trace.steps),
        "bytes": sum(f.stat().st_size for f in output.iterdir()),
        "stopped_at": stopped,
    }
    if json:
        print_json(facts)
        return
    size = sum(f.stat().st_size for f in output.iterdir()) / 1e6
    out.print(
        f"[bold green]{output}[/]: {facts['values']} values, {facts['parameters']} parameters, {size:.1f} MB",
        highlight=False,
    )
    err.print(
        f"[dim]Next: lockstep parity floor {output}   ·   lockstep parity diff {output} OTHER.trace[/]", highlight=False
    )


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


def run_of(trace: Path) -> RunRecipe:
    run = RunRecipe.of(trace)
    if run is None:
        raise InputError(
            f"{trace} does not say how it was recorded ({trace.with_suffix('.run.json').name} is not beside it), so "
            "it cannot be run "
            "again from here: record it with `lockstep parity record`, or use the Python functions (docs/parity.md)."
        )
    return run


def measure_floor(side: Side, trace: Path, runs: str, output: Path | None = None) -> Any:
    from ... import parity

    wanted = [word.strip() for word in runs.split(",") if word.strip()]
    return parity.floor(side.target, trace, runs=wanted, call=side.call, path=output, name=side.name)


def diff(
    reference: Traces,
    candidate: Traces,
    floor: Floor = None,
    map: Map = None,
    html: Html = None,
    junit: Junit = None,
    json: Json = False,
    strict: Strict = False,
    explain: Annotated[bool, typer.Option("--explain", help="Load both sides again and try causes on them.")] = False,
    without: Without = None,
    verbose: Verbose = False,
) -> None:
    """Compare two traces: PASS, NOISE, BUG with the first node, DRIFT, INVALID or INCONCLUSIVE."""
    comparison = compared(reference, candidate, floor, map, without)
    sides = [load(run) if explain and (run := RunRecipe.of(trace)) else None for trace in (reference, candidate)]
    name_causes(comparison, *sides, map=map)
    show(comparison, html, junit, json, strict, verbose)


def compared(
    reference: Path,
    candidate: Path,
    floor: Path | None = None,
    map: Path | None = None,
    without: list[str] | None = None,
) -> Any:
    from ... import parity

    beside = reference.with_suffix(".floor")
    floor = floor or (beside if beside.is_file() else None)
    return parity.compare(reference, candidate, floor=floor, map=map or "auto", without=without or ())


def name_causes(
    comparison: Any,
    reference: Side | None = None,
    candidate: Side | None = None,
    *,
    map: Path | None = None,
    **options: Any,
) -> None:
    """Diagnose a difference on what is loaded; with nothing loaded, on the recorded values alone."""
    from ...parity.comparison.results import Verdict

    if comparison.verdict not in (Verdict.BUG, Verdict.DRIFT, Verdict.NOISE):
        return
    from ...parity.causes.diagnosis import Live, diagnose

    live = [Live(s.target, s.call, s.name) if s is not None else None for s in (reference, candidate)]
    if any(node.arranged for node in comparison.nodes):
        options["traces"] = _in_one_order(comparison, map)
    with err.status("looking for the cause") as status:
        told = time.monotonic()

        def tell(words: str) -> None:
            nonlocal told
            status.update(f"looking for the cause: {escape(words)}")
            if not err.is_terminal and time.monotonic() - told > TOLD_EVERY:  # a log has no line that changes
                told = time.monotonic()
                err.print(f"[dim]looking for the cause: {escape(words)}[/]", highlight=False)

        diagnose(comparison, reference=live[0], candidate=live[1], map=map or "auto", tell=tell, **options)
    if comparison.search is not None and comparison.search.interrupted:
        err.print("[yellow]the search for the cause was interrupted[/]; shown is what was found until then")


def _in_one_order(comparison: Any, map: Path | None) -> tuple[Any, Any]:
    """Both traces as they were compared: what is kept in another order read in the reference's."""
    from ...parity import Trace
    from ...parity.comparison.answer import arranged_traces

    traces = Trace.open(comparison.reference_path), Trace.open(comparison.candidate_path)
    return arranged_traces(*traces, map or "auto")


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
        comparison = _proof_with_trace(asked, reference, candidate, library, output, runs, map, **options)
    else:
        first, second = (load(run) for run in both(asked, candidate, library))
        comparison = proof(first, second, output, runs, map, **options)
    show(comparison, html or output / "report.html", junit, json, strict, verbose)


def _proof_with_trace(
    asked: RunRecipe, reference: str, candidate: str | None, library: str, output: Path, runs: str, map: Path | None,
    **options: Any,
) -> Any:  # fmt: skip
    if candidate is None:
        raise InputError(f"{reference} is a trace: say what to prove against it, a model's folder or FILE.py:FUNCTION.")
    if is_trace(reference) and is_trace(candidate):
        comparison = compared(Path(reference), Path(candidate), map=map)
        name_causes(comparison, map=map, **options)
        return comparison
    if is_trace(candidate):
        return proof_against(Path(candidate), load(asked), output, runs, map, turned=True, **options)
    return proof_against(
        Path(reference), load(replace(asked, model=candidate, library=library)), output, runs, map, **options
    )


def is_trace(reference: str) -> bool:
    """A single file of tensors, or a folder that a recording wrote."""
    path = Path(reference)
    written = any((path / name).is_file() for name in ("events.jsonl", "trace.json"))
    return written or (path.suffix == ".safetensors" and path.is_file())


def proof_against(
    trace: Path,
    side: Side,
    folder: Path,
    runs: str,
    map: Path | None = None,
    turned: bool = False,
    without: list[str] | None = None,
    **options: Any,
) -> Any:
    """Like `proof` where one side is there as a trace alone: the floor is the live side's, and causes are tried on it.

    The trace is the reference; `turned`: it is the candidate.
    """
    from ... import parity

    level = parity.Trace.open(trace).meta.get("level", "module")  # a damaged one is refused before anything runs
    name = "ref" if turned else "cand"
    path = folder / f"{name}.trace"
    pair = (path, trace) if turned else (trace, path)
    err.print(f"[dim]recording {side.run.label}, the {'reference' if turned else 'candidate'}[/]", highlight=False)
    if not side.record_or_end(path, name, level=level):  # a foreign trace has no operations to compare with
        return parity.compare(*pair, map=map or "auto", without=without or ())
    err.print(f"[dim]measuring the floor of {side.run.label} ({runs})[/]", highlight=False)
    floor = measure_floor(side, path, runs)
    comparison = parity.compare(*pair, floor=floor, map=map or "auto", without=without or ())
    keep = _to_keep(comparison, path, turned)
    if keep:
        err.print(f"[dim]recording {_words(keep)} in full[/]", highlight=False)
        side.record(path, name, level=level, keep=keep)
        comparison = parity.compare(*pair, floor=floor, map=map or "auto", without=without or ())
    sides = (side, None) if turned else (None, side)
    name_causes(comparison, *sides, map=map, floor=floor, **options)
    return comparison


def proof(
    reference: Side,
    candidate: Side,
    folder: Path,
    runs: str,
    map: Path | None = None,
    without: list[str] | None = None,
    **options: Any,
) -> Any:
    """Record, measure, compare, and where they differ: zoom in and diagnose."""
    paths = folder / "ref.trace", folder / "cand.trace"
    ended = True
    for side, path, name in ((reference, paths[0], "ref"), (candidate, paths[1], "cand")):
        err.print(f"[dim]recording {side.run.label}[/]", highlight=False)
        ended = side.record_or_end(path, name) and ended
    if not ended:
        return compared(*paths, map=map, without=without)
    err.print(f"[dim]measuring the floor of {reference.run.label} ({runs})[/]", highlight=False)
    measure_floor(reference, paths[0], runs)
    comparison = compared(*paths, map=map, without=without)
    again = [(reference, paths[0], "ref", True), (candidate, paths[1], "cand", False)]
    for side, path, name, of_reference in again:
        keep = _to_keep(comparison, path, of_reference)
        if keep:
            err.print(f"[dim]recording {_words(keep)} in full[/]", highlight=False)
            side.record(path, name, keep=keep)
    if any(_to_keep(comparison, path, of_reference) for _, path, _, of_reference in again):
        comparison = compared(*paths, map=map, without=without)
    name_causes(comparison, reference, candidate, map=map, **options)
    return comparison


def _to_keep(comparison: Any, trace: Path, of_reference: bool) -> dict[str, str]:
    """What the second recording of a side keeps in full: the first bad node, and what only full tensors can compare."""
    from ...parity.recording.node_alone import keep_node
    from ...parity.trace.names import Key, literal

    keep: dict[str, str] = {}
    first = comparison.first
    if first is not None and not first.exact and not (of_reference and first.arranged):
        keep |= keep_node((first.key if of_reference else first.other) or first.key)
    if not of_reference and comparison.unmeasured:
        keep |= {"*": "sketch", **{literal(Key.parse(key).path): "full" for key in comparison.unmeasured}}
        elements = sum(math.prod(e.shape) for e in _entries(trace) if keep.get(literal(e.key.path)) == "full")
        if elements > FULL_ELEMENTS:
            return {}
    return keep


def _entries(trace: Path) -> list[Any]:
    from ...parity import Trace

    return Trace.open(trace).entries


def _words(keep: dict[str, str]) -> str:
    paths = [path for path in keep if keep[path] == "full" and not path.endswith("/*")]
    return f"`{paths[0]}`" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")


def explain(
    reference: Annotated[
        Path, typer.Argument(help="The reference's trace, or a report that `diff --json` printed.", callback=there)
    ],
    candidate: Annotated[Path | None, typer.Argument(help="The candidate's trace.", callback=there)] = None,
    floor: Floor = None,
    map: Map = None,
    html: Html = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
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
