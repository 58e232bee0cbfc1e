"""`lockstep parity`: are two implementations the same, where is the first difference, and why."""

from __future__ import annotations

import typer

from . import compare, config, faults, files, nodes, ranks, stages
from .options import MEANING, guarded

app = typer.Typer(
    name="parity", no_args_is_help=True, rich_markup_mode="rich", epilog=MEANING, pretty_exceptions_enable=False,
    help="Prove that two implementations are the same, or show the first difference and its cause.",
)  # fmt: skip

for module in (compare, stages, nodes, config, files, faults, ranks):
    for command, epilog in module.COMMANDS:
        app.command(epilog=epilog)(guarded(command))
