"""What the result of a run is called: by the model that gave it, by a method of the model, or by the run itself."""

from __future__ import annotations

from ..trace.names import Key
from ..trace.reader import Entry, Trace

METHODS = ("encode", "decode")
RESULT = "@result"


def last_given(trace: Trace) -> list[Entry]:
    """The result of a run: what was returned by it, or else by the last call of a whole model."""
    given = [e for e in trace.entries if e.key.slot.startswith("out") and not e.key.is_operation]
    ends = [e for e in given if e.key.path == RESULT]
    ends = ends or [e for e in given if not e.key.path.startswith("@") and _is_whole(e.key.path)]
    if any(e.key.path == "@pipeline" for e in trace.entries):
        return []  # a pipeline's is named alike on both sides
    return [e for e in ends if e.key.node == ends[-1].key.node]


def _is_whole(path: str) -> bool:
    root, _, method = path.partition(".")
    return bool(root) and method in ("", *METHODS)


def is_result_of_whole(key: Key) -> bool:
    """True for what a whole model gives: it is compared, in whatever it is wrapped and whatever stands beside it."""
    return key.slot.startswith("out") and not key.is_operation and _is_whole(key.path)


def slot_names(slot: str) -> list[str]:
    """`out` and `out.0` are the same thing for a module that returns one tensor, wrapped or not."""
    if slot == "out":
        return ["out", "out.0", "out.sample"]
    if slot in ("out.0", "out.sample"):
        return [slot, "out", "out.0", "out.sample"]
    return [slot]
