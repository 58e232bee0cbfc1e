"""A whole picture with Stable Diffusion 1.5's sizes (random weights), words to PNG, each side in a process of its own.

    python -m benchmarks.whole_picture [--folder DIR] [--steps 20] [--sides diffusers,exact,fast] [--rounds 1]

`made` begins when the models are loaded (and accelerated, and one step was run to warm up); `from start` begins with
the process. With `--cold` nothing is warmed up, so that `from start` is what a person waits for one picture; what is
kept on disk from start to start (prepared weights) is kept beside the weights, so with two rounds the second finds it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.table import Table

from .cold_start import save_full_size
from .machine import console, print_machine

OURS = """
from lockstep import DiffusionPipeline
from lockstep.kernels import keep_freed_memory
keep_freed_memory()
pipe = DiffusionPipeline.from_pretrained({folder!r}, dtype="float32")
level, _, bound = {side!r}.partition(":")
if level != "off":
    pipe.accelerate(level, **(dict(bound=float(bound)) if bound else dict()))
def run(steps):
    return pipe("a cat", num_inference_steps=steps, height=512, width=512, seed=0)
"""
THEIRS = """
import torch
from lockstep.kernels import keep_freed_memory
keep_freed_memory()
from diffusers import StableDiffusionPipeline
pipe = StableDiffusionPipeline.from_pretrained({folder!r}, torch_dtype=torch.float32)
def run(steps):
    return pipe("a cat", num_inference_steps=steps, height=512, width=512, generator=torch.Generator().manual_seed(0))
"""
REST = """
import json, time
pipe.set_progress_bar_config(disable=True)
if {warm}:
    run(1)
started = time.perf_counter()
result = run({steps})
result.images[0].save({png!r})
left_out = len(result.manifest.record.get("foretold_steps", ())) if hasattr(result, "manifest") else 0
print(json.dumps({{"made": time.perf_counter() - started, "left_out": left_out}}))
"""


def measured(side: str, folder: Path, steps: int, warm: bool, png: Path) -> tuple[float, float, int]:
    """Seconds of the picture, seconds since the process began, and the steps that were foretold."""
    code = (THEIRS if side == "diffusers" else OURS) + REST
    filled = code.format(folder=str(folder), side=side, warm=warm, steps=steps, png=str(png))
    words, kept = (
        [sys.executable, "-W", "ignore", "-c", filled],
        {**os.environ, "LOCKSTEP_ENGINES": str(folder / "engines")},
    )
    started = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=kept)
    whole = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["made"], whole, found["left_out"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the weights are kept; a temporary folder if not given")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--sides", default="diffusers,exact,fast", help="of diffusers, off, exact, high, fast, fast:BOUND"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cold", action="store_true")
    options = parser.parse_args()
    print_machine()
    sides = options.sides.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        folder = save_full_size(options.folder or Path(temporary))
        found: dict[str, list[tuple[float, float, int]]] = {side: [] for side in sides}
        for _ in range(options.rounds):
            for side in sides:
                png = Path(temporary) / f"{side}.png"
                found[side].append(measured(side, folder, options.steps, not options.cold, png))
    columns = ("side", "made (s)", "×", "from start (s)", "×", "all", "steps foretold")
    table = Table(*columns, title=f"{options.steps} steps")
    best = {side: tuple(min(row[place] for row in rows) for place in (0, 1, 2)) for side, rows in found.items()}
    first = best[sides[0]]
    for side, (made, whole, left_out) in best.items():
        rows = " ".join(f"{row[1]:.1f}" for row in found[side])
        ratios = f"{first[0] / made:.2f}", f"{first[1] / whole:.2f}"
        table.add_row(side, f"{made:.2f}", ratios[0], f"{whole:.2f}", ratios[1], rows, str(left_out))
    console.print(table)


if __name__ == "__main__":
    main()
