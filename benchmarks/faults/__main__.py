"""`python -m benchmarks.faults [--quick]`: plant, record, compare, diagnose, and print what was found and what was not."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

from .cases import Outcome, reference, run_case
from .catalogue import FAULTS, HARMLESS
from .pipeline import STEPS
from .summary import print_summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, and a pipeline of three steps instead of eight")
    parser.add_argument("--models", default="unet,dit,vae,clip,pipeline")
    parser.add_argument("--dtypes", default="")
    parser.add_argument("--seeds", type=int, default=0, help="how many (default 3, quick 1)")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--json", type=Path, help="also write every outcome here")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seeds = options.seeds or (1 if options.quick else 3)
    dtypes = options.dtypes.split(",") if options.dtypes else ["fp32", "bf16"]
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="fault-benchmark-") as folder:
        for dtype in dtypes:
            for model in options.models.split(","):
                for seed in range(seeds):
                    outcomes += run_model(model, dtype, seed, Path(folder), options)
    print_summary(outcomes, time.perf_counter() - began)
    if options.json:
        rows = [
            {**vars(o), "fault": o.fault.name, "model": o.fault.model, "harmless": o.fault.harmless} for o in outcomes
        ]
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


def run_model(model: str, dtype: str, seed: int, folder: Path, options: argparse.Namespace) -> list[Outcome]:
    cases = [f for f in [*FAULTS, *HARMLESS] if f.model == model and f.only in ("", dtype) and options.only in f.name]
    if not cases:
        return []
    ref = reference(model, dtype, seed, folder, steps=3 if options.quick else STEPS)
    found = []
    for fault in cases:
        outcome = run_case(ref, fault, folder)
        found.append(outcome)
        if options.verbose:
            print(
                f"{model} {dtype} {seed} {fault.name}: {outcome.verdict} {outcome.first} node={outcome.node_rank} "
                f"cause={outcome.cause_rank} {outcome.causes} {outcome.forwards} forwards {outcome.seconds:.1f}s | {outcome.why[:230]}",
                flush=True,
            )
    return found


if __name__ == "__main__":
    raise SystemExit(main())
