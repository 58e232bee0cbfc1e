"""The tree of errors that Lockstep raises for what a user, a file or a machine can get wrong.

LockstepError
├── ConfigError            a configuration value has the wrong type or cannot work        (also ValueError)
│   └── SettingsError      a file names settings that nothing takes                       (also TypeError)
├── LoadError              something on disk cannot become a model
│   ├── NotFoundError      the folder, file or hub id is not there                       (also FileNotFoundError)
│   │   └── VariantError   the weights are there, but not in the variant that was asked for    (also ValueError)
│   ├── FileFormatError    the file is truncated, malformed or of a refused kind
│   └── WeightsError       tensors are missing, left over, or of another shape or dtype
├── InputError             a call got a value that it cannot use                         (also ValueError)
│   ├── UnknownNameError   the name is not one of the known ones; says which is meant
│   └── MachineError       this machine has no such device, or too little memory
├── BackendError           an attention backend is not installed or cannot do this call  (also RuntimeError)
├── UnsupportedError       this object cannot do what was asked                          (also NotImplementedError)
├── WiringError            blocks do not fit together: a value nobody produces, two types for one name
│   └── OutlineError       a block asks for more than class and config of an outline      (also AttributeError)
├── InjectionError         a checkpoint would leave a consumed value neither injected nor proven equal
├── NonFiniteError         a block produced NaN or Inf                                   (also ArithmeticError)
├── InterruptedRun         a run was stopped from outside
├── RankError              a rank of a parallel run died, or differs from the others     (also RuntimeError)
├── WriteError             a file cannot be written: disk full, read-only, in the way    (also OSError)
└── ReplayError            a picture cannot be made again from its manifest

Every message says what was wanted, what was got, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LockstepError(Exception):
    """Base of every error that Lockstep raises on purpose."""


class ConfigError(LockstepError, ValueError):
    """A configuration value has the wrong type or cannot work."""


class SettingsError(ConfigError, TypeError):
    """A file names settings that nothing takes."""


class LoadError(LockstepError):
    """Something on disk cannot become a model."""


class NotFoundError(LoadError, FileNotFoundError):
    """The folder, file or hub id is not there."""


class VariantError(NotFoundError, ValueError):
    """The weights are there, but not in the variant that was asked for."""


class FileFormatError(LoadError):
    """The file is truncated, malformed or of a refused kind."""


class WeightsError(LoadError):
    """Tensors are missing, left over, or of another shape."""


class InputError(LockstepError, ValueError):
    """A call got a value that it cannot use."""


class UnknownNameError(InputError):
    """The name is not one of the known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str], advice: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        with_commas = any("," in one for one in self.known)
        listing = ("; ".join(map(repr, self.known)) if with_commas else ", ".join(self.known)) or "none"
        parts = [f"Unknown {kind} {name!r}{did_you_mean(name, self.known)}", f"Known: {listing}.", advice]
        super().__init__(" ".join(part for part in parts if part))


class MachineError(InputError):
    """This machine has no such device, or too little memory for what was asked."""


class BackendError(LockstepError, RuntimeError):
    """An attention backend is not installed or cannot do this call."""


class UnsupportedError(LockstepError, NotImplementedError):
    """This object cannot do what was asked."""


class WiringError(LockstepError):
    """Blocks do not fit together."""


class OutlineError(WiringError, AttributeError):
    """A block asks for the weights of a model that it declares as an outline."""


class InjectionError(LockstepError):
    """A checkpoint would leave a consumed value neither injected nor proven equal."""


class NonFiniteError(LockstepError, ArithmeticError):
    """A block produced NaN or Inf."""


class InterruptedRun(LockstepError):
    """A run was stopped from outside."""


class RankError(LockstepError, RuntimeError):
    """A rank of a parallel run died, did not come, or differs from the others."""


class WriteError(LockstepError, OSError):
    """A file cannot be written."""


class ReplayError(LockstepError):
    """A picture cannot be made again from its manifest."""


KINDS_OF_CLASSES = ("Pipeline", "Scheduler", "Model", "Blocks", "Guidance", "Processor", "Transformer")


def close_to(name: object, known: Iterable[str]) -> str | None:
    """The known name that is written most like this one, if one is."""
    close = difflib.get_close_matches(str(name), list(known), n=5, cutoff=0.6)
    return min(close, key=lambda one: _edits(str(name), one), default=None)


def _edits(one: str, other: str) -> int:
    """How many letters have to be put in, taken out or changed."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row = row, [at]
        for place, its in enumerate(other):
            row.append(min(before[place] + (letter != its), before[place + 1] + 1, row[-1] + 1))
    return row[-1]


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """`: did you mean 'prompt'?` when something known is close or longer by some words, else a full stop."""
    names, part = list(known), str(name).lower()
    longer = sorted((one for one in names if len(part) > 2 and part in one.lower()), key=len)
    close = close_to(name, names) or next(iter(longer), None)
    return f": did you mean {close!r}?" if close else "."


def no_such_name(place: str, name: str, known: Iterable[str]) -> str:
    """That a module lacks a name, with the one that is meant; of the kinds that classes have, with what there is.

    `DDPMPipeline` and `WanPipeline` are alike in their ending alone: what stands before it has to be close.
    """
    kind = next((ending for ending in KINDS_OF_CLASSES if name.endswith(ending) and name != ending), None)
    if kind is None:
        return f"{place} has no {name!r}{did_you_mean(name, known)}"
    same = {one.removesuffix(kind): one for one in known if one.endswith(kind)}
    close = close_to(name.removesuffix(kind), same)
    if close:
        return f"{place} has no {name!r}: did you mean {same[close]!r}?"
    return f"{place} has no {name!r}. Of this kind it has: {', '.join(sorted(same.values())) or 'nothing'}."
