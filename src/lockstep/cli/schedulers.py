"""`lockstep schedulers`: the schedulers that `generate --scheduler` takes."""

from __future__ import annotations

from .console import out, print_json
from .options import Json


def schedulers(json: Json = False) -> None:
    """List the schedulers that `generate --scheduler` takes."""
    from ..schedulers.names import GRIDS, classes, described

    rows = [described(kind, found) for kind, found in sorted(classes().items())]
    if json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column, style in (("--scheduler", "cyan"), ("class", "dim"), ("what it is", None)):
        table.add_column(column, style=style, overflow="fold")
    for row in rows:
        table.add_row("\n".join(row["names"]), row["class"], row["description"].replace("[", r"\["))
    out.print(table)
    out.print(f"[dim]With an ending for its grid where the class has it: {', '.join(f'euler_{g}' for g in GRIDS)}.[/]")
