"""`lockstep port`: where a port stands: weight-map rules by values, missing modules, the first difference."""

from __future__ import annotations

import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ..errors import InputError, LockstepError, NotFoundError
from ..files import write_text
from .console import err, out, print_json
from .exit_codes import ExitCode, exit_code_of_verdict, explained
from .new import examples
from .options import AllowPickle, Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from ..kit.port.missing import Module
    from ..kit.port.rules import Proposal
    from .parity.runs import Side

EXAMPLES = examples(
    "port reference.py:build --weights original.safetensors",
    "port tests/reference_sunrise.py:build_model tests/port_sunrise.py:build_model",
    "port reference.py:build port.py:build --weights original.safetensors --watch",
) + "\n\n" + explained((ExitCode.DONE, ExitCode.BUG, ExitCode.DRIFT, ExitCode.DIFFERENT, ExitCode.RAISED))  # fmt: skip
LISTED = 12
INDEX = ".index.json"  # beside shards: which tensor is in which file


def port(
    reference: Annotated[str, typer.Argument(help="FILE.py:FUNCTION that returns (model or pipeline, call).")],
    candidate: Annotated[
        str | None, typer.Argument(metavar="[PORT]", help="The same of the port; left out, nothing is there yet.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="The original checkpoint, its folder or the index of its shards; the reference's tensors if left out."
        ),
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
    traces = [output / "ref.trace"]
    ended = one.record_or_end(traces[0], "ref")
    other, problem = _built(candidate)
    if other is not None:
        traces.append(output / "cand.trace")
        other.record_or_end(traces[1], "cand")
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
            "not_finite": proposal.not_finite,
            "covered": proposal.covers_ours,
            "missing": [vars(module) for module in missing],
            "problem": problem,
            "verdict": None if comparison is None else str(comparison.verdict),
            "first": None if comparison is None or comparison.first is None else str(comparison.first.key),
        }
        print_json(told)
    else:
        _tell_weights(proposal, rules, weights, None if other is None else candidate)
        _tell(missing, comparison, weights)
    code = ExitCode.RAISED if problem or not ended else ExitCode.DIFFERENT  # with no port: what is missing
    if comparison is not None:
        code = exit_code_of_verdict(comparison.verdict)
    open_points = missing or (weights is not None and not proposal.covers_ours)
    raise typer.Exit(ExitCode.DIFFERENT if open_points and code == ExitCode.DONE else code)


def _built(candidate: str | None) -> tuple[Side | None, str]:
    """The port's side, or why it cannot be built yet: the plan of the reference is worth having all the same."""
    from .parity.runs import RunRecipe, load

    if candidate is None:
        return None, ""
    try:
        return load(RunRecipe(candidate)), ""
    except LockstepError as problem:
        if problem.__cause__ is None and not _came_by_the_port(problem):  # the command is wrong, not the port
            raise
        err.print(
            f"[yellow]{escape(str(problem))}[/] Until the port can be built, this is the plan of the reference alone.",
            highlight=False,
            soft_wrap=True,
        )
        return None, str(problem)


def _came_by_the_port(problem: LockstepError) -> bool:
    """Whether an error went through code that is not the command line's: the port's own, which asked for it."""
    here = Path(__file__).resolve().parent
    return any(
        not Path(frame.filename).resolve().is_relative_to(here) for frame in traceback.extract_tb(problem.__traceback__)
    )


def _tell_weights(proposal: Proposal, rules: Path, weights: Path | None, candidate: str | None) -> None:
    """What the rows cover, and what they leave open; without a port there is nothing of ours to speak of."""
    from ..kit.port.rules import guess

    ours = "ours" if candidate is not None else "the reference's"
    coverage = proposal.coverage_of(ours)
    if candidate is None and weights is None:
        coverage = f"{proposal.total[0]} tensors of the reference, no port to take them to yet"
    out.print(
        f"[bold]weights[/]  {len(proposal.rows)} rows, {escape(coverage)}: [bold]{escape(str(rules))}[/]",
        highlight=False,
        soft_wrap=True,
    )
    for match in [*proposal.notes, *proposal.guessed][:LISTED]:
        told = f"         {_some(match.theirs, ' + ')} → {_some(match.ours, ' + ')}: {guess(match)}"
        out.print(told, markup=False, highlight=False, soft_wrap=True)
    for told, names in (
        ("NaN or Inf in theirs", proposal.not_finite),
        ("theirs without a partner", proposal.theirs_left),
        (f"{ours} without a partner", proposal.ours_left),
    ):
        if names:
            out.print(f"         {told}: {_some(names)}", markup=False, highlight=False, soft_wrap=True)
    if weights is not None and not proposal.covers_ours:
        told = f"         [red]DIFFERENT: {escape(str(weights))} does not hold all that {ours} needs[/]"
        out.print(told, highlight=False, soft_wrap=True)


def _some(names: Sequence[str], between: str = ", ") -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return between.join(names[:LISTED]) + more


def _tell(missing: list[Module], comparison: Any, weights: Path | None) -> None:
    """What is to be built, and whether the values agree."""
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
        if weights is not None:
            told = f"         of both sides with the weights that they load themselves, not with {weights}"
            out.print(told, markup=False, highlight=False, soft_wrap=True)


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
    """Every tensor of a checkpoint: of one file, or of the shards that an index names."""
    from ..loaders.checkpoint import open_checkpoint
    from ..loaders.quantised import dequantised
    from ..models.weights import MappedFiles, open_pickles, open_shards, open_weights

    opened, file = MappedFiles(), _weights_in(path) if path.is_dir() else path
    if file.name.endswith(INDEX):
        pickled = file.name.removesuffix(INDEX).endswith(".bin")
        if pickled and not allow_pickle:
            raise InputError(f"{file} names pickles. --allow-pickle reads the tensors of them, and runs nothing.")
        stored = dequantised(open_shards(file, open_pickles if pickled else open_weights), opened)
    else:
        stored = open_checkpoint(file, allow_pickle, opened)
    return {name: opened.read(tensor) for name, tensor in stored.items()}


def _weights_in(folder: Path) -> Path:
    """The index of shards in a folder, or its only file of weights."""
    for pattern in (f"*{INDEX}", "*.safetensors", "*.bin"):
        found = sorted(path for path in folder.glob(pattern) if path.name != "model_index.json")
        if len(found) > 1:
            listed = ", ".join(path.name for path in found)
            raise InputError(f"{folder} holds several checkpoints: {listed}. Name one of them with --weights.")
        if found:
            return found[0]
    raise NotFoundError(f"There are no weights in {folder}: looked for *{INDEX}, *.safetensors, *.bin.")


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
