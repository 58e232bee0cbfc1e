"""`python -m benchmarks.candle NAME --traces DIR`: one Candle trace against our model, explained down to the floor.

Our model is recorded and its floor measured; the first difference above the floor is found, its cause, what is left
with that cause imitated, the cause of that, and so on. Nothing about the traces is known beforehand: causes are
hypotheses that were tried by running our model again with one thing changed. Exit code 0 if the last value of the
trace is then within 5e-6.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import torch

from lockstep import parity as px
from lockstep.files import write_text
from lockstep.parity import report as reports
from lockstep.parity.causes.diagnosis import Live, diagnose
from lockstep.parity.comparison.results import Comparison, NodeResult

from .models import SIDES

RUNS = ("fp64", "ulp", "ulp")
LIMIT = 5e-6  # of the last value, with the causes imitated
SHOWN = 30


def explain(name: str, traces: Path, work: Path, runs: tuple[str, ...] = RUNS, evaluations: int = 3000) -> Comparison:
    """Record our side, measure its floor, compare with Candle's trace, and name the causes one behind the other."""
    side = SIDES[name](traces, name)
    ours = work / f"{name}.trace"

    def call() -> None:
        with torch.no_grad():
            side.call()

    there = {entry.key.path: "full" for entry in px.Trace.open(traces / f"{name}.trace.safetensors").entries}
    with px.record(side.target, ours, name=side.name, weights=False, keep={**there, "vae.decode": "full"}):
        call()
    floor = px.floor(side.target, ours, runs=runs, call=call, name=side.name)
    result = px.compare(traces / f"{name}.trace.safetensors", ours, floor=floor, map=side.map)
    live = Live(side.target, call, side.name)
    diagnose(result, candidate=live, floor=floor, map=side.map, evaluations=evaluations, rounding=True)
    return result


def last_value(result: Comparison) -> NodeResult:
    return max((n for n in result.nodes if n.error is not None and not n.key.is_input), key=lambda n: n.order)


def is_explained(result: Comparison) -> bool:
    """Nothing over the floor with the causes imitated, and the end of the trace within the limit."""
    left = result.explained or result
    return left.verdict in ("PASS", "NOISE") and (last_value(left).error or 0.0) <= LIMIT


def describe(result: Comparison) -> str:
    """The verdict, every cause with its proof, and each value before and after."""
    left = result.explained or result
    lines = [result.sentence()]
    for number, cause in enumerate(result.causes, 1):
        inside = " (inside the floor)" if cause.evidence.get("inside the floor") else ""
        lines.append(f"cause {number}{inside}: {cause.name} at {cause.at}")
        lines.append(f"  {cause.why}")
        if "with it" in cause.evidence:
            lines.append(f"  with it: {cause.evidence['with it']}")
    after = {str(node.key): node.error for node in left.nodes}
    rows = [node for node in result.nodes if node.error is not None and not node.key.is_input]
    rows = rows if len(rows) <= SHOWN else [*rows[: SHOWN // 2], *rows[-SHOWN // 2 :]]
    lines.append(f"{'value':42} {'as it is':>9} {'causes imitated':>16} {'floor':>9}")
    for node in rows:
        floor = f"{node.floor:9.1e}" if node.floor is not None else f"{'-':>9}"
        lines.append(f"{node.key!s:42} {node.error:9.1e} {after.get(str(node.key), float('nan')):16.1e} {floor}")
    end = last_value(left)
    lines.append(
        f"end of the trace: {last_value(result).error:.2e}, with the causes imitated {end.error:.2e} "
        f"(limit {LIMIT:.0e})"
    )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.candle", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=sorted(SIDES))
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces, manifests and inputs")
    parser.add_argument("--evaluations", type=int, default=6000, help="how many hypotheses to try")
    parser.add_argument("--html", type=Path, help="also write the report as one page")
    options = parser.parse_args()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="candle-") as folder:
        result = explain(options.name, options.traces, Path(folder), evaluations=options.evaluations)
        if options.html is not None:
            write_text(options.html, reports.to_html(reports.build(result)))
    print(describe(result))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.perf_counter() - began:.0f} s, {time.process_time():.0f} s of the processor, at most {peak:.0f} MB")
    return 0 if is_explained(result) else 1


if __name__ == "__main__":
    raise SystemExit(main())
