"""What a batch is to make: every row with its seed, and the key that names its file.

A key is the hash of all that decides the pixels (model, weights, settings, inputs, seed) and of nothing else: not of
the worker, the machine, or the other rows. Equal rows have one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from ..errors import FileFormatError, InputError
from ..files import write_text
from .rows import Row

NAME, VERSION = "plan.jsonl", 1
KEY_LENGTH = 32
LARGEST_SEED = 2**63 - 1
SHOWN = 40  # characters of a value in an error
TOLD = 4  # differences that an error names
NOTHING = object()
OPTIONS = {  # what of a plan follows from which option
    "settings.scheduler": "--scheduler", "settings.guider": "--guider", "settings.adapters": "--lora",
    "dtype": "--dtype", "accelerated": "--speed", "weights": "--model", "pipeline": "--model",
    "threads": "--threads", "device": "--device",
}  # fmt: skip


@dataclass(frozen=True)
class PlannedRow:
    """One file to make: the row that asks for it, as it was read, with its seed."""

    number: int
    inputs: Row
    key: str
    suffix: str

    @property
    def file(self) -> str:
        return f"{self.key}{self.suffix}"


@dataclass(frozen=True)
class Plan:
    """All rows, and what they have in common: the model, its weights, and how it is set up."""

    shared: Mapping[str, Any]
    rows: list[PlannedRow]
    suffix: str
    place: Mapping[str, Any] = field(default_factory=dict)  # threads and device: no part of a key, but they may round

    @classmethod
    def of(
        cls,
        shared: Mapping[str, Any],
        rows: Iterable[Row],
        hashed: Iterable[Row],
        suffix: str,
        place: Mapping[str, Any] | None = None,
    ) -> Self:
        """`hashed` are the rows with files named by what is in them."""
        planned = [
            PlannedRow(number, row, key_of(shared, decisive), suffix)
            for number, (row, decisive) in enumerate(zip(rows, hashed, strict=True))
        ]
        return cls(shared, planned, suffix, place or {})

    @property
    def files(self) -> dict[str, PlannedRow]:
        """File -> the first row that asks for it."""
        found: dict[str, PlannedRow] = {}
        for row in self.rows:
            found.setdefault(row.file, row)
        return found

    def write(self, folder: Path) -> None:
        """Into its folder, at once."""
        head = {
            "lockstep_batch": VERSION, "rows": len(self.rows), "suffix": self.suffix, "place": self.place,
            "shared": self.shared,
        }  # fmt: skip
        lines = [head, *({"row": row.number, "key": row.key, "inputs": row.inputs} for row in self.rows)]
        write_text(folder / NAME, "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The plan of a folder, or nothing where there is none."""
        path = folder / NAME
        if not path.is_file():
            return None
        try:
            head, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            rows = [PlannedRow(line["row"], line["inputs"], line["key"], head["suffix"]) for line in lines]
            if head["lockstep_batch"] != VERSION or head["rows"] != len(rows):
                raise ValueError(f"{head['rows']} rows of version {head['lockstep_batch']}, found {len(rows)}")
            return cls(head["shared"], rows, head["suffix"], head.get("place", {}))
        except (ValueError, KeyError, TypeError) as problem:
            raise FileFormatError(f"{path} is no plan of a batch, or damaged: {problem}.") from None

    def require_rows(self, rows: Sequence[Row], suffix: str, folder: Path) -> None:
        """Refuse to go on in this plan's folder with other rows, which is known before any model is loaded."""
        if told := self._other_rows(rows, suffix):
            raise self._refused(told, folder)

    def require_settings(self, shared: Mapping[str, Any], folder: Path) -> None:
        """Refuse to go on in this plan's folder with other settings, of those that are known so far."""
        if told := told_differences(of_these_names(self.shared, shared), shared):
            raise self._refused(told, folder)

    def require_same(self, before: Plan, folder: Path) -> None:
        """Refuse to go on in a folder that was begun with another plan, and say what is different."""
        if [row.key for row in self.rows] == [row.key for row in before.rows] and self.suffix == before.suffix:
            return
        settings = told_differences(before.shared, self.shared)
        told = settings or before._other_rows([row.inputs for row in self.rows], self.suffix)
        raise self._refused(told or "a file that goes into it has changed", folder)

    @staticmethod
    def _refused(told: str, folder: Path) -> InputError:
        return InputError(
            f"{folder} was begun with another plan: {told}. Give the rows and options that it was begun with, or "
            "another folder."
        )

    def _other_rows(self, rows: Sequence[Row], suffix: str) -> str | None:
        """What of these rows is not as in this plan."""
        if len(rows) != len(self.rows):
            return f"it had {len(self.rows)} rows, now there are {len(rows)}"
        for was, now in zip(self.rows, rows, strict=True):
            if was.inputs != now:
                return f"row {was.number + 1}: {told_differences(was.inputs, now)}"
        return f"its files end in {self.suffix}, now {suffix} (--format)" if suffix != self.suffix else None


def told_differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """`dtype was "float32", now "bfloat16" (--dtype)`, for the first few that differ; nothing where all is the same."""
    found = list(differences(was, now))
    told = []
    for path, before, after in found[:TOLD]:
        option = next((option for name, option in OPTIONS.items() if f"{path}.".startswith(f"{name}.")), None)
        told.append(f"{path} was {shown(before)}, now {shown(after)}{f' ({option})' if option else ''}")
    more = [f"{len(found) - TOLD} more differ"] if len(found) > TOLD else []
    return "; ".join([*told, *more])


def differences(was: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Every value that is not the same, by the names that lead to it: what it was, and is."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        other = was.get("class") != now.get("class")  # then the rest is of other kinds, and says nothing
        for name in ["class"] if other else {**was, **now}:
            inside = f"{path}.{name}" if path else str(name)
            yield from differences(was.get(name, NOTHING), now.get(name, NOTHING), inside)
    elif was != now:
        yield path, was, now


def of_these_names(values: Any, wanted: Any) -> Any:
    """The part of nested values that has names which are wanted."""
    if not (isinstance(values, Mapping) and isinstance(wanted, Mapping)):
        return values
    return {name: of_these_names(values.get(name, NOTHING), one) for name, one in wanted.items()}


def shown(value: Any) -> str:
    """A value in an error: whole, or its beginning."""
    if value is NOTHING:
        return "not given"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def key_of(shared: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """The name of a file: a hash of what decides its pixels."""
    text = json.dumps({"shared": shared, "inputs": inputs}, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


def with_seeds(rows: Iterable[Row], seed: int, count: int = 1) -> list[Row]:
    """Every row `count` times, each with a seed: its own plus k, or where it has none the next after `seed`."""
    made: list[Row] = []
    for row in rows:
        for k in range(count):
            own = row.get("seed")
            made.append({**row, "seed": seed + len(made) if own is None else checked_seed(own, count) + k})
    return made


def checked_seed(value: Any, count: int = 1) -> int:
    """A seed as a table or JSON has it, if it and the `count` - 1 after it are seeds."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        number = -1
    is_other = isinstance(value, bool) or (isinstance(value, float) and value != number)
    if is_other or not 0 <= number <= LARGEST_SEED + 1 - count:
        raise InputError(f"A seed has to be a whole number from 0 to 2**63 - {count}, got {value!r}.")
    return number
