"""`lockstep parity`: are two implementations the same, where is the first difference, and why."""

from __future__ import annotations

import typer

from . import parity_compare, parity_config, parity_faults, parity_files, parity_nodes
from .parity_options import EXIT, guarded

app = typer.Typer(
    name="parity", no_args_is_help=True, rich_markup_mode="rich", epilog=EXIT, pretty_exceptions_enable=False,
    help="Prove that two implementations are the same, or show the first difference and its cause.",
)  # fmt: skip

for module in (parity_compare, parity_nodes, parity_config, parity_files, parity_faults):
    for command, epilog in module.COMMANDS:
        app.command(epilog=epilog)(guarded(command))
