"""What can go wrong in a parity run.

ParityError
├── InvalidTrace      a trace file is truncated, hostile, mislabelled or of another schema
├── RecordError       the object cannot be recorded, or the recorder was asked for something impossible
├── AlignmentError    a map file names nodes that do not exist, or maps two to one
├── FloorError        the floor cannot be measured (nothing to replay, reference not deterministic in shape)
└── TeacherForcingError    an injection is incomplete, or the reference does not hold the tensors that it needs
"""

from __future__ import annotations


class ParityError(Exception):
    """Root of everything that `lockstep.parity` raises on purpose."""


class InvalidTrace(ParityError, ValueError):
    """The bytes on disk are not a `ptrace/1` trace that can be trusted."""


class RecordError(ParityError, ValueError):
    """The object or the arguments cannot be recorded."""


class AlignmentError(ParityError, ValueError):
    """Two traces cannot be put side by side as asked."""


class FloorError(ParityError, ValueError):
    """The noise floor cannot be measured as asked."""


class TeacherForcingError(ParityError, ValueError):
    """An injection would leave a consumed value neither injected nor proven equal."""
