"""The stages of a pipeline as ready-made tests: encode, decode, then denoise (decoder bugs look like loop bugs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    run = _StageRun(reference, candidate, run_reference, run_candidate, floor, level)
    results: dict[str, Comparison] = {}
    for stage in [s for s in STAGES if s in stages]:
        base = Path(folder, stage)
        if stage == "decode":
            results[stage] = run.behind_the_loop(base)
        else:
            results[stage] = run.until("preloop" if stage == "encode" else f"denoise:{denoise_steps - 1}", base)
        if results[stage].verdict not in (Verdict.PASS, Verdict.NOISE) and not keep_going:
            break
    return results


@dataclass(frozen=True)
class _StageRun:
    """The two sides, and how each is run."""

    reference: Any
    candidate: Any
    run_reference: Callable[[Any], Any]
    run_candidate: Callable[[Any], Any]
    floor: Floor | str | Path | None
    level: str

    def until(self, stop: str, base: Path) -> Comparison:
        """Both sides from the start up to `stop`."""
        sides = (("ref", self.reference, self.run_reference), ("cand", self.candidate, self.run_candidate))
        for side, target, run in sides:
            with record(target, base / f"{side}.trace", level=self.level, stop_at=stop, side=side):
                run(target)
        return self._compared(base)

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

    def _compared(self, base: Path) -> Comparison:
        return compare(base / "ref.trace", base / "cand.trace", floor=self.floor)
