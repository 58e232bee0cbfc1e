"""How a command leaves: one table for all of them, in which no number means two things."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Self

from .. import errors

if TYPE_CHECKING:
    from ..parity.comparison.results import Verdict


class ExitCode(IntEnum):
    """The numbers that a script can branch on; 10 and above are answers to a question, not failures to answer it."""

    meaning: str

    def __new__(cls, number: int, meaning: str) -> Self:
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code

    DONE = 0, "done (for a proof: PASS, or NOISE without --strict)"
    CRASHED = 1, "a bug in Lockstep, with its traceback: please report it"
    WRONG_USE = 2, "an option, input or setting is wrong"
    NOT_LOADED = 3, "a model or file is missing, damaged or does not fit"
    NOT_FINITE = 4, "the numbers became NaN or Inf"
    NOT_REPLAYED = 5, "a result cannot be made again from its manifest, or came out differently"
    UNSUPPORTED = 6, "Lockstep, this model or this machine cannot do what was asked"
    NOISE = 10, "proof: NOISE, which --strict does not let pass"
    BUG = 11, "proof: BUG"
    DRIFT = 12, "proof: DRIFT"
    INCONCLUSIVE = 13, "proof: INCONCLUSIVE"
    INVALID = 14, "proof: INVALID, the two sides cannot be compared"
    DIFFERENT = 15, "configs, weights or files that should agree do not"
    FAULT_MISSED = 16, "a planted fault was not found at its place"
    RAISED = 17, "proof: RAISED, a side ended with an exception"
    CHECK_FAILED = 18, "the checklist of an integration has open points"
    INCOMPLETE = 19, "batch: some rows could not be made"
    INTERRUPTED = 130, "interrupted, by ctrl-C or SIGTERM"


KINDS: tuple[tuple[type[errors.LockstepError], ExitCode], ...] = (
    (errors.ReplayError, ExitCode.NOT_REPLAYED),
    (errors.NonFiniteError, ExitCode.NOT_FINITE),
    (errors.LoadError, ExitCode.NOT_LOADED),
    (errors.MachineError, ExitCode.UNSUPPORTED),
    (errors.RankError, ExitCode.UNSUPPORTED),
    (errors.BackendError, ExitCode.UNSUPPORTED),
    (errors.UnsupportedError, ExitCode.UNSUPPORTED),
    (errors.WriteError, ExitCode.UNSUPPORTED),
    (errors.InterruptedRun, ExitCode.INTERRUPTED),
    (errors.LockstepError, ExitCode.WRONG_USE),
)


def exit_code_of(problem: errors.LockstepError) -> ExitCode:
    """The code with which an error of Lockstep's own tree leaves."""
    return next(code for kind, code in KINDS if isinstance(problem, kind))


def exit_code_of_verdict(verdict: Verdict, strict: bool = False) -> ExitCode:
    """The code with which the verdict of a proof leaves."""
    return ExitCode.DONE if verdict.passes(strict) else ExitCode[verdict.value]


def explained(codes: Iterable[ExitCode]) -> str:
    """Codes with their meanings, for the end of a help text."""
    return "Exit codes: " + "; ".join(f"{code} {code.meaning}" for code in codes) + "."
