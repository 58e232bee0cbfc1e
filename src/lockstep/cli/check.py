"""`lockstep check`: the checklist of an integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import err, out, print_json
from .exit_codes import ExitCode
from .new import Package, examples, home_of
from .options import Json

EXAMPLES = examples("check z_image", "check sunrise --package ./sunrise-models", "check z_image --no-run --json")


def check(
    name: Annotated[str, typer.Argument(help="Of the family, scheduler or guider, as `lockstep new` was given it.")],
    package: Package = None,
    run: Annotated[bool, typer.Option("--run/--no-run", help="Also import it and put its model to the test.")] = True,
    json: Json = False,
) -> None:
    """Go through the checklist of an integration; every finding has a file, a line and a remedy."""
    from ..kit.checks.checklist import check_family, not_for, rules
    from ..kit.checks.registered import not_installed
    from ..kit.checks.source import family_in
    from ..kit.new import FamilyNames
    from ..kit.pitfalls import describe

    family = family_in(FamilyNames.of(name).name, home_of(package))
    with err.status("checking") as status:
        found = check_family(family, run, lambda rule: status.update(f"checking: {rule}"))
    left_out = {rule: why for rule in rules(run) if (why := not_for(rule, family))}
    findings = [one for of_rule in found.values() for one in of_rule]
    if json:
        rows = [{**vars(one), "path": str(_shown(one.path))} for one in findings]
        counted = {rule: len(of) for rule, of in found.items()}
        print_json({"name": family.name, "rules": counted, "left_out": left_out, "findings": rows})
    else:
        for rule in rules(run):
            if rule in left_out:
                out.print(f"[dim]– {rule}: {left_out[rule]}[/]", highlight=False)
                continue
            of_rule = found[rule]
            out.print(f"[{'red' if of_rule else 'green'}]{'✗' if of_rule else '✓'}[/] {rule}", highlight=False)
            for one in of_rule:
                place = f"{_shown(one.path)}:{one.line}"
                out.print(f"    {place}: {one.message}", markup=False, highlight=False, soft_wrap=True)
                out.print(f"      → {one.remedy}", style="cyan", markup=False, highlight=False, soft_wrap=True)
                if one.pitfall:
                    out.print(f"      {describe(one.pitfall)}", style="dim", markup=False, highlight=False)
    if waiting := not_installed(family):
        told = f"{', '.join(waiting)}: found by name once the package is installed (again): pip install -e ."
        err.print(f"[yellow]{told}[/]", highlight=False, soft_wrap=True)
    if findings:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
