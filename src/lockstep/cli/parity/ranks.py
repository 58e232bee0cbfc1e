"""`lockstep parity merge`: what the ranks of a parallel run recorded as one trace; and how a rank names its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ...errors import NotFoundError
from .options import Json, examples
from .recorded import tell_recorded

Parallel = Annotated[
    str | None,
    typer.Option(
        help="Under torchrun: cfg=2,ulysses=2 … Each rank writes OUTPUT.rankN.trace, which `merge` puts together."
    ),
]
OneByOne = Annotated[
    bool,
    typer.Option("--one-by-one", help="Predict the branches of the guidance one by one, as ranks do, not as a batch."),
]


def merge(
    traces: Annotated[list[Path], typer.Argument(help="The trace of every rank of one run.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the one trace goes (a folder of its own).")],
    json: Json = False,
) -> None:
    """Put the traces of all ranks together: shares of a sequence joined, branches of the guidance as calls."""
    from ...parity.trace.merging import merge as merged

    for path in traces:
        if not path.exists():
            raise NotFoundError(f"There is nothing at {path}.")
    merged(traces, output)
    tell_recorded(output, None, json)


def own_trace(output: Path) -> Path:
    """Where this rank's trace goes: `run.trace` -> `run.rank0.trace`."""
    return output.with_suffix(f".rank{os.environ.get('RANK', '0')}{output.suffix}")


COMMANDS = [
    (
        merge,
        examples(
            "merge run.rank0.trace run.rank1.trace -o run.trace",
            "diff one.trace run.trace",
        ),
    ),
]
