"""What could not be tried, and why: a hypothesis that the model refuses is simply wrong, a bug of ours is told."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from ..comparison.results import FailedHypothesis, SearchLog
from ..errors import ParityError
from ..recording.operations import OperationMode
from .edits import Call, Edit, EditMode

_PACKAGE = __name__.rpartition(".")[0].rpartition(".")[0]
# The model's own operations come through here: what goes wrong in them is not ours.
_PASSING = {Call.run.__code__, EditMode.__torch_function__.__code__, OperationMode.__torch_function__.__code__}
_TORCH_INDEX_ERRORS = (
    "dimension",
    "index out of range in self",
    "used as indices",
    "start out of range",
)  # Python itself says "tuple index out of range"
RUN_AGAIN = "the recorded run once more"


@contextmanager
def noted(log: SearchLog, edits: Iterable[Edit], at: str) -> Iterator[None]:
    """Go on behind a run that fails, with a note of it: counted if the model refuses the edits, told otherwise."""
    edits = list(edits)
    try:
        yield
    except Exception as error:
        if edits and not is_ours(error):
            log.misfits[type(error).__name__] = log.misfits.get(type(error).__name__, 0) + 1
            return
        told = "".join(traceback.format_exception(error))
        hypothesis = edits[-1].label() if edits else RUN_AGAIN
        log.add(FailedHypothesis(hypothesis, at, f"{type(error).__name__}: {error}", is_ours(error), told))


def is_ours(error: Exception) -> bool:
    """True if the code of parity itself went wrong, rather than the model or an operation on values that do not fit."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if isinstance(error, ParityError) or not frames or _is_refusal(error, frames[-1]):
        return False
    asking = [frame for frame in frames if frame.f_code not in _PASSING and not _is_of("torch", frame)]
    return bool(asking) and _is_of(_PACKAGE, asking[-1])


def _is_refusal(error: Exception, raised_in: FrameType) -> bool:
    """True for the words in which torch says that a shape, a dtype, an axis or a value does not fit."""
    if isinstance(error, RuntimeError):
        return not isinstance(error, RecursionError)
    if isinstance(error, TypeError):
        return "(): argument" in str(error)
    if isinstance(error, IndexError):
        return any(word in str(error).lower() for word in _TORCH_INDEX_ERRORS)
    return isinstance(error, (ValueError, AssertionError)) and _is_of("torch", raised_in)


def _is_of(package: str, frame: FrameType) -> bool:
    return f"{frame.f_globals.get('__name__', '')}.".startswith(f"{package}.")
