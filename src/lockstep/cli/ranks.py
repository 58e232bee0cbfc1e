"""`--parallel cfg=2`: a command on several ranks, which it starts on this machine where torchrun has not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Annotated, Any

import typer

Parallel = Annotated[
    str | None,
    typer.Option(
        help="Spread the model over ranks: cfg=2, ulysses=2, ring=2, fsdp=4, with commas between several. They are "
        "started on this machine, unless torchrun has started this command."
    ),
]


def start_ranks(parallel: str | None) -> None:
    """Run this very command on as many ranks as the degrees make, unless it is one of them."""
    if parallel is None:
        return
    from ..parallel import ParallelConfig

    ranks = ParallelConfig.from_text(parallel).ranks
    if ranks > 1 and "WORLD_SIZE" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command = [sys.executable, *launcher, "-m", "lockstep", *sys.argv[1:]]
        raise typer.Exit(subprocess.run(command, check=False).returncode)


def spread(pipe: Any, parallel: str | None) -> bool:
    """Share a pipeline's models among the ranks; whether this is the one that writes files and speaks."""
    if parallel is None:
        return True
    from ..parallel import ParallelConfig

    pipe.enable_parallelism(ParallelConfig.from_text(parallel))
    return bool(pipe.parallelism.is_first)
