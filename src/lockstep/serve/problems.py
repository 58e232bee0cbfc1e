"""What a request is refused with: one error for all faces, which each of them writes in its own form."""

from __future__ import annotations

import errno
import os
import sqlite3
from typing import Any

from ..errors import InputError, LockstepError, NonFiniteError, UnknownNameError, UnsupportedError, WriteError

REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
SQL_REFUSALS = {8, 10, 13, 14}  # SQLITE_READONLY, _IOERR, _FULL, _CANTOPEN
NO_ROOM = "no_room"


class Problem(Exception):
    """Status, code and words of a refusal; `param` names the field, `retry_after` is in seconds.

    `again` is whether the same request can go better: None leaves it to what clients make of the status.
    """

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, retry_after: float | None = None,
        again: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param
        self.retry_after, self.again = retry_after, again

    @property
    def headers(self) -> dict[str, str]:
        """What the clients of the OpenAI face obey."""
        told = {} if self.retry_after is None else {"Retry-After": str(max(1, round(min(self.retry_after, 120))))}
        return told | ({} if self.again is None else {"x-should-retry": str(self.again).lower()})


def of_storage(error: BaseException) -> Problem | None:
    """The refusal where it is the disk that refuses (full, broken, read-only); None for any other error."""
    cause = error.__cause__ if isinstance(error, WriteError) else error
    if isinstance(cause, sqlite3.Error):
        sick, reason = getattr(cause, "sqlite_errorcode", 0) & 0xFF in SQL_REFUSALS, str(cause)
    else:
        number = cause.errno if isinstance(cause, OSError) else None
        sick, reason = number in REFUSALS, os.strerror(number or 0)
    told = f"The disk of this server takes nothing more ({reason}). Try again when its owner has made room."
    return Problem(507, NO_ROOM, told, retry_after=30) if sick else None


def of_error(error: LockstepError | MemoryError, param: str | None = None) -> Problem:
    """An error of the library as a refusal; what would fail again is not to be tried again."""
    if (refused := of_storage(error)) is not None:
        return refused
    if isinstance(error, MemoryError):
        return Problem(507, "out_of_memory", f"Not enough memory: {error}.", again=False)
    if isinstance(error, NonFiniteError):
        return Problem(500, "non_finite", str(error), again=False)
    if isinstance(error, UnknownNameError):
        return Problem(400, "unknown_parameter", str(error), param=param)
    if isinstance(error, UnsupportedError):
        return Problem(400, "unsupported_parameter", str(error), param=param)
    if isinstance(error, InputError):
        return Problem(400, "invalid_value", str(error), param=param)
    return Problem(500, "failed", str(error), again=False)


def of_job(error: dict[str, Any]) -> Problem:
    """The refusal that a failed job's row holds."""
    status = int(error.get("status", 500))
    again = None if status < 500 and status != 409 else False
    return Problem(status, error.get("code", "failed"), error.get("message", "The job failed."), again=again)


def as_row(problem: Problem) -> dict[str, Any]:
    """What a failed job's row keeps of it."""
    return {"status": problem.status, "code": problem.code, "message": problem.message}
