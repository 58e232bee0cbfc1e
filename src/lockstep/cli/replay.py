"""`lockstep replay`: make a picture again from the manifest inside it, or say exactly what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import NotFoundError, ReplayError
from .console import out, print_json


def replay(
    picture: Annotated[Path, typer.Argument(help="A PNG that Lockstep wrote.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the picture made again.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Where the model is now, if it has moved.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a picture again and compare every pixel."""
    import numpy as np
    from PIL import Image

    from ..blocks.manifest import read_png, save_png

    if not picture.is_file():
        raise NotFoundError(f"There is no picture at {picture}.")
    manifest = read_png(picture)
    pipe, result = run_again(manifest, model)
    index = manifest.get("image", 0)
    again = result.images[index]
    if output is not None:
        save_png(again, output, result.manifest, index)
    with Image.open(picture) as file:
        before, after = np.asarray(file.convert("RGB"), int), np.asarray(again.convert("RGB"), int)
    changed = differences(manifest, result.manifest.to_dict())
    same_size = before.shape == after.shape
    worst = int(np.abs(before - after).max()) if same_size else None
    if json:
        print_json({"identical": worst == 0, "largest_difference": worst, "differs": changed})
    if worst == 0:
        if not json:
            out.print(f"[bold green]identical[/]: every pixel of {picture} was made again", highlight=False)
        return
    pixels = (
        f"the largest difference of a pixel is {worst} of 255"
        if same_size
        else f"the size is {after.shape}, was {before.shape}"
    )
    why = "; ".join(changed) or "nothing in the manifest differs: the processor or its libraries compute differently"
    if json:
        raise typer.Exit(5)
    raise ReplayError(f"{picture} came out differently: {pixels}. What differs: {why}.")


def run_again(manifest: dict[str, Any], model: str | None) -> tuple[Any, Any]:
    """The pipeline of a manifest, and its result for the same inputs."""
    from ..blocks.params import public_class
    from ..pipelines.pipeline import DiffusionPipeline

    unplayable = [name for name, value in manifest["inputs"].items() if isinstance(value, dict) and "sha256" in value]
    if unplayable:
        raise ReplayError(
            f"The manifest names the inputs {', '.join(unplayable)} by their hash only; such a run cannot be made again."
        )
    if manifest.get("changed_by"):
        raise ReplayError(
            f"The run was changed from outside ({', '.join(manifest['changed_by'])}), which a manifest cannot repeat."
        )
    dtypes = {entry["dtype"] for entry in manifest["components"].values() if isinstance(entry.get("dtype"), str)}
    dtype = dtypes.pop() if len(dtypes) == 1 else "auto"
    pipe = DiffusionPipeline.from_pretrained(model or manifest["model"], dtype=dtype, workflow=manifest["workflow"])
    for name, entry in manifest["components"].items():
        if "values" in entry and name in pipe.components:  # a scheduler or guider, perhaps not the model's own
            setattr(pipe, name, public_class(entry["class"], f"component {name!r}").from_config(entry["values"]))
    return pipe, pipe(**manifest["inputs"], seed=manifest["seed"], workflow=manifest["workflow"])


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What of a manifest is not the same: versions, machine, configs, weights."""
    told = []
    for key in ("lockstep", "torch", "python", "machine", "device", "pipeline", "blocks"):
        if before.get(key) != after.get(key):
            told.append(f"{key} was {before.get(key)}, is {after.get(key)}")
    for name, was in before.get("components", {}).items():
        now = after.get("components", {}).get(name, {})
        told += [
            f"{name}'s {key} was {was[key]}, is {now.get(key)}"
            for key in was
            if key != "values" and was[key] != now.get(key)
        ]
    for name, was in before.get("weights", {}).items():
        if was != after.get("weights", {}).get(name):
            told.append(f"the weights of {name} were {was[:12]}…, are {str(after.get('weights', {}).get(name))[:12]}…")
    return told
