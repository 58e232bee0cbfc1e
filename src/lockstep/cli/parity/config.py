"""`lockstep parity config`: what every setting is by the code, by the file, in the live module, and by the tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..console import out, print_json
from ..exit_codes import ExitCode
from .options import Json, examples, there

COLUMNS = ("default", "file", "effective", "implied")
TITLES = {"default": "code default", "file": "checkpoint file", "effective": "effective", "implied": "shapes imply"}


def config(
    reference: Annotated[
        Path,
        typer.Argument(
            help="A trace, a model's or pipeline's folder, a config file, or a .safetensors file.", callback=there
        ),
    ],
    candidate: Annotated[
        Path | None,
        typer.Argument(help="The other side; left out, the columns of one side are compared.", callback=there),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every setting, not only those that disagree.")] = False,
    json: Json = False,
) -> None:
    """Four columns a setting: code default, checkpoint file, effective attribute, and what the tensors' shapes
    imply."""
    from ...parity.comparison.config_table import differing, settings_of

    sides = [settings_of(path, code_defaults) for path in (reference, candidate) if path is not None]
    conflicts = [[s for s in side.values() if s.conflict] for side in sides]
    pairs = differing(*sides) if len(sides) == 2 else []
    if json:
        print_json({
            "conflicts": [[{**_row(s), "conflict": s.conflict} for s in side] for side in conflicts],
            "differing": [{"reference": _row(a), "candidate": _row(b)} for a, b in pairs],
            **({"settings": [[_row(s) for s in side.values()] for side in sides]} if every else {}),
        })  # fmt: skip
    else:
        _print(sides, conflicts, pairs, every, (reference, candidate))
    if pairs or any(conflicts):
        raise typer.Exit(ExitCode.DIFFERENT)


def code_defaults(kind: str) -> dict[str, Any]:
    """The defaults of a class by its published name, as far as Lockstep has it."""
    import lockstep

    from ...configuration import config_defaults

    found = getattr(lockstep, kind, None) if kind in lockstep.__all__ else None
    return dict(config_defaults(found)) if found is not None else {}


def _row(setting: Any) -> dict[str, Any]:
    return {"part": setting.part, "name": setting.name, **{column: getattr(setting, column) for column in COLUMNS}}


def _print(
    sides: list[Any], conflicts: list[list[Any]], pairs: list[Any], every: bool, paths: tuple[Path, Path | None]
) -> None:
    if pairs:
        table = _table("In force, reference and candidate", ("setting", "reference", "candidate"))
        for a, b in pairs:
            table.add_row(_name(a), *(Text(str(s.in_force), "yellow") for s in (a, b)))
        out.print(table)
    for side, wrong, path in zip(sides, conflicts, paths, strict=False):
        for setting in wrong:
            out.print(Text.assemble((f"{path}: ", "dim"), (f"{_name(setting)}: ", "bold red"), setting.conflict))
        listed = (
            list(side.values())
            if every
            else wrong
            if len(sides) == 2
            else [s for s in side.values() if s.implied is not None or s.conflict]
        )
        if listed:
            table = _table(str(path), ("setting", *TITLES.values()))
            for setting in listed:
                cells = ["" if (value := getattr(setting, column)) is None else str(value) for column in COLUMNS]
                table.add_row(_name(setting), *map(Text, cells), style="red" if setting.conflict else "")
            out.print(table)
    if not pairs and not any(conflicts):
        out.print(
            f"[bold green]nothing disagrees[/]: {sum(len(side) for side in sides)} settings looked at", highlight=False
        )


def _name(setting: Any) -> str:
    return f"{setting.part}.{setting.name}" if setting.part else str(setting.name)


def _table(title: str, columns: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


COMMANDS = [
    (
        config,
        examples(
            "config ./stable-diffusion-v1-5",
            "config unknown.safetensors",
            "config ref.trace cand.trace",
            "config ./sd15/unet ./port/unet --json",
        ),
    )
]
