"""Rows of inputs from a file: one prompt a line, a table (CSV, TSV, Parquet), or JSON lines."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, MachineError, NotFoundError

Row = dict[str, Any]
TOLD = 20  # lines that are told in words


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, each with the inputs that it names; empty cells are inputs that are not given."""
    if not path.is_file():
        raise NotFoundError(f"There is no file {path} with rows (one prompt a line, .csv, .tsv, .jsonl or .parquet).")
    read = READERS.get(path.suffix.lower())
    if read is None:
        raise InputError(
            f"{path}: rows come as a text with one prompt a line (.txt), as .csv, .tsv, .jsonl or .parquet, not as "
            f"{path.suffix}. Rename it if it is one of them."
        )
    try:
        rows = read(path)
    except UnicodeDecodeError:
        raise InputError(f"{path} is no text in UTF-8, which .txt, .csv, .tsv and .jsonl have to be.") from None
    if not rows:
        raise InputError(f"{path} has no rows in it.")
    return rows


def is_unicode(text: str) -> bool:
    """Whether a text can be written: JSON can name half of a character."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _lines(path: Path) -> list[Row]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    return [{"prompt": line} for line in lines if line and not line.startswith("#")]


def _table(path: Path, delimiter: str = ",") -> list[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
        rows = []
        try:
            _check_head(path, reader.fieldnames)
            for row in reader:
                if None in row or None in row.values():
                    wanted, got = len(reader.fieldnames or ()), len(row) if None in row else "fewer"
                    raise InputError(f"{path}, line {reader.line_num}: the head has {wanted} columns, this row {got}.")
                rows.append({name: cell for name, cell in row.items() if cell != ""})
        except csv.Error as problem:
            raise InputError(f"{path}, line {reader.line_num}: cannot be read as a table ({problem}).") from None
    return [row for row in rows if row]


def _check_head(path: Path, names: Sequence[str] | None) -> None:
    """A column has a name, and no other has the same."""
    columns = list(names or ())
    if any(not name.strip() for name in columns):
        raise InputError(f"{path}, line 1: column {[name.strip() for name in columns].index('') + 1} has no name.")
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path}, line 1: two columns are called {twice!r}.")


def _json_lines(path: Path) -> list[Row]:
    rows, bad = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, object_pairs_hook=_named_once)
        except ValueError as problem:
            bad.append(f"line {number} is no JSON: {problem}")
            continue
        if isinstance(row, dict):
            rows.append({name: value for name, value in row.items() if value is not None})
        else:
            bad.append(f"line {number} has to be an object of inputs, got {type(row).__name__}")
    if bad:
        more = [f"… and {len(bad) - TOLD} more lines"] if len(bad) > TOLD else []
        raise InputError("\n".join([f"{path} cannot be read; nothing was started.", *bad[:TOLD], *more]))
    return rows


def _named_once(pairs: list[tuple[str, Any]]) -> Row:
    """An object of JSON; one that gives a name twice means two things."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def _parquet(path: Path) -> list[Row]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ImportError:
        raise MachineError(
            "Parquet needs pyarrow: pip install 'lockstep-diffusion[batch]'. JSON lines (.jsonl) need nothing."
        ) from None
    try:
        table = parquet.read_table(path).to_pylist()
    except (ArrowInvalid, OSError) as problem:
        raise InputError(f"{path} is no Parquet file: {problem}.") from None
    return [{name: value for name, value in row.items() if value is not None} for row in table]


READERS: dict[str, Callable[[Path], list[Row]]] = {
    "": _lines,
    ".txt": _lines,
    ".prompts": _lines,
    ".csv": _table,
    ".tsv": lambda path: _table(path, "\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
}
