"""Options that the parity commands share, and how they fail."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar

import typer

from ...errors import FileFormatError, InputError, NotFoundError
from ..exit_codes import ExitCode, explained
from ..options import Json as Json

P = ParamSpec("P")
R = TypeVar("R")


def there(path: Path | None) -> Path | None:
    """A path that was given, if something is at it."""
    if path is not None and not path.exists():
        raise NotFoundError(f"There is nothing at {path}.")
    return path


Model = Annotated[
    str, typer.Argument(help="A model's folder or hub id, or FILE.py:FUNCTION that returns (model, call).")
]
Traces = Annotated[
    Path,
    typer.Argument(
        help="A trace: a folder that `record` wrote, or a .safetensors file of any framework.", callback=there
    ),
]
Library = Annotated[str, typer.Option(help="What runs a model's folder: lockstep or diffusers.")]
Prompt = Annotated[str, typer.Option(help="What both sides are asked for.")]
Negative = Annotated[str | None, typer.Option("--negative-prompt", help="What the picture has not to show.")]
Seed = Annotated[int, typer.Option(help="Of the generator.")]
Steps = Annotated[int, typer.Option(min=1, help="Steps of the loop.")]
Guidance = Annotated[float | None, typer.Option("--guidance-scale", help="The model's own if left out.")]
Height = Annotated[int | None, typer.Option(help="Of the picture; the model's own if left out.")]
Width = Annotated[int | None, typer.Option(help="Of the picture; the model's own if left out.")]
Dtype = Annotated[str, typer.Option(help="float32, float64, bfloat16, float16. Only float32 or better can PASS.")]
Level = Annotated[str, typer.Option(help="module, or module+ops for the operations between modules too.")]
Floors = Annotated[
    str, typer.Option("--runs", help="Re-runs of the reference: fp64, ulp, rerun, batch, threads:N, sdpa:math …")
]
Html = Annotated[Path | None, typer.Option("--html", help="Write the report as one self-contained page.")]
Junit = Annotated[Path | None, typer.Option("--junit", help="Write the report as JUnit XML.")]
Strict = Annotated[bool, typer.Option("--strict", help="NOISE is a failure too (exit code 10).")]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Also show how causes were looked for, and the traceback of what failed.")
]
Floor = Annotated[
    Path | None, typer.Option("--floor", help="A measured floor; REFERENCE.floor is taken if it is there.")
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", help="A value that does not count, by path, output name or pattern; may be repeated."),
]
Evaluations = Annotated[
    int, typer.Option(min=1, help="How many hypotheses to try on the suspect part; large parts count as several.")
]
Map = Annotated[
    Path | None, typer.Option("--map", help="A TOML file that names partners, where names and weights do not tell.")
]
DEFAULT_FLOOR = "fp64,ulp,ulp"
MEANING = explained(code for code in ExitCode if code == ExitCode.DONE or ExitCode.NOISE <= code < ExitCode.INTERRUPTED)


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Errors of the parity tree become errors of the command line: a message and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from ...parity.errors import InvalidTrace, ParityError

        try:
            return command(*args, **kwargs)
        except InvalidTrace as problem:
            raise FileFormatError(str(problem)) from problem
        except ParityError as problem:
            raise InputError(str(problem)) from problem

    return run


def examples(*lines: str) -> str:
    return "Examples:\n\n" + "\n\n".join(f"  lockstep parity {line}" for line in lines) + f"\n\n{MEANING}"
