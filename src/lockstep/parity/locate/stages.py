"""The stages of a pipeline as ready-made tests: encode, decode, then denoise (decoder bugs look like loop bugs)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..comparison.answer import compare
from ..comparison.layout import is_exchanged
from ..comparison.results import Comparison, Verdict
from ..errors import ParityError
from ..floors.file import Floor
from ..recording.recorder import record
from ..recording.targets import find_target
from ..trace.reader import Trace
from .injection import inject

MOST_NUMBERS = 1 << 28  # of one side that are kept to be read in another order: a gigabyte
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
    run = _StageRun(reference, candidate, run_reference, run_candidate, floor, level)
    results: dict[str, Comparison] = {}
    for stage in [s for s in STAGES if s in stages]:
        base = Path(folder, stage)
        if stage == "encode":
            results[stage] = run.before_the_loop(base)
        elif stage == "decode":
            results[stage] = run.behind_the_loop(base)
        else:
            results[stage] = run.until(f"denoise:{denoise_steps - 1}", base)
        if results[stage].verdict not in (Verdict.PASS, Verdict.NOISE) and not keep_going:
            break
    return results


def _lacking(path: Path) -> int:
    """The numbers of a trace of which only sketches were kept."""
    return sum(math.prod(entry.shape) for entry in Trace.open(path).entries if not entry.has_data)


@dataclass(frozen=True)
class _StageRun:
    """The two sides, and how each is run."""

    reference: Any
    candidate: Any
    run_reference: Callable[[Any], Any]
    run_candidate: Callable[[Any], Any]
    floor: Floor | str | Path | None
    level: str

    def before_the_loop(self, base: Path) -> Comparison:
        """Up to what the first model call is given; whether an exchange of its rows is a fault is seen in a step."""
        result = self.until("preloop", base)
        if result.verdict is not Verdict.BUG or not self._compared(base, branches_exchanged=True).verdict.passes():
            return result
        step = self.until("denoise:0", base / "first_step")
        return self._compared(base, branches_exchanged=True) if is_exchanged(step) else result

    def until(self, stop: str, base: Path) -> Comparison:
        """Both sides from the start up to `stop`."""
        sides = (("ref", self.reference, self.run_reference), ("cand", self.candidate, self.run_candidate))
        for side, target, run in sides:
            self._record(side, target, run, stop, base)
        result = self._compared(base)
        if result.unmeasured and is_exchanged(result) and _lacking(base / "cand.trace") <= MOST_NUMBERS:
            self._record("cand", self.candidate, self.run_candidate, stop, base, "full")
            result = self._compared(base)
        return result

    def _record(
        self, side: str, target: Any, run: Callable[[Any], Any], stop: str, base: Path, keep: str = "sketch"
    ) -> None:
        """One run; what goes into whole models and comes out is kept, to be read in another order."""
        whole = dict.fromkeys([*find_target(target).modules, "@*"], "full")
        path = base / f"{side}.trace"
        with record(target, path, level=self.level, stop_at=stop, side=side, keep={"*": keep, **whole}):
            run(target)

    def behind_the_loop(self, base: Path) -> Comparison:
        """Only what comes after the loop is compared; the loop's result is the reference's on both sides."""
        latents = base / "latents.trace"
        with (
            record(self.reference, latents, keep={"*": "none", "@scheduler.step": "full"}, weights=False),
            record(self.reference, base / "ref.trace", level=self.level, start_at="post_loop", side="ref"),
        ):
            self.run_reference(self.reference)
        with (
            inject(self.candidate, latents, at="post_loop"),
            record(self.candidate, base / "cand.trace", level=self.level, start_at="post_loop", side="cand"),
        ):
            self.run_candidate(self.candidate)
        return self._compared(base)

    def _compared(self, base: Path, branches_exchanged: bool = False) -> Comparison:
        traces = base / "ref.trace", base / "cand.trace"
        return compare(*traces, floor=self.floor, branches_exchanged=branches_exchanged)
