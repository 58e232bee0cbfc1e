"""How exact accelerated models are on trained weights: the embedded model, and TAESD where its files are given.

    python -m benchmarks.trained_error [--taesd FOLDER] [--steps 10]

Models are called as a run calls them: the embedded model's on what they see while it makes a picture, TAESD on latents
of that picture, four times as large. Relative L2 to the same call in fp64, by torch in fp32, at `exact` and at `high`.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from lockstep import DiffusionPipeline
from lockstep.errors import LockstepError
from lockstep.loaders.taesd import load_taesd
from lockstep.models.graphs import GivenCall, entrance, recording

from .machine import console, print_machine

LEVELS = ("off", "exact", "high")
PROMPTS = ("a red heart", "a blue car")


def called(model: Any, call: GivenCall, dtype: torch.dtype) -> torch.Tensor:
    """The result of a call, in fp64."""

    def cast(one: Any) -> Any:
        return one.to(dtype) if isinstance(one, torch.Tensor) and one.is_floating_point() else one

    given, named = map(cast, call.given), {name: cast(one) for name, one in call.named.items()}
    result: torch.Tensor = getattr(model, entrance(model))(*given, **named, return_dict=False)[0]
    return result.double()


@torch.no_grad()
def errors(model: Any, calls: Iterable[GivenCall]) -> dict[str, float | str]:
    """The largest relative L2 of each level, of all calls."""
    exact = copy.deepcopy(model).double()
    results = [(call, called(exact, call, torch.float64)) for call in calls]
    found: dict[str, float | str] = {}
    for level in LEVELS:
        try:
            model.accelerate(level)
        except LockstepError as problem:
            found[level] = str(problem)
            continue
        distances = [
            float((called(model, call, torch.float32) - right).norm() / right.norm()) for call, right in results
        ]
        found[level] = max(distances)
    model.accelerate("off")
    return found


def seen(pipe: Any, names: Iterable[str], steps: int) -> tuple[dict[str, list[GivenCall]], torch.Tensor]:
    """What the models of a pipeline are called with while it makes pictures, and the last of these."""
    calls: dict[str, list[GivenCall]] = {}
    for name in names:
        with recording(getattr(pipe, name)) as recorded:
            for seed, prompt in enumerate(PROMPTS):
                pictures = pipe(prompt, num_inference_steps=steps, seed=seed, output_type="pt").images
        calls[name] = [call for call, _ in recorded]
    return calls, torch.as_tensor(pictures)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--taesd", type=Path, help="the folder of taesd_encoder.safetensors and taesd_decoder.safetensors"
    )
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    print_machine()
    pipe = DiffusionPipeline.from_pretrained("lockstep/emoji", dtype="float32")
    pipe.set_progress_bar_config(disable=True)
    calls, pictures = seen(pipe, ("text_encoder", "unet", "vae"), options.steps)
    models = {f"embedded, {name}": (getattr(pipe, name), found) for name, found in calls.items()}
    if options.taesd is not None:
        paths = (options.taesd / f"taesd_{part}.safetensors" for part in ("encoder", "decoder"))
        taesd = load_taesd(*paths, dtype="float32")
        with torch.no_grad():
            large = torch.nn.functional.interpolate(pictures, scale_factor=4, mode="bicubic")
            latents = taesd.encode(large * 2 - 1).latents
        models["TAESD, decoder"] = (taesd, [GivenCall((latents,), {})])
    table = Table("model", "calls", "torch", "exact", "high", title="largest relative L2 of a call to fp64")
    for name, (model, found) in models.items():
        told = [f"{one:.1e}" if isinstance(one, float) else one for one in errors(model, found).values()]
        table.add_row(name, str(len(found)), *told)
    console.print(table)


if __name__ == "__main__":
    main()
