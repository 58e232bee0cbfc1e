"""`lockstep demo`: a sheet of pictures from the embedded model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .console import err, out, print_json
from .options import Json, Overwrite
from .pipelines import DEFAULT_MODEL
from .targets import Targets

PROMPTS = [
    "a red heart", "a dog", "a rocket", "a slice of pizza",
    "a rose", "a penguin", "a cat on a blue background", "the sun",
    "two dogs", "an apple and a banana", "a bird on top of a house", "three yellow stars",
]  # fmt: skip


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the sheet goes.")] = Path("out/demo.png"),
    overwrite: Overwrite = False,
    seed: Annotated[int, typer.Option(help="Picture k has seed + k.")] = 0,
    json: Json = False,
) -> None:
    """Draw a sheet of pictures for several prompts with the embedded model."""
    from ..media import contact_sheet, kind_named
    from ..pipelines.pipeline import DiffusionPipeline
    from .preview import TerminalPicture, can_show

    started, kind = time.perf_counter(), kind_named("picture")
    targets = Targets(output, kind, 1, overwrite)
    pipe = DiffusionPipeline.from_pretrained(DEFAULT_MODEL)
    if json:
        pipe.set_progress_bar_config(disable=True)
    loaded = time.perf_counter()
    pictures = pipe(PROMPTS, seed=seed).images
    took = time.perf_counter() - loaded
    sheet = contact_sheet(pictures, PROMPTS)
    output = kind.write(sheet, targets.next())
    if json:
        print_json({"path": str(output), "prompts": PROMPTS, "load_seconds": loaded - started, "run_seconds": took})
        return
    if can_show(out):
        out.print(TerminalPicture(sheet, 96))
    out.print(
        f"[bold green]{output}[/]: {len(PROMPTS)} pictures, loaded in {loaded - started:.1f} s, made in {took:.1f} s",
        highlight=False,
    )
    err.print('[dim]Next: lockstep generate "a fox"   ·   lockstep generate --help   ·   lockstep schema[/]')
