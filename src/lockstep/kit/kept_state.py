"""What a port keeps from one run to the next: the same run once more gives something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .. import parity
from ..parity import Cause, Comparison, Verdict


def kept_state(comparison: Comparison, record: Callable[..., None], stop: str | None) -> Cause | None:
    """The port recorded once more and put beside its own run; None where it repeats itself, or draws at random."""
    if comparison.verdict not in (Verdict.BUG, Verdict.DRIFT) or comparison.first is None:
        return None
    before = Path(comparison.candidate_path)
    again = before.with_name("again.trace")
    record(again, "cand", stop_at=stop)
    own = parity.compare(before, again)
    if own.verdict is not Verdict.BUG or own.first is None or _draws(again) or own.first.key.slot == "rng":
        return None
    place = own.first.key
    name, whose = ("guider_state", "the guidance") if _is_guided(own) else ("stale_state", f"`{place.path}`")
    why = (
        f"the port does not repeat itself: the same run once more differs from its own at `{place}` by "
        f"{own.first.error or 0.0:.2g} first, so that {whose} depends on something kept from the run before"
    )
    fix = "in the port: begin anew in each run what is kept on objects or classes"
    evidence = {"accepted": True, "measured_at": str(place), "runs": 1}
    return Cause(name, why, str(comparison.first.key), comparison.first.error or 0.0, 0.0, None, fix, evidence)


def _is_guided(own: Comparison) -> bool:
    """Whether what a model gave comes again, and what is made of it before the scheduler's step does not."""
    first = own.first
    if first is None or not first.key.path.startswith("@"):
        return False
    if not first.key.is_input and (first.key.path.endswith(".step") or first.key.path.startswith("@scheduler")):
        return False  # the scheduler's own
    given = [node.key for node in own.nodes if node.order < first.order and node.key.step == first.key.step]
    return any(not key.path.startswith("@") and "." not in key.path and key.slot.startswith("out") for key in given)


def _draws(path: Path) -> bool:
    """Whether random numbers come from nobody's generator: then a run need not repeat itself."""
    drawn = [entry for entry in parity.Trace.open(path).entries if entry.key.slot == "rng"]
    return any((entry.meta.get("rng") or {}).get("generator") == "global" for entry in drawn)
