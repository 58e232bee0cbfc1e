"""`lockstep demo`: a sheet of pictures from the embedded model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from .console import err, out, print_json
from .pipelines import DEFAULT_MODEL

PROMPTS = [
    "a red heart", "a dog", "a rocket", "a slice of pizza",
    "a rose", "a penguin", "a house", "an elephant",
    "a purple banana", "a cat on a blue background", "a green rocket, flat style", "the sun",
]  # fmt: skip
COLUMNS, LABEL = 4, 18


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the sheet goes.")] = Path("out/demo.png"),
    seed: Annotated[int, typer.Option(help="Picture k has seed + k.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Draw a sheet of pictures for several prompts with the embedded model."""
    from ..files import atomic
    from ..pipelines.pipeline import DiffusionPipeline
    from .preview import TerminalPicture, can_show

    started = time.perf_counter()
    pipe = DiffusionPipeline.from_pretrained(DEFAULT_MODEL)
    if json:
        pipe.set_progress_bar_config(disable=True)
    loaded = time.perf_counter()
    pictures = pipe(PROMPTS, seed=seed).images
    took = time.perf_counter() - loaded
    sheet = contact_sheet(pictures, PROMPTS)
    with atomic(output) as temporary:
        sheet.save(temporary, format="PNG")
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


def contact_sheet(pictures: list, prompts: list[str]):  # type: ignore[no-untyped-def, type-arg]
    """The pictures in rows with their prompts underneath."""
    from PIL import Image, ImageDraw

    width, height = pictures[0].size
    rows = -(-len(pictures) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width, rows * (height + LABEL)), "white")
    draw = ImageDraw.Draw(sheet)
    for index, (picture, prompt) in enumerate(zip(pictures, prompts, strict=True)):
        left, top = index % COLUMNS * width, index // COLUMNS * (height + LABEL)
        sheet.paste(picture, (left, top))
        draw.text((left + 4, top + height + 3), prompt, fill="black")
    return sheet
