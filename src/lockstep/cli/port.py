"""`lockstep port`: where a port stands: weight-map rules by values, missing modules, the first difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import InputError
from ..files import write_text
from .console import err, out, print_json
from .exit_codes import ExitCode
from .new import examples
from .options import AllowPickle, Json

if TYPE_CHECKING:
    from torch import Tensor

    from ..kit.port.missing import Module
    from ..kit.port.rules import Proposal
    from .parity.runs import Side

EXAMPLES = examples(
    "port reference.py:build --weights original.safetensors",
    "port tests/reference_sunrise.py:build_model tests/port_sunrise.py:build_model",
    "port reference.py:build port.py:build --weights original.safetensors --watch",
)
LISTED = 12


def port(
    reference: Annotated[str, typer.Argument(help="FILE.py:FUNCTION that returns (model or pipeline, call).")],
    candidate: Annotated[
        str | None, typer.Argument(metavar="[PORT]", help="The same of the port; left out, nothing is there yet.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="The original checkpoint; the reference's own tensors if left out.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for traces and rules.")] = Path("out/port"),
    watch: Annotated[bool, typer.Option("--watch", help="Compare again at each save of a Python file here.")] = False,
    allow_pickle: AllowPickle = False,
    json: Json = False,
) -> None:
    """Record the reference, propose weight-map rules by values, list what the port lacks, show the first difference."""
    from .parity.options import guarded

    if watch:
        return _watch([reference, *([candidate] if candidate else [])])
    guarded(_port)(reference, candidate, weights, output, allow_pickle, json)


def _port(
    reference: str, candidate: str | None, weights: Path | None, output: Path, allow_pickle: bool, json: bool
) -> None:
    from .. import parity
    from ..kit.port.missing import missing_modules
    from ..kit.port.rules import propose, written
    from .parity.runs import RunRecipe, is_function, load

    for side in (reference, candidate):
        if side is not None and not is_function(side):
            raise InputError(f"A side of a port is FILE.py:FUNCTION that returns (model, call), got {side!r}.")
    one = load(RunRecipe(reference))
    theirs = _tensors(weights, allow_pickle) if weights is not None else _parameters(one)
    traces = [_recorded(one, output / "ref.trace", "ref")]
    other = load(RunRecipe(candidate)) if candidate is not None else None
    ended = True
    if other is not None:
        ended = other.record_or_end(output / "cand.trace", "cand")
        traces.append(output / "cand.trace")
    ours = _parameters(other if other is not None else one)
    proposal = propose(theirs, ours)
    rules = output / "weight_map.py"
    write_text(rules, written(proposal, str(weights or reference), candidate or reference))
    opened = [parity.Trace.open(path) for path in traces]
    missing = missing_modules(opened[0], opened[1] if len(opened) > 1 else None)
    comparison = parity.compare(*traces) if len(traces) > 1 else None
    if json:
        told = {
            "coverage": proposal.coverage,
            "rules": str(rules),
            "rows": proposal.rows,
            "open": {"theirs": proposal.theirs_left, "ours": proposal.ours_left},
            "missing": [vars(module) for module in missing],
            "verdict": None if comparison is None else str(comparison.verdict),
            "first": None if comparison is None or comparison.first is None else str(comparison.first.key),
        }
        print_json(told)
    else:
        _tell(proposal, rules, missing, comparison)
    if comparison is None or not ended or missing or not comparison.verdict.passes(strict=False):
        raise typer.Exit(ExitCode.DIFFERENT)


def _tell(proposal: Proposal, rules: Path, missing: list[Module], comparison: Any) -> None:
    out.print(
        f"[bold]weights[/]  {len(proposal.rows)} rows, {proposal.coverage}: [bold]{rules}[/]",
        highlight=False,
        soft_wrap=True,
    )
    for match in [*proposal.notes, *proposal.guessed][:LISTED]:
        why = match.note or f"a guess by {match.by}"
        out.print(
            f"         {' + '.join(match.theirs)} → {' + '.join(match.ours)}: {why}", markup=False, highlight=False
        )
    for word, names in (("theirs", proposal.theirs_left), ("ours", proposal.ours_left)):
        if names:
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            told = f"         {word} without a partner: {', '.join(names[:LISTED])}{more}"
            out.print(told, markup=False, highlight=False, soft_wrap=True)
    out.print(f"[bold]modules[/]  {len(missing) or 'none'} missing", highlight=False)
    for module in missing:
        inside = f", {module.inside} module{'s' * (module.inside > 1)} inside" if module.inside else ""
        size = f"{module.parameters} numbers{inside}"
        size += f": {', '.join(module.made_of)}" if module.made_of else ""
        told = f"         {module.group}: {module.path} ({module.kind}, {size})"
        out.print(told, markup=False, highlight=False, soft_wrap=True)
    if comparison is not None:
        colour = "green" if comparison.verdict.passes(strict=False) else "red"
        out.print(f"[bold]values[/]   [{colour}]{escape(comparison.sentence())}[/]", highlight=False, soft_wrap=True)


def _recorded(side: Side, path: Path, name: str) -> Path:
    side.record(path, name)
    return path


def _parameters(side: Side) -> dict[str, Tensor]:
    """The tensors of everything that is watched; a pipeline's by the name of the part."""
    from ..parity.recording.targets import find_target

    roots = find_target(side.target, side.name).modules
    alone = len(roots) == 1
    return {
        name if alone else f"{root}.{name}": tensor.detach()
        for root, module in roots.items()
        for name, tensor in module.state_dict().items()
    }


def _tensors(path: Path, allow_pickle: bool) -> dict[str, Tensor]:
    from ..loaders.checkpoint import open_checkpoint
    from ..models.weights import MappedFiles

    opened = MappedFiles()
    return {name: opened.read(tensor) for name, tensor in open_checkpoint(path, allow_pickle, opened).items()}


def _watch(sides: list[str]) -> None:
    """This command again, in a process of its own, now and at each save."""
    from ..kit.port.watching import saves

    again = [sys.executable, "-m", "lockstep", *(word for word in sys.argv[1:] if word != "--watch")]
    folders = {Path.cwd(), *(Path(side.rpartition(":")[0]).resolve().parent for side in sides if ".py:" in side)}
    later = saves(sorted(folders))  # from before the first look on: what is saved meanwhile is not lost
    subprocess.run(again)
    err.print("[dim]watching; ctrl-C ends[/]")
    for changed in later:
        err.print(f"[dim]saved: {', '.join(path.name for path in changed)}[/]", highlight=False)
        subprocess.run(again)
