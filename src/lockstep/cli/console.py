"""What every command shares: where it prints, and how it fails."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import typer
from rich.console import Console

from .. import errors
from .exit_codes import exit_code_of


class Output(Console):
    """Standard output; that nobody reads on is told to the command as Python tells it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


out = Output()  # what the person asked for
err = Console(stderr=True)  # everything else: progress, hints, errors


def print_json(value: Any) -> None:
    """One JSON document on standard output, uncoloured where it is piped."""
    if out.is_terminal:
        out.print_json(json.dumps(value, default=str))
    else:
        sys.stdout.write(json.dumps(value, default=str) + "\n")


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line for people, without the place in the source that Python adds."""
    err.print("[bold yellow]note[/] ", end="")
    err.print(str(message), markup=False, highlight=False, soft_wrap=True)


def fail(problem: errors.LockstepError, as_json: bool) -> NoReturn:
    """Say what went wrong, without a traceback, and leave."""
    code = exit_code_of(problem)
    notes = getattr(problem, "__notes__", [])
    if as_json:
        print_json({"error": type(problem).__name__, "message": str(problem), "notes": notes, "exit_code": code})
    else:
        stopped = isinstance(problem, errors.InterruptedRun)
        err.print("[bold yellow]interrupted[/] " if stopped else "[bold red]error[/] ", end="")
        err.print(str(problem), markup=False, highlight=False, soft_wrap=True)
        for note in notes:
            err.print(note, style="dim", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)
