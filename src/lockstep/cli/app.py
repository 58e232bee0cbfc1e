"""The command line, put together."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from typing import Annotated, Protocol, runtime_checkable

import typer

from .. import __version__
from ..errors import LockstepError
from .batch import app as batch
from .bench import EXAMPLES as BENCH_EXAMPLES
from .bench import bench
from .capacity import app as capacity
from .check import EXAMPLES as CHECK_EXAMPLES
from .check import check
from .client import app as client
from .console import err, fail, print_json, show_warning
from .convert import EXAMPLES as CONVERT_EXAMPLES
from .convert import convert
from .demo import demo
from .diff import EXAMPLES as DIFF_EXAMPLES
from .diff import diff
from .env import env
from .exit_codes import ExitCode, explained
from .generate import EXAMPLES, PipelineCommand, generate
from .inspect import EXAMPLES as INSPECT_EXAMPLES
from .inspect import inspect
from .lora import lora
from .new import app as new
from .parity import app as parity
from .port import EXAMPLES as PORT_EXAMPLES
from .port import port
from .replay import replay
from .schedulers import schedulers
from .schema import blocks, schema
from .serve import EXAMPLES as SERVE_EXAMPLES
from .serve import serve
from .train import train
from .tune import EXAMPLES as TUNE_EXAMPLES
from .tune import tune


@runtime_checkable
class UsageProblem(Protocol):
    """The parser's own errors know how to show themselves."""

    def show(self) -> None: ...
    def format_message(self) -> str: ...


app = typer.Typer(
    name="lockstep", help="Runs, ports and proves diffusion models.", epilog=explained(ExitCode), no_args_is_help=True,
    rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=True,
)  # fmt: skip


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"lockstep {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Runs, ports and proves diffusion models."""


extra = {"allow_extra_args": True, "ignore_unknown_options": True}
app.command(cls=PipelineCommand, context_settings=extra, epilog=EXAMPLES)(generate)
app.command()(demo)
app.command()(replay)
app.command()(schema)
app.command()(blocks)
app.command()(schedulers)
app.command()(env)
app.command(epilog=BENCH_EXAMPLES)(bench)
app.command(epilog=TUNE_EXAMPLES)(tune)
app.command(epilog=INSPECT_EXAMPLES)(inspect)
app.command(epilog=CONVERT_EXAMPLES)(convert)
app.command(epilog=DIFF_EXAMPLES)(diff)
app.command(epilog=SERVE_EXAMPLES)(serve)
app.command(epilog=CHECK_EXAMPLES)(check)
app.command(epilog=PORT_EXAMPLES)(port)
app.add_typer(batch)
app.add_typer(capacity)
app.add_typer(client)
app.add_typer(new)
app.add_typer(parity)
app.add_typer(train, name="train")
app.add_typer(lora, name="lora")


def run(arguments: list[str] | None = None) -> None:
    """Run the command line; errors of Lockstep's own tree become a message and an exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                code = app(words, standalone_mode=False, prog_name="lockstep")
            sys.stdout.flush()
            if code == ExitCode.INTERRUPTED:  # the parser takes ctrl-C for itself
                raise KeyboardInterrupt
        except LockstepError as problem:
            fail(problem, as_json="--json" in words)
    except typer.Exit as leave:
        code = leave.exit_code
    except PermissionError as problem:
        err.print(f"[bold red]error[/] {problem.filename}: {problem.strerror}. Is it yours to read or write?")
        code = ExitCode.NOT_LOADED
    except OSError as problem:
        if not _is_of_the_output(problem):
            raise
        code = _output_ended(problem)
    except (KeyboardInterrupt, typer.Abort):
        err.print("interrupted")
        code = ExitCode.INTERRUPTED
    except Exception as problem:
        if not isinstance(problem, UsageProblem):
            raise
        code = ExitCode.WRONG_USE
        if "--json" in words:
            print_json({"error": "UsageError", "message": problem.format_message(), "notes": [], "exit_code": code})
        else:
            problem.show()
    sys.exit(code or 0)


def _is_of_the_output(problem: OSError) -> bool:
    """Whether it is standard output that cannot be written; errors of files have their own."""
    return isinstance(problem, BrokenPipeError) or (problem.errno == errno.ENOSPC and problem.filename is None)


def _output_ended(problem: OSError) -> ExitCode:
    """Nobody reads on (`| head`), which is no failure; or where the output goes is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python's last flush has somewhere to go
    if isinstance(problem, BrokenPipeError):
        return ExitCode.DONE
    err.print(f"[bold red]error[/] standard output cannot be written: {problem.strerror}")
    return ExitCode.UNSUPPORTED
