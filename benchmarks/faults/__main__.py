"""`python -m benchmarks.faults [--quick]`: plant, record, compare, diagnose,
and print what was found and what was not."""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

import torch

from . import flow, held_out, outside
from .cases import Outcome, reference, run_case
from .catalogue import ALL, FIRST
from .pipeline import STEPS
from .planting import Fault
from .summary import print_summary


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, and a pipeline of three steps instead of eight")
    parser.add_argument(
        "--list",
        choices=("first", "held-out", "outside", "flow"),
        default="first",
        help="for the work, or for the measurement",
    )
    parser.add_argument(
        "--models", default="unet,dit,vae,clip,pipeline,stages,mmdit,t5,edm,sd_unet,kl,clip_text,euler,rotary,flux"
    )
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--seeds", default="", help="numbers, such as 0,1 (default 0,1,2; quick 0)")
    parser.add_argument("--only", default="", help="cases whose name contains one of these (separated by |)")
    parser.add_argument("--json", type=Path, help="also write every outcome here, a line each, as soon as it is known")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case after this long")
    parser.add_argument("--resume", action="store_true", help="leave out the cases that the --json file holds already")
    parser.add_argument("--every", type=int, default=1, help="only every n-th case of a model: a sample, told as one")
    parser.add_argument("--summary", type=Path, nargs="+", help="run nothing: print the tables of such files")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.summary:
        outcomes = [_read(line) for file in options.summary for line in file.read_text().splitlines()]
        print_summary(outcomes, sum(o.seconds for o in outcomes))
        return 0
    torch.set_num_threads(1)
    seeds = [int(s) for s in (options.seeds or ("0" if options.quick else "0,1,2")).split(",")]
    began = time.perf_counter()
    outcomes = []
    options.until = began + 60 * options.minutes
    if options.json and not options.resume:
        options.json.write_text("")
    lines = options.json.read_text().splitlines() if options.json and options.json.exists() else []
    outcomes += [_read(line) for line in lines]
    options.known = {(o.fault.name, o.fault.model, o.dtype, o.seed) for o in outcomes}
    with tempfile.TemporaryDirectory(prefix="fault-benchmark-") as folder:
        for dtype in options.dtypes.split(","):
            for model in options.models.split(","):
                for seed in seeds:
                    outcomes += run_model(model, dtype, seed, Path(folder), options)
    print_summary(outcomes, time.perf_counter() - began)
    return 0


def _wanted(fault: Fault, model: str, dtype: str, only: str) -> bool:
    return fault.model == model and fault.only in ("", dtype) and any(part in fault.name for part in only.split("|"))


def run_model(model: str, dtype: str, seed: int, folder: Path, options: argparse.Namespace) -> list[Outcome]:
    listed = {"held-out": held_out.ALL, "outside": outside.ALL, "flow": flow.ALL}.get(
        options.list, ALL if seed == 0 else FIRST
    )
    cases = [f for f in listed if _wanted(f, model, dtype, options.only)][:: options.every]
    cases = [f for f in cases if (f.name, f.model, dtype, seed) not in options.known]
    if not cases or time.perf_counter() > options.until:
        return []
    ref = reference(model, dtype, seed, folder, steps=3 if options.quick else STEPS)
    found = []
    for fault in cases:
        if time.perf_counter() > options.until:
            print(f"time is over at {model} {dtype} {seed}: go on with --resume")
            break
        outcome = run_case(ref, fault, folder)
        found.append(outcome)
        if options.json:
            with options.json.open("a") as file:
                file.write(_line(outcome) + "\n")
        if options.verbose:
            print(
                f"{model} {dtype} {seed} {fault.name}: {outcome.verdict} {outcome.first} node={outcome.node_rank} "
                f"cause={outcome.cause_rank} {'told' if outcome.told else 'silent'} {outcome.causes} "
                f"{outcome.forwards} "
                f"forwards {outcome.seconds:.1f}s | {outcome.why[:230]}",
                flush=True,
            )
    return found


def _line(outcome: Outcome) -> str:
    fault = outcome.fault
    return json.dumps({**vars(outcome), "fault": fault.name, "model": fault.model, "harmless": fault.harmless})


def _read(line: str) -> Outcome:
    row = json.loads(line)
    model, name, harmless = row.pop("model"), row.pop("fault"), row.pop("harmless")
    fault = next(
        f
        for f in [*ALL, *held_out.ALL, *outside.ALL, *flow.ALL]
        if (f.model, f.name, f.harmless) == (model, name, harmless)
    )
    row["baselines"] = {rule: tuple(found) for rule, found in row["baselines"].items()}
    return Outcome(fault, **row)


if __name__ == "__main__":
    raise SystemExit(main())
