"""Peak memory of Stable Diffusion 1.5's sizes with random weights, each row in a process of its own.

    python -m benchmarks.run_memory [--folder DIR] [--steps 1] [--sides off,exact,5.5GB,5GB,4.5GB] [--decode]

A picture of 512 x 512, words to pixels: torch's kernels, `exact`, and `exact` within a `max_memory`; what is refused is
told. With `--decode` instead: the autoencoder's decoder alone, by diffusers, by `exact`, and by a frugal `exact`, which
transforms weights while it computes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.table import Table

from .cold_start import save_full_size
from .machine import console, print_machine

PICTURE = """
import json, sys, time
from lockstep import StableDiffusionPipeline
from lockstep import memory
level, bound, steps = {level!r}, {bound!r}, {steps}
pipe = StableDiffusionPipeline.from_pretrained({folder!r}, dtype="float32", load=False)
if level != "off":
    pipe.accelerate(level, max_memory=bound)
pipe.set_progress_bar_config(disable=True)
pipe.load_components()
ready = memory.resident()
seconds = []
for _ in range({rounds}):
    started = time.perf_counter()
    pipe("a cat", num_inference_steps=steps, height=512, width=512, seed=0, output_type="np")
    seconds.append(time.perf_counter() - started)
weights = sum(p.nbytes for part in (pipe.unet, pipe.vae, pipe.text_encoder) for p in part.parameters())
lines = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
own = int(lines["Anonymous"].split()[0]) * 1024  # in no file: what neither others share nor the system can take back
print(json.dumps({{"weights": weights, "ready": ready, "peak": pipe.peak_memory(), "own": own, "seconds": seconds}}))
"""
DECODE = """
import json, time, torch
from {library} import AutoencoderKL
from lockstep import memory
torch.manual_seed(0)
vae = AutoencoderKL.from_pretrained({folder!r} + "/vae").eval()
{accelerate}
z, seconds = torch.randn(1, 4, 64, 64), []
weights = sum(p.nbytes for p in vae.parameters())
ready = memory.resident()
with torch.no_grad():
    for _ in range({rounds}):
        started = time.perf_counter()
        vae.decode(z)
        seconds.append(time.perf_counter() - started)
print(json.dumps({{"weights": weights, "ready": ready, "peak": memory.peak(), "own": 0, "seconds": seconds}}))
"""
DECODERS = {
    "diffusers": ("diffusers", ""),
    "exact": ("lockstep", "vae.accelerate('exact')"),
    "exact, frugal": ("lockstep", "vae.accelerate('exact', frugal=True)"),
}


def measured(code: str, folder: str) -> dict[str, Any]:
    """What a process of its own prints; what it keeps on disk is kept beside the weights."""
    words, kept = [sys.executable, "-W", "ignore", "-c", code], {**os.environ, "LOCKSTEP_ENGINES": f"{folder}/engines"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=kept)
    if done.returncode:
        return {"refused": done.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where the weights are kept; a temporary folder if not given")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument(
        "--rounds", type=int, default=1, help="runs in each process; the best counts, and the peak of all"
    )
    parser.add_argument("--sides", default="off,exact,5.5GB,5GB,4.5GB", help="off, exact, and bounds of max_memory")
    parser.add_argument("--decode", action="store_true")
    options = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory() as temporary:
        folder, rounds = str(save_full_size(options.folder or Path(temporary))), options.rounds
        if options.decode:
            codes = {
                name: DECODE.format(library=library, folder=folder, accelerate=line, rounds=rounds)
                for name, (library, line) in DECODERS.items()
            }
        else:
            codes = {}
            for side in options.sides.split(","):
                level, bound = (side, None) if side in ("off", "exact") else ("exact", side)
                code = PICTURE.format(level=level, bound=bound, steps=options.steps, folder=folder, rounds=rounds)
                codes[side if bound is None else f"exact, max_memory {bound}"] = code
        sizes = ("weights", "ready", "peak", "peak - 1.15 weights", "own at the end")
        table = Table("side", *(f"{size} (GB)" for size in sizes), "best (s)", "all")
        for name, code in codes.items():
            found = measured(code, folder)
            if "refused" in found:
                table.add_row(name, found["refused"])
                continue
            weights, ready, peak, own = (found[key] / 1e9 for key in ("weights", "ready", "peak", "own"))
            seconds = found["seconds"]
            table.add_row(
                name, f"{weights:.2f}", f"{ready:.2f}", f"{peak:.2f}", f"{peak - 1.15 * weights:.2f}", f"{own:.2f}",
                f"{min(seconds):.2f}", " ".join(f"{value:.1f}" for value in seconds),
            )  # fmt: skip
        console.print(table)


if __name__ == "__main__":
    main()
