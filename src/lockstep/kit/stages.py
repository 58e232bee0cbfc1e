"""The stages of a port in the order in which they are cheapest to repair: encode, decode, denoise.

encode: both sides stopped before the loop (preloop), every value that the loop's first model call is given compared.
decode: the reference's latents behind its loop (post_loop) through the port's rest. denoise: two steps (after_step_1)
of a schedule of realistic length. What has no scheduler is one stage, `model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import parity
from ..errors import InputError, UnknownNameError
from ..parity import Comparison, Verdict
from ..parity.errors import TeacherForcingError
from ..parity.locate.stages import STAGES
from ..parity.recording.targets import find_target
from .pitfalls import pitfalls_of

MODEL = "model"
FEWEST = 4  # steps of a schedule whose first two are not also its last ones
FLOORS = ("fp64", "ulp")


@dataclass(frozen=True)
class Side:
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
    """What one stage gave."""

    stage: str
    comparison: Comparison
    pitfalls: list[int]
    refused: str = ""  # why an injection would have said nothing

    @property
    def verdict(self) -> str:
        return str(Verdict.INVALID) if self.refused else str(self.comparison.verdict)

    @property
    def passed(self) -> bool:
        return not self.refused and self.comparison.verdict.passes(strict=False)


def stage_names(reference: Side, port: Side) -> tuple[str, ...]:
    """The stages of these two: of pipelines with a loop three, else one."""
    if reference.loops != port.loops:
        with_loop, without = ("reference", "port") if reference.loops else ("port", "reference")
        raise InputError(
            f"The {with_loop} has a scheduler among its attributes and the {without} has none: give both as pipelines, "
            "or both as models."
        )
    return STAGES if reference.loops else (MODEL,)


def walk_stages(reference: Side, port: Side, folder: Path, begin: str | None = None) -> Iterator[StageResult]:
    """Each stage in its order, from `begin` on; ends after the first that is wrong."""
    names = stage_names(reference, port)
    if begin is not None and begin not in names:
        raise UnknownNameError("stage", begin, names)
    floor = _floor(reference, folder)
    for stage in names[names.index(begin) if begin is not None else 0 :]:
        result = _stage(stage, reference, port, folder, floor)
        yield result
        if not result.passed:
            return


def _floor(reference: Side, folder: Path) -> Any:
    """How far the reference differs from itself, measured on a whole run of it."""
    trace = folder / "floor" / "ref.trace"
    reference.record(trace, "ref")
    steps = {one for one in parity.Trace.open(trace).steps if one.startswith("denoise")}
    if reference.loops and len(steps) < FEWEST:
        raise InputError(
            f"The reference takes {len(steps)} steps: a schedule of realistic length has at least {FEWEST} (28 to 50 "
            "are usual). Give both sides more; the stage `denoise` ends after two of them."
        )
    return parity.floor(reference.target, trace, runs=list(FLOORS), call=reference.call, name=reference.name)


def _stage(stage: str, reference: Side, port: Side, folder: Path, floor: Any) -> StageResult:
    base = folder / stage
    if stage == MODEL:
        for side, name in ((reference, "ref"), (port, "cand")):
            _recorded(side, base / f"{name}.trace", name)
        comparison = parity.compare(base / "ref.trace", base / "cand.trace", floor=floor)
    else:
        try:
            comparison = parity.run_stages(
                reference.target, port.target, lambda _: reference.call(), lambda _: port.call(), folder,
                stages=(stage,), floor=floor,
            )[stage]  # fmt: skip
        except TeacherForcingError as problem:
            comparison = parity.compare(base / "ref.trace", base / "ref.trace")
            return StageResult(stage, comparison, [16], str(problem))
    _explain(comparison)
    return StageResult(stage, comparison, [] if comparison.verdict.passes(False) else pitfalls_of(stage, comparison))


def _recorded(side: Side, path: Path, name: str) -> None:
    try:
        side.record(path, name)
    except parity.ParityError:
        raise
    except Exception:  # whatever the side's own code raises: the trace says so, and so does the verdict
        return


def _explain(comparison: Comparison) -> None:
    """Name what the recorded values themselves prove; `lockstep parity explain` also tries causes on the models."""
    if comparison.verdict in (Verdict.BUG, Verdict.DRIFT):
        parity.diagnose(comparison)
