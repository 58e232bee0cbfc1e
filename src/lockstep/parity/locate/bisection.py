"""Coarse to fine: the first bad step, then that step alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..comparison.answer import compare
from ..comparison.results import Comparison, Verdict
from ..floors.file import Floor
from ..recording.recorder import record
from ..trace.names import NO_STEP, step_index
from ..trace.reader import Trace


def bisect(
    trace: str | Path | Trace,
    target: Any,
    call: Callable[[], Any],
    *,
    floor: Floor | str | Path | None = None,
    level: str = "module",
    name: str | None = None,
    folder: str | Path | None = None,
) -> Comparison:
    """Coarse to fine: watch only what carries the loop, then record the first bad step alone and stop after it."""
    trace = Trace.open(trace)
    with tempfile.TemporaryDirectory(prefix="parity-bisect-") as temporary:
        base = Path(folder or temporary)
        coarse = base / "coarse.trace"
        with record(target, coarse, keep={"*": "none", "@*": "sketch"}, weights=False, name=name):
            call()
        step = _first_bad_step(compare(trace, coarse, floor=floor))
        fine = base / "fine.trace"
        stop = None if step in (None, NO_STEP) else step
        number = step_index(step) if stop is not None and step is not None else None
        with record(
            target, fine, level=level, steps=[number] if number is not None else "all", stop_at=stop, name=name
        ):
            call()
        return compare(trace, fine, floor=floor)


def _first_bad_step(coarse: Comparison) -> str | None:
    if coarse.verdict is Verdict.INVALID:
        return None
    bad = next((n for n in coarse.nodes if n.bad and n.key.step != NO_STEP), None)
    return bad.key.step if bad is not None else None
