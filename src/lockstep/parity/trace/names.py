"""The name grammar of `ptrace/1`: `seq|step|path|slot`, and the keys that identify a value inside one trace."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InvalidTrace

TIME_NAMES = frozenset(["timestep", "timesteps", "t", "sigma", "sigmas", "time", "time_step"])  # of parameters
SLOT_ROOTS = ("in", "out", "rng", "param", "grad_in", "grad_out")
NO_STEP = "-"
MAX_NAME = 1024

_SIGNS = str.maketrans({"|": "¦", "/": "~", "#": "♯"})
_STEP = re.compile(r"[\w@]+:\d+(\.[\w-]+)?(/[\w@]+:\d+(\.[\w-]+)?)*")
_SLOT = re.compile(r"(in|out|rng|param|grad_in|grad_out)(\.[^|.\s][^|\s]*)?")


@dataclass(frozen=True, slots=True)
class Name:
    """One tensor's name; `seq` is the order in which values came to be, unique in a trace."""

    seq: int
    step: str
    path: str
    slot: str

    def __str__(self) -> str:
        return f"{self.seq:06d}|{self.step}|{self.path}|{self.slot}"

    @classmethod
    def parse(cls, text: str) -> Name:
        if len(text) > MAX_NAME:
            raise InvalidTrace(f"tensor name of {len(text)} characters; at most {MAX_NAME} are allowed")
        parts = text.split("|")
        if len(parts) != 4:
            raise InvalidTrace(
                f"tensor name {text!r} is not `seq|step|path|slot`: expected 3 separators, got {len(parts) - 1}"
            )
        seq, step, path, slot = parts
        if not (seq.isascii() and seq.isdigit() and len(seq) <= 12):
            raise InvalidTrace(f"tensor name {text!r}: seq must be a decimal number, got {seq!r}")
        if step != NO_STEP and not _STEP.fullmatch(step):
            raise InvalidTrace(f"tensor name {text!r}: step must be '-' or 'loop:index', got {step!r}")
        if not path or not path.isprintable():
            raise InvalidTrace(f"tensor name {text!r}: path must be printable and not empty")
        if not _SLOT.fullmatch(slot):
            raise InvalidTrace(f"tensor name {text!r}: slot must start with one of {', '.join(SLOT_ROOTS)}")
        return cls(int(seq), step, path, slot)


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a value is, apart from when: the same key in two traces of one program is the same value."""

    step: str
    path: str
    slot: str
    call: int = 0  # the how-manieth time this path ran inside this step (CFG branches, shared modules)

    def __str__(self) -> str:
        call = f"#{self.call}" if self.call else ""
        return f"{self.step}|{self.path}{call}|{self.slot}"

    @classmethod
    def parse(cls, text: str) -> Key:
        parts = text.split("|")
        if len(parts) != 3:
            raise InvalidTrace(f"node key {text!r} is not `step|path[#call]|slot`")
        path, _, call = parts[1].partition("#")
        return cls(parts[0], path, parts[2], int(call) if call.isdigit() else 0)

    @property
    def node(self) -> tuple[str, str, int]:
        """Identity of the module call (or operation) that this value belongs to."""
        return (self.step, self.path, self.call)

    @property
    def is_input(self) -> bool:
        return self.slot == "in" or self.slot.startswith("in.")

    @property
    def is_operation(self) -> bool:
        """Glue between the models: it says where, never whether, for two right programs may differ in it.

        Scaling the model's input is such: before or after guidance's copies are made is the program's choice.
        """
        return "/" in self.path or self.path.endswith(".scale_model_input")


def safe(path: str) -> str:
    """A path with other signs in the place of those that mean something here: a module may be called anything."""
    return path.translate(_SIGNS)


def literal(path: str) -> str:
    """A path as a pattern that only it fits."""
    return path.replace("[", "[[]")


def step_index(step: str) -> int | None:
    """7 for 'denoise:07' and for 'chunk:2/denoise:07.cond'; None outside of loops."""
    if step == NO_STEP:
        return None
    last = step.rsplit("/", 1)[-1].split(":", 1)[1]
    return int(last.split(".", 1)[0])
