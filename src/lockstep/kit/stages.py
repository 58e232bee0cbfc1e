"""The stages of a port in the order in which they are cheapest to repair: encode, decode, denoise.

encode: both sides stopped before the loop (preloop), every value that the loop's first model call is given compared.
decode: the reference's latents behind its loop (post_loop) through the port's rest. denoise: two steps (after_step_1)
of a schedule of realistic length. What has no scheduler is one stage, `model`.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import parity
from ..errors import InputError, UnknownNameError
from ..notes import say_once
from ..parity import Comparison, Floor, Verdict
from ..parity.comparison.layout import EXCHANGED
from ..parity.errors import TeacherForcingError
from ..parity.locate.stages import STAGES
from ..parity.recording.targets import find_target
from .kept_state import kept_state
from .pitfalls import VAGUE, pitfall_of_error, pitfalls_of

MODEL = "model"
FEWEST = 4  # steps of a schedule whose first two are not also its last ones
FLOORS = ("fp64", "ulp")
UNKNOWN = "unknown"  # what a search calls a cause that it did not find
EVALUATIONS = 200  # runs of a suspect part; `lockstep parity explain` takes more


class ReferenceRaised(InputError):
    """The reference does not run to its end, so that there is nothing to compare with."""


@dataclass(frozen=True)
class StageSide:
    """One side of a proof: what is watched, and a call that runs it."""

    target: Any
    call: Callable[[], Any]
    name: str | None = None

    @property
    def loops(self) -> bool:
        return bool(find_target(self.target, self.name).schedulers)

    def record(self, path: Path, side: str, **options: Any) -> None:
        """Write down one run; what it raises is in the trace."""
        with parity.record(self.target, path, level="module+ops", side=side, name=self.name, **options):
            self.call()


@dataclass(frozen=True)
class StageResult:
    """What one stage gave: a comparison, or why there is none."""

    stage: str
    comparison: Comparison | None
    pitfalls: list[int]
    problem: str = ""  # an injection that would have said nothing, or what a side raised
    ended: Verdict = Verdict.RAISED  # the verdict where there is no comparison

    @property
    def verdict(self) -> Verdict:
        return self.ended if self.comparison is None else self.comparison.verdict

    @property
    def passed(self) -> bool:
        return self.comparison is not None and self.verdict.passes(strict=False)

    @property
    def notes(self) -> list[str]:
        """What is written otherwise in the port and is right, too."""
        reasons = [] if self.comparison is None else self.comparison.reasons
        return [reason for reason in reasons if self.passed and EXCHANGED in reason]

    def sentence(self) -> str:
        """The answer for people."""
        return self.problem if self.comparison is None else self.comparison.sentence()


def stage_names(reference: StageSide, port: StageSide) -> tuple[str, ...]:
    """The stages of these two: of pipelines with a loop three, else one."""
    if reference.loops != port.loops:
        with_loop, without = ("reference", "port") if reference.loops else ("port", "reference")
        raise InputError(
            f"The {with_loop} has a scheduler among its attributes and the {without} has none: give both as pipelines, "
            "or both as models."
        )
    return STAGES if reference.loops else (MODEL,)


def walk_stages(
    reference: StageSide,
    port: StageSide,
    folder: Path,
    begin: str | None = None,
    floor: Floor | None = None,
    evaluations: int = EVALUATIONS,
) -> Iterator[StageResult]:
    """Each stage in its order, from `begin` on, up to the first wrong one; the floor is measured if none is given.

    Where the recorded values do not tell the cause of a difference, so many hypotheses are tried on the live models.
    """
    names = stage_names(reference, port)
    if begin is not None and begin not in names:
        raise UnknownNameError("stage", begin, names)
    asked = names[names.index(begin) if begin is not None else 0 :]
    if floor is None:
        try:
            floor = measured_floor(reference, folder)
        except ReferenceRaised as problem:
            yield StageResult(asked[0], None, [], str(problem))
            return
    for stage in asked:
        result = _stage(stage, reference, port, folder, floor, evaluations)
        yield result
        if not result.passed:
            return


def measured_floor(reference: StageSide, folder: Path) -> Floor:
    """How far the reference differs from itself, measured on a whole run of it."""
    trace = folder / "floor" / "ref.trace"
    try:
        reference.record(trace, "ref")
    except parity.ParityError:
        raise
    except Exception as problem:  # whatever its own code raises
        last = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        raise ReferenceRaised(f"the reference raised {type(problem).__name__}: {problem} ({place})") from problem
    steps = {one for one in parity.Trace.open(trace).steps if one.startswith("denoise")}
    if reference.loops and len(steps) < FEWEST:
        raise InputError(
            f"The reference takes {len(steps)} steps: a schedule of realistic length has at least {FEWEST} (28 to 50 "
            "are usual). Give both sides more; the stage `denoise` ends after two of them."
        )
    measured = functools.partial(parity.floor, reference.target, trace, call=reference.call, name=reference.name)
    try:
        return measured(runs=list(FLOORS))
    except parity.ParityError:
        raise
    except Exception as problem:  # a reference that insists on its dtype is measured without another one
        say_once(f"The reference does not run in float64 ({type(problem).__name__}); its floor is measured without.")
        return measured(runs=[run for run in FLOORS if run != "fp64"])


def _stage(
    stage: str, reference: StageSide, port: StageSide, folder: Path, floor: Floor, evaluations: int
) -> StageResult:
    try:
        comparison = _compared(stage, reference, port, folder, floor)
    except TeacherForcingError as problem:
        return StageResult(stage, None, [pitfall_of_error(problem) or 16], str(problem), Verdict.INVALID)
    except parity.ParityError:
        raise
    except Exception as problem:  # whatever a side's own code raises
        named = pitfall_of_error(problem)
        return StageResult(stage, None, [named] if named else [], f"{type(problem).__name__}: {problem}")
    kept = kept_state(comparison, port.record, _stop(stage)) if stage != "decode" else None
    if kept is not None:
        comparison.causes = [kept]
    elif comparison.verdict in (Verdict.BUG, Verdict.DRIFT):
        # what was injected is not there when the port is run again: only the reference can be
        _explain(comparison, reference, port if stage != "decode" else None, evaluations)
    return StageResult(stage, comparison, pitfalls_of(stage, comparison))


def _stop(stage: str) -> str | None:
    """Where a run of this stage ends."""
    return {"encode": "preloop", "denoise": "denoise:1"}.get(stage)


def _compared(stage: str, reference: StageSide, port: StageSide, folder: Path, floor: Floor) -> Comparison:
    if stage != MODEL:
        first, second = (lambda _, call=side.call: call() for side in (reference, port))
        found = parity.run_stages(reference.target, port.target, first, second, folder, stages=(stage,), floor=floor)
        return found[stage]
    traces = [folder / stage / f"{name}.trace" for name in ("ref", "cand")]
    for side, path, name in zip((reference, port), traces, ("ref", "cand"), strict=True):
        side.record(path, name)
    return parity.compare(*traces, floor=floor)


def _explain(comparison: Comparison, reference: StageSide, port: StageSide | None, evaluations: int) -> None:
    """Name what the recorded values prove; where they prove nothing, try a few causes on the live models."""
    parity.diagnose(comparison)
    told = [cause for cause in comparison.causes if cause.name not in VAGUE or cause.standing == "proven"]
    if evaluations and not any(cause.name != UNKNOWN for cause in told):
        sides = (reference, port)
        live = [None if side is None else parity.Live(side.target, side.call, side.name) for side in sides]
        parity.diagnose(comparison, reference=live[0], candidate=live[1], evaluations=evaluations)
