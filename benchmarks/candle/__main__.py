"""`python -m benchmarks.candle NAME --traces DIR`: one Candle trace against our model, explained down to the floor."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch

from lockstep import parity as px
from lockstep.parity.diagnosis import Live, diagnose
from lockstep.parity.results import Comparison

from .models import SIDES

RUNS = ("fp64", "ulp", "ulp")


def explain(name: str, traces: Path, work: Path, runs: tuple[str, ...] = RUNS, seconds: float = 600.0) -> Comparison:
    """Record our side, measure its floor, compare with Candle's trace, and name the causes one behind the other."""
    side = SIDES[name](traces, name)
    ours = work / f"{name}.trace"

    def call() -> None:
        with torch.no_grad():
            side.call()

    with px.record(side.target, ours, name=side.name, weights=False, keep="sketch"):
        call()
    floor = px.floor(side.target, ours, runs=runs, call=call, name=side.name)
    result = px.compare(traces / f"{name}.trace.safetensors", ours, floor=floor, map=side.map)
    diagnose(result, candidate=Live(side.target, call, side.name), floor=floor, map=side.map, seconds=seconds)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.candle", description=__doc__)
    parser.add_argument("name", choices=sorted(SIDES))
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces, manifests and inputs")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to look for causes")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="candle-") as folder:
        result = explain(options.name, options.traces, Path(folder), seconds=options.seconds)
    print(result.sentence())
    for number, cause in enumerate(result.causes, 1):
        print(
            f"cause {number}: {cause.name} at {cause.at}\n  {cause.why}\n  with it: {cause.evidence.get('with it', 'not compared again')}"
        )
    print(f"{time.perf_counter() - began:.0f} s")
    explained = result.verdict in ("PASS", "NOISE") or (
        result.causes and _is_clean(result.causes[-1].evidence.get("with it", ""))
    )
    return 0 if explained else 1


def _is_clean(sentence: str) -> bool:
    return sentence.startswith(("PASS", "NOISE"))


if __name__ == "__main__":
    raise SystemExit(main())
