"""`lockstep parity stages`: encode, decode, denoise in that order, up to the first that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from ...errors import InputError
from ..console import err, out, print_json
from ..exit_codes import ExitCode
from ..new import Package, home_of
from .options import Guidance, Height, Json, Negative, Prompt, Seed, Width, examples
from .runs import RunRecipe, both, load

if TYPE_CHECKING:
    from ...kit.stages import StageResult

STEPS = 30  # a schedule as people run it; the stage of the loop ends after two of them


def stages(
    reference: Annotated[str, typer.Argument(help="FILE.py:FUNCTION that returns (pipeline, call), or a folder.")],
    port: Annotated[str, typer.Argument(help="The same of the port; the same folder runs in Lockstep.")],
    begin: Annotated[str | None, typer.Option("--from", help="encode, decode or denoise; others are left out.")] = None,
    family: Annotated[str | None, typer.Option(help="Keep the result for `lockstep check` of this family.")] = None,
    package: Package = None,
    prompt: Prompt = RunRecipe.prompt, negative_prompt: Negative = None, seed: Seed = 0,
    steps: Annotated[int, typer.Option(min=4, help="Of a folder's schedule, at the length that people use.")] = STEPS,
    guidance_scale: Guidance = None, height: Height = None, width: Width = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the traces.")] = Path("out/stages"),
    json: Json = False,
) -> None:  # fmt: skip
    """Run encode, decode and denoise of two pipelines, each on the reference's values; stop at the first that fails."""
    from ...kit.stages import StageSide, walk_stages

    if family is not None and begin is not None:
        raise InputError("--family keeps the result of all stages, and --from leaves some out. Give one of them.")
    where = _family(family, package)
    asked = RunRecipe(reference, "diffusers", prompt, negative_prompt, seed, steps, guidance_scale, height, width)
    loaded = [load(run) for run in both(asked, port, "lockstep")]
    sides = [StageSide(one.target, one.call, one.name) for one in loaded]
    results: list[StageResult] = []
    for result in walk_stages(sides[0], sides[1], output, begin):
        results.append(result)
        for one, name in zip(loaded, ("ref", "cand"), strict=True):
            if (result.stage, name) != ("decode", "cand"):  # which ran on latents that no run of its own gives
                one.run.save(output / result.stage / f"{name}.trace")
        if not json:
            _tell(result)
    kept = None if where is None else _keep(where, reference, port, results)
    again = _command(results[-1], reference, port, output) if not results[-1].passed else ""
    if json:
        rows = [
            {"stage": one.stage, "verdict": str(one.verdict), "pitfalls": one.pitfalls, "sentence": one.sentence()}
            for one in results
        ]
        print_json({"stages": rows, "next": again, "result": None if kept is None else str(kept)})
    elif again:
        out.print(f"[bold]Goes on with:[/] [cyan]{escape(again)}[/]", highlight=False, soft_wrap=True)
    elif kept is not None:
        err.print(f"[dim]kept in {kept}[/]", highlight=False)
    if not results[-1].passed:
        raise typer.Exit(ExitCode[str(results[-1].verdict)])


def _family(name: str | None, package: Path | None) -> Any:
    """The family whose result is kept, looked up before anything runs."""
    if name is None:
        return None
    from ...kit.checks.source import family_in
    from ...kit.new import FamilyNames

    return family_in(FamilyNames.of(name).name, home_of(package))


def _tell(result: StageResult) -> None:
    from ...kit.pitfalls import describe, settings_that_differ

    colour = "green" if result.passed else "red"
    out.print(f"[bold {colour}]{result.stage:<8}{result.verdict}[/]  {escape(result.sentence())}", highlight=False)
    for note in result.notes:
        out.print(f"        [dim]{escape(note)}[/]", highlight=False)
    for number in result.pitfalls:
        out.print(f"        looks like [yellow]{describe(number)}[/]", highlight=False)
    wrong = None if result.passed else result.comparison
    for setting in settings_that_differ(wrong)[:5] if wrong is not None else []:
        out.print(f"        {escape(setting)}", highlight=False)


def _keep(family: Any, reference: str, port: str, results: list[StageResult]) -> Path:
    from ...kit.results import save_result

    root = family.home.root
    sides = [_from_root(side, root) for side in (reference, port)]
    return save_result(family, sides[0], sides[1], {one.stage: str(one.verdict) for one in results})


def _from_root(side: str, root: Path) -> str:
    """`FILE.py:FUNCTION` as it is written in the root of the repository."""
    file, colon, name = side.rpartition(":")
    path = Path(file).resolve() if colon else Path(side).resolve()
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return f"{shown}:{name}" if colon else shown


def _command(failed: StageResult, reference: str, port: str, output: Path) -> str:
    """What to run next: the search for the cause, and after the repair the stages from here on."""
    traces = f"{output / failed.stage / 'ref.trace'} {output / failed.stage / 'cand.trace'}"
    rest = f"lockstep parity stages {reference} {port} -o {output}"
    rest += "" if failed.stage == "model" else f" --from {failed.stage}"
    return (
        rest if failed.comparison is None else f"lockstep parity explain {traces}   # and once it is repaired: {rest}"
    )


COMMANDS = [
    (
        stages,
        examples(
            "stages tests/reference_sunrise_pipeline.py:build tests/port_sunrise_pipeline.py:build --family sunrise",
            "stages reference.py:build port.py:build --from decode",
            "stages ./tiny-sd ./tiny-sd --height 32 --width 32",
        ),
    )
]
