"""What a batch is to make: every row with its seed, and the key that names its file.

A key is the hash of all that decides the pixels (model, weights, settings, inputs, seed) and of nothing else: not of
the worker, the machine, or the other rows. Equal rows have one file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..errors import FileFormatError, InputError
from ..files import write_text
from .rows import Row

NAME, VERSION = "plan.jsonl", 1
KEY_LENGTH = 32


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

    @classmethod
    def of(cls, shared: Mapping[str, Any], rows: Iterable[Row], hashed: Iterable[Row], suffix: str) -> Self:
        """`hashed` are the rows with files named by what is in them."""
        planned = [
            PlannedRow(number, row, key_of(shared, decisive), suffix)
            for number, (row, decisive) in enumerate(zip(rows, hashed, strict=True))
        ]
        return cls(shared, planned, suffix)

    @property
    def files(self) -> dict[str, PlannedRow]:
        """File -> the first row that asks for it."""
        found: dict[str, PlannedRow] = {}
        for row in self.rows:
            found.setdefault(row.file, row)
        return found

    def write(self, folder: Path) -> None:
        """Into its folder, at once."""
        head = {"lockstep_batch": VERSION, "rows": len(self.rows), "suffix": self.suffix, "shared": self.shared}
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
            return cls(head["shared"], rows, head["suffix"])
        except (ValueError, KeyError, TypeError) as problem:
            raise FileFormatError(f"{path} is no plan of a batch, or damaged: {problem}.") from None

    def require_rows(self, rows: Sequence[Row], suffix: str, folder: Path) -> None:
        """Refuse to go on in this plan's folder with other rows, which is known before any model is loaded."""
        if told := self._other_rows(rows, suffix):
            raise self._refused(told, folder)

    def require_same(self, before: Plan, folder: Path) -> None:
        """Refuse to go on in a folder that was begun with another plan, and say what is different."""
        if [row.key for row in self.rows] == [row.key for row in before.rows] and self.suffix == before.suffix:
            return
        names = sorted(set(self.shared) | set(before.shared))
        changed = [name for name in names if self.shared.get(name) != before.shared.get(name)]
        told = f"{', '.join(changed)} {'was' if len(changed) == 1 else 'were'} not the same" if changed else None
        told = told or before._other_rows([row.inputs for row in self.rows], self.suffix)
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
                asked = [name for name in {**was.inputs, **now} if was.inputs.get(name) != now.get(name)]
                return f"row {was.number + 1} had another {', '.join(asked)}"
        return f"its files end in {self.suffix}, now {suffix}" if suffix != self.suffix else None


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
            made.append({**row, "seed": seed + len(made) if own is None else whole(own) + k})
    return made


def whole(value: Any) -> int:
    """A seed as a table or JSON has it."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise InputError(f"A seed has to be a whole number, got {value!r}.") from None
    if isinstance(value, float) and value != number:
        raise InputError(f"A seed has to be a whole number, got {value!r}.")
    return number
