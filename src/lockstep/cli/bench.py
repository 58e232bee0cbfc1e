"""`lockstep bench`: every way to compute a model that is here, measured in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, NotFoundError, UnknownNameError, close_to
from .console import err, out, print_json
from .env import describe_machine
from .new import examples
from .options import Json
from .pipelines import DEFAULT_MODEL

if TYPE_CHECKING:
    from ..measure.growth import Growth
    from ..measure.runs import Table, Way
    from ..measure.subjects import Subject

PICTURE = "picture"
PEER = "diffusers"  # what ratios are against
# set of instructions -> what tells each library to use no better one, before torch is loaded
INSTRUCTIONS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "LOCKSTEP_KERNELS": "avx2",
    },
    "avx512": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "LOCKSTEP_KERNELS": "avx512"},  # without bf16
}
RUN = {"prompt": "a red heart", "seed": 0}
FACTS = ("processor", "cores", "threads", "instructions", "native bf16", "kernels", "torch", "lockstep")
EXAMPLES = examples(
    "bench", "bench sd15-unet --batch 2 --plot unet.png", "bench --part picture", "bench --growth size,batch --json"
)


def bench(
    model: Annotated[
        str,
        typer.Argument(
            help="A pipeline's folder, file or hub id, or sizes with random weights: sd15-unet, sd15-decoder, "
            "flux-blocks, wan-block."
        ),
    ] = DEFAULT_MODEL,
    part: Annotated[
        str | None, typer.Option(help="Which component (the denoiser unless you say), or picture: a whole run.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Rows and columns of the latents.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Samples in a call.")] = 1,
    steps: Annotated[int, typer.Option(min=1, help="Of a picture.")] = 20,
    rounds: Annotated[int, typer.Option(min=1, help="Calls of each side; the best counts.")] = 3,
    only: Annotated[
        str | None, typer.Option(help="Sides, separated by semicolons: 'lockstep, exact; openvino'.")
    ] = None,
    compiled: Annotated[bool, typer.Option(help="Also diffusers by torch.compile, which takes minutes.")] = False,
    growth: Annotated[
        str | None, typer.Option(help="Instead: how time grows with size, batch, steps, threads (some of them).")
    ] = None,
    instructions: Annotated[
        str | None,
        typer.Option(
            help="avx2, or avx512 (without bf16): what no side may go beyond, as if the processor had no more."
        ),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it to this PNG, too.")] = None,
    json: Json = False,
) -> None:
    """Measure a model by every level, engine and peer that is installed, in turn; ratios, errors, memory."""
    if instructions is not None:
        _imitate(instructions)
    from ..kernels import keep_freed_memory
    from ..measure import growth as growing
    from ..measure import plot as drawing
    from ..measure.runs import measured

    axes = [growing.axis_of(axis) for axis in (growth or "").split(",") if axis.strip()]
    if plot is not None and plot.suffix.lower() != ".png":
        raise InputError(f"--plot wants the name of a PNG, got {plot}.")
    keep_freed_memory()  # for all sides
    facts = {name: describe_machine()[name] for name in FACTS}
    machine = "  ".join(f"{name}: {value}" for name, value in facts.items())
    with err.status("measuring") as status:
        tell: Callable[[str], object] = lambda text: status.update(text)  # noqa: E731
        if axes:
            grown = _grown(axes, model, part, size, batch, rounds, _names(only), tell)
            picture, tables = drawing.lines(grown, machine) if plot else None, [one.as_json() for one in grown]
        else:
            title, sides = _sides(model, part, size, batch, steps, compiled)
            table = measured(title, _chosen(sides, only), rounds, tell, reference=PEER)
            picture, tables = drawing.bars([table], machine) if plot else None, [table.as_json()]
    if picture is not None and plot is not None:
        from ..files import atomic

        with atomic(plot) as temporary:
            picture.save(temporary, format="PNG")
    if json:
        print_json({"machine": facts, "tables": tables, "plot": None if plot is None else str(plot)})
        return
    out.print(machine, style="dim", highlight=False, markup=False)
    for one in grown if axes else ():
        _print_growth(one)
    if not axes:
        _print_table(table)
    if plot is not None:
        out.print(f"[bold green]{plot}[/]", highlight=False)


def _imitate(instructions: str) -> None:
    """Let every library use this set of instructions; torch reads it once, when it is loaded."""
    if instructions not in INSTRUCTIONS:
        raise UnknownNameError("set of instructions", instructions, INSTRUCTIONS)
    wanted = INSTRUCTIONS[instructions]
    if "torch" in sys.modules and any(os.environ.get(name) != value for name, value in wanted.items()):
        raise InputError(f"torch is loaded already; start with {' '.join(f'{k}={v}' for k, v in wanted.items())}.")
    os.environ.update(wanted)


def _sides(
    model: str, part: str | None, size: int | None, batch: int, steps: int, compiled: bool
) -> tuple[str, list[Way]]:
    """What the table is about, and who is in it."""
    from ..files import resolve_folder
    from ..measure.peers import peer_sides
    from ..measure.sides import own_sides, picture_sides

    if part == PICTURE:
        sides = picture_sides(_loader(model), lambda: resolve_folder(model), {**RUN, "num_inference_steps": steps})
        return f"a picture of {model}, {steps} steps", sides
    subject = _subject(model, part, size, batch)
    shown = f", latents of {size or subject.size}" if size or subject.size else ""
    peers = peer_sides(subject, compiled)
    return f"{model}: {subject.name}{shown}, batch {batch}", [peers[0], *own_sides(subject), *peers[1:]]


def _subject(model: str, part: str | None, size: int | None, batch: int) -> Subject:
    from ..measure.subjects import PRESETS, model_of, preset

    if model in PRESETS:
        return preset(model, size, batch)
    try:
        pipe = _loader(model)()
    except NotFoundError:
        if close_to(model, PRESETS):
            raise UnknownNameError("model or sizes", model, PRESETS) from None
        raise
    return model_of(pipe, part, size, batch)


def _chosen(sides: list[Way], only: str | None) -> list[Way]:
    """Those that were asked for."""
    names = _names(only)
    if names is None:
        return sides
    known = [side.name for side in sides]
    for name in names:
        if name not in known:
            raise UnknownNameError("side", name, known)
    return [side for side in sides if side.name in names]


def _names(only: str | None) -> list[str] | None:
    return None if only is None else [name.strip() for name in only.split(";") if name.strip()]


def _grown(
    axes: list[tuple[str, tuple[int, ...]]], model: str, part: str | None, size: int | None, batch: int, rounds: int,
    only: list[str] | None, tell: Callable[[str], object],
) -> list[Growth]:  # fmt: skip
    """Each axis, by the levels of our own."""
    from ..measure.growth import by_level, of_model, of_run

    grown, of_models = [], [what for what, _ in axes if what != "steps"]
    if of_models:
        tell("preparing the levels")
        subject = _subject(model, part, size, batch)
        models = by_level(subject, only)
    for what, values in axes:
        if what == "steps":
            grown.append(of_run(_loader(model), only, RUN, values, rounds, tell))
        else:
            grown.append(of_model(subject, models, what, values, rounds, tell))
    return grown


def _loader(model: str) -> Callable[[], Any]:
    from ..pipelines.pipeline import DiffusionPipeline

    return lambda: DiffusionPipeline.from_pretrained(model, dtype="float32")


def _print_table(table: Table) -> None:
    from rich.table import Table as Grid

    grid = Grid("side", "best (s)", "all", "×", "relative L2", "holds (MiB)", "a call takes (MiB)", "ready in (s)",
                title=table.title, title_justify="left")  # fmt: skip
    for side in table.present:
        grid.add_row(
            side.name, f"{side.best:.4g}", " ".join(f"{value:.3g}" for value in side.seconds),
            f"{table.ratio(side):.2f}", f"{side.error:.1e}", f"{side.held_mib:.0f}", f"{side.peak_mib:.0f}",
            f"{side.ready_seconds:.1f}",
        )  # fmt: skip
    out.print(grid)
    out.print(f"[dim]× and relative L2 are against {table.reference}[/]", highlight=False)
    for side in table.sides:
        if side.absent is not None:
            out.print(f"[dim]{side.name}: left out, {side.absent}[/]", highlight=False)


def _print_growth(growth: Growth) -> None:
    from rich.table import Table as Grid

    grid = Grid(
        growth.what,
        *(f"{level} (s)" for level in growth.seconds),
        *(f"{level} takes (MiB)" for level in growth.peak_mib),
    )
    for place, value in enumerate(growth.values):
        grid.add_row(
            str(value),
            *(f"{points[place]:.4g}" for points in growth.seconds.values()),
            *(f"{points[place]:.0f}" for points in growth.peak_mib.values()),
        )
    out.print(grid)
