"""`lockstep parity zoom | inject`: one node or one step at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import InputError
from ..console import err, out
from .compare import show
from .options import Floor, Html, Json, Library, Traces, Verbose, examples
from .proofs import compared, name_causes, run_of
from .runs import RunRecipe, Side, load


def zoom(
    reference: Traces,
    candidate: Traces,
    at: Annotated[
        str | None, typer.Option("--at", help="step|path|slot, or a module's path; the first difference if left out.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the two short traces with full tensors.")
    ] = None,
    floor: Floor = None,
    html: Html = None,
    json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Look at one node alone: record both sides again up to it with full tensors, and run the candidate's node on
    the reference's inputs."""
    from ...parity.recording.node_alone import node_options

    before = compared(reference, candidate, floor)
    key = _key(at, reference, before)
    partner = node.other if (node := before.node(str(key))) is not None and node.other is not None else key
    runs = [RunRecipe.of(trace) for trace in (reference, candidate)]
    sides = [load(run) for run in runs if run is not None] if all(runs) else []
    paths = [reference, candidate]
    if sides:
        folder = output or reference.with_suffix(".zoom")
        paths = [folder / "ref.trace", folder / "cand.trace"]
        for side, name, trace, own in zip(sides, ("ref", "cand"), paths, (key, partner), strict=True):
            side.record(trace, name, **node_options(own))
    else:
        err.print("[yellow]These traces do not say how they were recorded: shown is what they hold of this node.[/]")
    beside = reference.with_suffix(".floor")
    comparison = compared(paths[0], paths[1], floor or (beside if beside.is_file() else None))
    node = comparison.node(str(key))
    if node is None:
        raise InputError(f"Neither run computes `{key}` any more; `lockstep parity diff` lists what there is.")
    comparison.first = node
    if sides:
        node.local_error = _own_error(sides[1], paths[0], key, partner)
    comparison.nodes = [n for n in comparison.nodes if n.order <= node.order]
    comparison.reference_path, comparison.candidate_path = str(paths[0]), str(paths[1])
    name_causes(comparison, *sides)
    show(comparison, html, None, json, strict=False, verbose=verbose)


def _key(at: str | None, reference: Path, before: Any) -> Any:
    """The node in question: a key, the first call of a path, or what `diff` finds first."""
    from ...parity import Key, Trace

    if at is not None and at.count("|") == 2:
        return Key.parse(at)
    if at is not None:
        found = [e.key for e in Trace.open(reference).entries if e.key.path == at and not e.key.is_input]
        if not found:
            raise InputError(f"{reference} has no value of {at!r}; give step|path|slot as `diff` prints it.")
        return found[0]
    if before.first is None:
        raise InputError("There is no difference to zoom in on; name a node with --at.")
    return before.first.key


def _own_error(side: Side, trace: Path, key: Any, partner: Any) -> float | None:
    """Error of the candidate's module when it is given the reference's inputs."""
    from ... import parity
    from ...parity.errors import ParityError
    from ...parity.recording.targets import find_target

    path, own = (k.path.partition("/")[0] for k in (key, partner))
    module = find_target(side.target, side.name).named_modules().get(own)
    if module is None or key.is_input or key.is_operation:
        return None
    try:
        results = parity.local(trace, module, path, step=key.step, call=key.call)
    except (ParityError, TypeError, RuntimeError):  # a node that cannot be called by itself says nothing
        return None
    return max((r.local_error for r in results if r.local_error is not None), default=None)


def inject(
    reference: Traces,
    candidate: Annotated[
        str, typer.Argument(help="A recorded trace of the candidate, a model's folder, or FILE.py:FUNCTION.")
    ],
    at: Annotated[str, typer.Option("--at", help="denoise:02, denoise:*, post_loop, or a module's path.")],
    what: Annotated[str, typer.Option(help="inputs of the module, or its outputs.")] = "inputs",
    library: Library = "lockstep",
    closure: Annotated[
        bool,
        typer.Option("--closure/--no-closure", help="Refuse if a consumed value is neither injected nor proven equal."),
    ] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where the candidate's trace goes.")] = None,
    floor: Floor = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Run the candidate on the reference's values at one place: what differs after it is its own error."""
    from ... import parity

    side = load(_candidate(candidate, reference, library))
    trace = output or reference.with_suffix(".injected.trace")
    injection = parity.inject(side.target, reference, at, what=what, require_closure=closure, name=side.name)
    with injection:
        side.record(trace, "cand")
    comparison = after_injection(compared(reference, trace, floor), at)
    replaced = [value for value in injection.values if not value.proven_equal]
    err.print(
        f"[dim]{len(replaced)} values replaced, {len(injection.values) - len(replaced)} proven equal[/]",
        highlight=False,
    )
    if not json:
        for value in sorted(replaced, key=lambda v: -v.error)[:5]:
            out.print(f"  [dim]own value was off by {value.error:.1e}:[/] {value.key}", highlight=False)
    name_causes(comparison, None, side)
    show(comparison, html, None, json, strict=False)


def _candidate(candidate: str, reference: Path, library: str) -> RunRecipe:
    """How to run the candidate: as its trace says, or as the reference was asked."""
    if Path(candidate).suffix == ".trace" or RunRecipe.of(Path(candidate)) is not None:
        return run_of(Path(candidate))
    asked = RunRecipe.of(reference)
    return replace(asked, model=candidate, library=library) if asked is not None else RunRecipe(candidate, library)


def after_injection(comparison: Any, at: str) -> Any:
    """Only what was computed from the injected values counts; the verdict is made again from it."""
    from ...parity import Thresholds
    from ...parity.comparison.results import Coverage, Verdict
    from ...parity.comparison.verdict import assign_roles, decide

    if comparison.verdict is Verdict.INVALID:
        return comparison
    nodes = [n for n in comparison.nodes if _is_after(n.key, at)]
    if not nodes:
        raise InputError(f"Nothing was compared at {at!r}; name a step or a module's path as `diff` prints it.")
    for node in nodes:
        node.role = type(node.role).NONE
    comparison.nodes, comparison.coverage = (
        nodes,
        Coverage(len(nodes), len(nodes), by_kind={"injected": (len(nodes), len(nodes))}),
    )
    comparison.reasons, comparison.origins, comparison.first = [], [], None
    assign_roles(nodes, Thresholds())
    decide(comparison, Thresholds())
    return comparison


def _is_after(key: Any, at: str) -> bool:
    if at == "post_loop":
        return key.step == "-" and (key.path.startswith("vae.dec") or key.path in ("vae", "@pipeline"))
    if at.endswith(":*"):
        return str(key.step).startswith(at[:-1])
    if ":" in at:
        head, _, number = at.partition(":")
        return str(key.step) == f"{head}:{int(number):02d}"
    return str(key.path) == at or str(key.path).startswith((f"{at}.", f"{at}/"))


COMMANDS = [
    (zoom, examples("zoom ref.trace cand.trace", "zoom ref.trace cand.trace --at 'denoise:00|unet.mid_block|out'")),
    (
        inject,
        examples(
            "inject ref.trace cand.trace --at denoise:02",
            "inject ref.trace ./my-port --at unet.mid_block",
            "inject ref.trace cand.trace --at post_loop",
        ),
    ),
]
