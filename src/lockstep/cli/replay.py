"""`lockstep replay`: make a picture again from the manifest inside it, or say exactly what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import NotFoundError, ReplayError, UnknownNameError
from .console import out, print_json
from .exit_codes import ExitCode
from .pipelines import check_writable, target_path


def replay(
    picture: Annotated[Path, typer.Argument(help="A PNG that Lockstep wrote.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the picture made again.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Where the model is now, if it has moved.")] = None,
    files: Annotated[
        list[str] | None, typer.Option("--input", help="A picture that went in, if it has moved: image=start.png")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a picture again and compare every pixel."""
    import numpy as np
    from PIL import Image

    from ..blocks.manifest import read_png, save_png

    if not picture.is_file():
        raise NotFoundError(f"There is no picture at {picture}.")
    manifest = read_png(picture)
    if output is not None:
        output = target_path(output, 0, 1)
        check_writable([output])
    pipe, result = run_again(manifest, model, files or [])
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
        raise typer.Exit(ExitCode.NOT_REPLAYED)
    raise ReplayError(f"{picture} came out differently: {pixels}. What differs: {why}.")


def run_again(manifest: dict[str, Any], model: str | None, files: list[str]) -> tuple[Any, Any]:
    """The pipeline of a manifest, and its result for the same inputs."""
    from ..blocks.params import public_class
    from ..pipelines.pipeline import DiffusionPipeline

    inputs = given_again(manifest["inputs"], files)
    if manifest.get("changed_by"):
        raise ReplayError(
            f"The run was changed from outside ({', '.join(manifest['changed_by'])}), which a manifest cannot repeat."
        )
    dtypes = {entry["dtype"] for entry in manifest["components"].values() if isinstance(entry.get("dtype"), str)}
    dtype = dtypes.pop() if len(dtypes) == 1 else "auto"
    pipe = DiffusionPipeline.from_pretrained(
        model or manifest["model"], dtype=dtype, workflow=manifest["workflow"], variant=manifest.get("variant")
    )
    for name, parts in manifest.get("given", {}).items():
        setattr(pipe, name, given_model(name, parts, dtype))
    load_adapters(pipe, manifest.get("adapters", []))
    for name, entry in manifest["components"].items():
        if "values" in entry and name in pipe.components:  # a scheduler or guider, perhaps not the model's own
            setattr(pipe, name, public_class(entry["class"], f"component {name!r}").from_config(entry["values"]))
    return pipe, pipe(**inputs, seed=manifest["seed"], workflow=manifest["workflow"])


def given_again(recorded: dict[str, Any], files: list[str]) -> dict[str, Any]:
    """The inputs of a run; a picture is read from where it was, or from `name=file`, and has to be the same one."""
    moved = dict(pair.partition("=")[::2] for pair in files)
    pictures = [name for name, value in recorded.items() if isinstance(value, dict) and "picture" in value]
    for name in moved:
        if name not in pictures:
            raise UnknownNameError("picture input (written name=file)", name, pictures)
    known = {name: value for name, value in recorded.items() if value is not None}
    return {name: _read_again(name, value, moved.get(name)) for name, value in known.items()}


def _read_again(name: str, value: Any, moved: str | None) -> Any:
    if isinstance(value, list):
        return [_read_again(name, one, None) for one in value]
    if isinstance(value, dict) and "sha256" in value:
        return same_picture(name, value, moved or value.get("file"))
    return value


def same_picture(name: str, recorded: dict[str, Any], file: str | None) -> Any:
    """The picture that went into a run."""
    from ..blocks.manifest import encode
    from ..images import load_image

    if file is None:
        raise ReplayError(
            f"The manifest names the input {name!r} by its hash only. "
            + (
                f"Give the picture: --input {name}=FILE."
                if "picture" in recorded
                else "Such a run cannot be made again."
            )
        )
    if not Path(file).is_file():
        raise ReplayError(f"The run started from {file} ({name!r}), which is not there now: --input {name}=FILE.")
    picture = load_image(file)
    if encode(picture)["sha256"] != recorded["sha256"]:
        raise ReplayError(f"{file} is not the picture that the run was given as {name!r}: its pixels differ.")
    return picture


def given_model(name: str, parts: list[dict[str, Any]], dtype: str) -> Any:
    """A model that was given to the pipeline, from the folder it had been loaded from; several act as one."""
    from ..blocks.params import public_class

    for part in parts:
        if part["folder"] is None:
            raise ReplayError(
                f"The picture was made with a {name!r} ({part['class']}) that was loaded from no folder. "
                "Save it with save_pretrained and load it before the run, then its pictures can be made again."
            )
        if not Path(part["folder"]).is_dir():
            raise ReplayError(f"The picture was made with the {name!r} in {part['folder']}, which is not there now.")
    loaded = [
        public_class(part["class"], f"component {name!r}").from_pretrained(part["folder"], dtype=dtype)
        for part in parts
    ]
    return loaded if len(loaded) > 1 else loaded[0]


def load_adapters(pipe: Any, adapters: list[dict[str, Any]]) -> None:
    """The LoRA files that a picture was made with."""
    for adapter in adapters:
        if not Path(adapter["file"]).is_file():
            raise ReplayError(
                f"The picture was made with the LoRA {adapter['file']}, which is not there now (sha256 {adapter['sha256'][:12]}…)."
            )
        pipe.load_lora_weights(adapter["file"], adapter_name=adapter["name"], strength=adapter["strength"])


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
    for was, now in zip(before.get("adapters", []), after.get("adapters", []), strict=False):
        if was["sha256"] != now["sha256"]:
            told.append(f"the LoRA {was['file']} was {was['sha256'][:12]}…, is {now['sha256'][:12]}…")
    for name, was in before.get("weights", {}).items():
        if was != after.get("weights", {}).get(name):
            told.append(f"the weights of {name} were {was[:12]}…, are {str(after.get('weights', {}).get(name))[:12]}…")
    return told
