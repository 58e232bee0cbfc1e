"""Proofs of one model against another: recorded, measured, compared, and where they differ, the cause."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.text import Text

from ...errors import InputError
from ..console import err
from .runs import RunRecipe, Side, load

TOLD_EVERY = 30.0  # seconds, where there is no terminal
FULL_ELEMENTS = 1 << 26  # that a second recording may keep whole: 256 MB in float32


def run_of(trace: Path) -> RunRecipe:
    run = RunRecipe.of(trace)
    if run is None:
        raise InputError(
            f"{trace} does not say how it was recorded ({trace.with_suffix('.run.json').name} is not beside it), so "
            "it cannot be run "
            "again from here: record it with `lockstep parity record`, or use the Python functions (docs/parity.md)."
        )
    return run


def measure_floor(side: Side, trace: Path, runs: str, output: Path | None = None) -> Any:
    from ... import parity

    wanted = [word.strip() for word in runs.split(",") if word.strip()]
    return parity.floor(side.target, trace, runs=wanted, call=side.call, path=output, name=side.name)


def compared(
    reference: Path,
    candidate: Path,
    floor: Path | None = None,
    map: Path | None = None,
    without: list[str] | None = None,
) -> Any:
    from ... import parity

    beside = reference.with_suffix(".floor")
    floor = floor or (beside if beside.is_file() else None)
    return parity.compare(reference, candidate, floor=floor, map=map or "auto", without=without or ())


def name_causes(
    comparison: Any,
    reference: Side | None = None,
    candidate: Side | None = None,
    *,
    map: Path | None = None,
    **options: Any,
) -> None:
    """Diagnose a difference on what is loaded; with nothing loaded, on the recorded values alone."""
    from ...parity.comparison.results import SearchLog, Verdict

    if comparison.verdict not in (Verdict.BUG, Verdict.DRIFT, Verdict.NOISE):
        return
    from ...parity.causes.interrupts import ending_orderly
    from ...parity.causes.sentences import not_found

    live = [_live(side) if side is not None else None for side in (reference, candidate)]
    if comparison.first is not None and any(live):  # what is known stands there before the search, however long that is
        err.print(Text(f"{_first_words(comparison)}; looking for the cause (Ctrl-C ends that)"), soft_wrap=True)
    try:
        with ending_orderly():
            _search(comparison, live, map, options)
    except KeyboardInterrupt:  # before or behind what `diagnose` answers by itself
        comparison.search = comparison.search or SearchLog()
        comparison.search.interrupted = True
        if not comparison.causes and comparison.first is not None:
            comparison.causes = [not_found(comparison)]
    if comparison.search is not None and comparison.search.interrupted:
        err.print("[yellow]the search for the cause was interrupted[/]; shown is what was found until then")


def _live(side: Side) -> Any:
    """A side as the search takes it."""
    from ...parity.causes.diagnosis import Live

    return Live(side.target, side.call, side.name, side.begun, side.build)


def _search(comparison: Any, live: list[Any], map: Path | None, options: dict[str, Any]) -> None:
    from ...parity.causes.diagnosis import diagnose

    if any(node.arranged for node in comparison.nodes):
        options["traces"] = _in_one_order(comparison, map)
    with err.status("looking for the cause") as status:
        told = time.monotonic()

        def tell(words: str) -> None:
            nonlocal told
            status.update(f"looking for the cause: {escape(words)}")
            if not err.is_terminal and time.monotonic() - told > TOLD_EVERY:  # a log has no line that changes
                told = time.monotonic()
                err.print(f"[dim]looking for the cause: {escape(words)}[/]", highlight=False)

        diagnose(comparison, reference=live[0], candidate=live[1], map=map or "auto", tell=tell, **options)


def _first_words(comparison: Any) -> str:
    return f"{comparison.verdict.value}: first difference: {comparison.first.describe()}"


def _in_one_order(comparison: Any, map: Path | None) -> tuple[Any, Any]:
    """Both traces as they were compared: what is kept in another order read in the reference's."""
    from ...parity import Trace
    from ...parity.comparison.answer import arranged_traces

    traces = Trace.open(comparison.reference_path), Trace.open(comparison.candidate_path)
    return arranged_traces(*traces, map or "auto")


def proof_with_trace(
    asked: RunRecipe, reference: str, candidate: str | None, library: str, output: Path, runs: str, map: Path | None,
    **options: Any,
) -> Any:  # fmt: skip
    if candidate is None:
        raise InputError(f"{reference} is a trace: say what to prove against it, a model's folder or FILE.py:FUNCTION.")
    if is_trace(reference) and is_trace(candidate):
        comparison = compared(Path(reference), Path(candidate), map=map)
        name_causes(comparison, map=map, **options)
        return comparison
    if is_trace(candidate):
        return proof_against(Path(candidate), load(asked), output, runs, map, turned=True, **options)
    return proof_against(
        Path(reference), load(replace(asked, model=candidate, library=library)), output, runs, map, **options
    )


def is_trace(reference: str) -> bool:
    """A single file of tensors, or a folder that a recording wrote."""
    path = Path(reference)
    written = any((path / name).is_file() for name in ("events.jsonl", "trace.json"))
    return written or (path.suffix == ".safetensors" and path.is_file())


def proof_against(
    trace: Path,
    side: Side,
    folder: Path,
    runs: str,
    map: Path | None = None,
    turned: bool = False,
    without: list[str] | None = None,
    **options: Any,
) -> Any:
    """Like `proof` where one side is there as a trace alone: the floor is the live side's, and causes are tried on it.

    The trace is the reference; `turned`: it is the candidate.
    """
    from ... import parity

    level = parity.Trace.open(trace).meta.get("level", "module")  # a damaged one is refused before anything runs
    name = "ref" if turned else "cand"
    path = folder / f"{name}.trace"
    pair = (path, trace) if turned else (trace, path)
    err.print(f"[dim]recording {side.run.label}, the {'reference' if turned else 'candidate'}[/]", highlight=False)
    if not side.record_or_end(path, name, level=level):  # a foreign trace has no operations to compare with
        return parity.compare(*pair, map=map or "auto", without=without or ())
    err.print(f"[dim]measuring the floor of {side.run.label} ({runs})[/]", highlight=False)
    floor = measure_floor(side, path, runs)
    comparison = parity.compare(*pair, floor=floor, map=map or "auto", without=without or ())
    keep = _to_keep(comparison, path, turned)
    if keep:
        err.print(f"[dim]recording {_words(keep)} in full[/]", highlight=False)
        side.record(path, name, level=level, keep=keep)
        comparison = parity.compare(*pair, floor=floor, map=map or "auto", without=without or ())
    sides = (side, None) if turned else (None, side)
    name_causes(comparison, *sides, map=map, floor=floor, **options)
    return comparison


def proof(
    reference: Side,
    candidate: Side,
    folder: Path,
    runs: str,
    map: Path | None = None,
    without: list[str] | None = None,
    **options: Any,
) -> Any:
    """Record, measure, compare, and where they differ: zoom in and diagnose."""
    paths = folder / "ref.trace", folder / "cand.trace"
    ended = True
    for side, path, name in ((reference, paths[0], "ref"), (candidate, paths[1], "cand")):
        err.print(f"[dim]recording {side.run.label}[/]", highlight=False)
        ended = side.record_or_end(path, name) and ended
    if not ended:
        return compared(*paths, map=map, without=without)
    err.print(f"[dim]measuring the floor of {reference.run.label} ({runs})[/]", highlight=False)
    measure_floor(reference, paths[0], runs)
    comparison = compared(*paths, map=map, without=without)
    again = [(reference, paths[0], "ref", True), (candidate, paths[1], "cand", False)]
    for side, path, name, of_reference in again:
        keep = _to_keep(comparison, path, of_reference)
        if keep:
            err.print(f"[dim]recording {_words(keep)} in full[/]", highlight=False)
            side.record(path, name, keep=keep)
    if any(_to_keep(comparison, path, of_reference) for _, path, _, of_reference in again):
        comparison = compared(*paths, map=map, without=without)
    name_causes(comparison, reference, candidate, map=map, **options)
    return comparison


def _to_keep(comparison: Any, trace: Path, of_reference: bool) -> dict[str, str]:
    """What the second recording of a side keeps in full: the first bad node, and what only full tensors can compare."""
    from ...parity.recording.node_alone import keep_node
    from ...parity.trace.names import Key, literal

    keep: dict[str, str] = {}
    first = comparison.first
    if first is not None and not first.exact and not (of_reference and first.arranged):
        keep |= keep_node((first.key if of_reference else first.other) or first.key)
    if not of_reference and comparison.unmeasured:
        keep |= {"*": "sketch"}
        elements = Counter({literal(Key.parse(key).path): 0 for key in comparison.unmeasured})
        kept = sum(math.prod(e.shape) for e in _entries(trace) if keep.get(literal(e.key.path)) == "full")
        for entry in _entries(trace):
            if (path := literal(entry.key.path)) in elements:
                elements[path] += math.prod(entry.shape)
        for path, count in sorted(elements.items(), key=lambda found: found[1]):  # as many as there is room for
            if keep.get(path) != "full" and (kept := kept + count) <= FULL_ELEMENTS:
                keep[path] = "full"
    return keep if "full" in keep.values() else {}


def _entries(trace: Path) -> list[Any]:
    from ...parity import Trace

    return Trace.open(trace).entries


def _words(keep: dict[str, str]) -> str:
    paths = [path for path in keep if keep[path] == "full" and not path.endswith("/*")]
    return f"`{paths[0]}`" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
