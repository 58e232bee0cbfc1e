"""What every command shares: where it prints, how it fails, and what its exit code means."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer
from rich.console import Console

from .. import errors

EXIT_CODES = {0: "done", 1: "a bug in Lockstep", 2: "an input or option is wrong", 3: "a model or file is missing, damaged or does not fit",
              4: "the result had NaN or Inf", 5: "a replay differs", 130: "interrupted"}  # fmt: skip
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (errors.ReplayError, 5),
    (errors.NonFiniteError, 4),
    (errors.LoadError, 3),
    (errors.InterruptedRun, 130),
    (errors.LockstepError, 2),
)

out = Console()  # what the person asked for
err = Console(stderr=True)  # everything else: progress, hints, errors


def exit_code_of(problem: BaseException) -> int:
    """The exit code that a script can branch on."""
    return next((code for kind, code in _CODES if isinstance(problem, kind)), 1)


def print_json(value: Any) -> None:
    """One JSON document on standard output, uncoloured where it is piped."""
    if out.is_terminal:
        out.print_json(json.dumps(value, default=str))
    else:
        sys.stdout.write(json.dumps(value, default=str) + "\n")


def fail(problem: errors.LockstepError, as_json: bool) -> NoReturn:
    """Say what went wrong, without a traceback, and leave."""
    code = exit_code_of(problem)
    notes = getattr(problem, "__notes__", [])
    if as_json:
        print_json({"error": type(problem).__name__, "message": str(problem), "notes": notes, "exit_code": code})
    else:
        err.print("[bold red]error[/] ", end="")
        err.print(str(problem), markup=False, highlight=False, soft_wrap=True)
        for note in notes:
            err.print(note, style="dim", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)
