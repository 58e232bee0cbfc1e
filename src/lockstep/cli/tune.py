"""`lockstep tune`: which engine is the fastest for a model here, measured once and remembered."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..errors import UnknownNameError, UnsupportedError
from .console import err, out, print_json
from .new import examples
from .options import Json
from .pipelines import DEFAULT_MODEL

EXAMPLES = examples("tune", "tune ./sd15 --level high", "tune ./sd15 --part unet --again")


def tune(
    model: Annotated[str, typer.Argument(help="A pipeline's folder, file or hub id.")] = DEFAULT_MODEL,
    part: Annotated[str | None, typer.Option(help="Which component; the denoiser unless you say.")] = None,
    level: Annotated[str, typer.Option(help="exact or high: how close to fp32 it has to be.")] = "exact",
    again: Annotated[bool, typer.Option(help="Measure, even if it is remembered.")] = False,
    json: Json = False,
) -> None:
    """Try every engine on a model, and remember the fastest that passes for `accelerate(engine="auto")`."""
    from ..measure.subjects import model_of
    from ..models.accelerated import EXACT, HIGH
    from ..models.examples import example_call
    from ..models.tuning import tune as measure
    from ..pipelines.pipeline import DiffusionPipeline

    if level not in (EXACT, HIGH):
        raise UnknownNameError("level", level, (EXACT, HIGH))
    subject = model_of(DiffusionPipeline.from_pretrained(model, dtype="float32"), part, None, 1)
    call = example_call(subject.model)
    if call is None:
        raise UnsupportedError(f"{subject.name} has no example of a call to measure by.")
    with err.status(f"trying every engine on {subject.name}"):
        found = measure(subject.model, level, call, None, again)
    if json:
        print_json({"model": subject.name, "level": level, **asdict(found)})
        return
    for one in found.tried:
        out.print(f"[{'bold green' if one.engine == found.engine else 'dim'}]{one}[/]", highlight=False)
    out.print(f'accelerate("{level}", engine="auto") takes {found.engine}', highlight=False)
