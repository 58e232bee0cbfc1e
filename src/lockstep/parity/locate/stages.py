"""The stages of a pipeline as ready-made tests: encode, decode, then denoise (decoder bugs look like loop bugs)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ..comparison.answer import compare
from ..comparison.results import Comparison, Verdict
from ..errors import ParityError
from ..floors.file import Floor
from ..recording.recorder import record
from .injection import inject

STAGES = ("encode", "decode", "denoise")


def run_stages(
    reference: Any,
    candidate: Any,
    run_reference: Callable[[Any], Any],
    run_candidate: Callable[[Any], Any],
    folder: str | Path,
    *,
    stages: tuple[str, ...] = STAGES,
    floor: Floor | str | Path | None = None,
    level: str = "module+ops",
    denoise_steps: int = 2,
    keep_going: bool = False,
) -> dict[str, Comparison]:
    """Each stage by itself, with the reference's inputs; stops at the first that is wrong unless `keep_going`.

    encode: everything up to and including what the loop's first model call is given. decode: the reference's latents
    after the loop through the candidate's rest. denoise: the first steps of a full-length schedule.
    """
    unknown = set(stages) - set(STAGES)
    if unknown:
        raise ParityError(f"unknown stages {sorted(unknown)}; known are {', '.join(STAGES)}")
    folder = Path(folder)
    runners = {"encode": _encode, "decode": _decode, "denoise": _denoise}
    results: dict[str, Comparison] = {}
    for stage in [s for s in STAGES if s in stages]:
        base = folder / stage
        results[stage] = runners[stage](
            reference, candidate, run_reference, run_candidate, base, floor, level, denoise_steps
        )
        if results[stage].verdict not in (Verdict.PASS, Verdict.NOISE) and not keep_going:
            break
    return results


def _encode(
    reference: Any,
    candidate: Any,
    run_reference: Any,
    run_candidate: Any,
    base: Path,
    floor: Any,
    level: str,
    steps: int,
) -> Comparison:
    for side, target, run in (("ref", reference, run_reference), ("cand", candidate, run_candidate)):
        with record(target, base / f"{side}.trace", level=level, stop_at="preloop", side=side):
            run(target)
    return compare(base / "ref.trace", base / "cand.trace", floor=floor)


def _decode(
    reference: Any,
    candidate: Any,
    run_reference: Any,
    run_candidate: Any,
    base: Path,
    floor: Any,
    level: str,
    steps: int,
) -> Comparison:
    """Only what comes after the loop is compared; the loop's result is the reference's on both sides."""
    latents = base / "latents.trace"
    with ExitStack() as stack:
        stack.enter_context(record(reference, latents, keep={"*": "none", "@scheduler.step": "full"}, weights=False))
        stack.enter_context(record(reference, base / "ref.trace", level=level, start_at="post_loop", side="ref"))
        run_reference(reference)
    with ExitStack() as stack:
        stack.enter_context(inject(candidate, latents, at="post_loop"))
        stack.enter_context(record(candidate, base / "cand.trace", level=level, start_at="post_loop", side="cand"))
        run_candidate(candidate)
    return compare(base / "ref.trace", base / "cand.trace", floor=floor)


def _denoise(
    reference: Any,
    candidate: Any,
    run_reference: Any,
    run_candidate: Any,
    base: Path,
    floor: Any,
    level: str,
    steps: int,
) -> Comparison:
    for side, target, run in (("ref", reference, run_reference), ("cand", candidate, run_candidate)):
        with record(target, base / f"{side}.trace", level=level, stop_at=f"denoise:{steps - 1}", side=side):
            run(target)
    return compare(base / "ref.trace", base / "cand.trace", floor=floor)
