"""The rows of a batch before anything is computed: read as the pipeline takes them, refused where they are wrong."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from ..fleet.rows import Row

MOST_TEXT = 20_000  # characters of one cell; what is longer is no prompt, and would be computed for hours


def given_words(context: Any) -> dict[str, str]:
    """The inputs that options give to every row, as they were typed."""
    words, found = list(context.args), {}
    while words:
        name, equals, value = words.pop(0).removeprefix("--").partition("=")
        if not equals:
            value = words.pop(0) if words and not words[0].startswith("--") else "true"
        found[name.replace("-", "_")] = value
    return found


def by_their_names(row: Row) -> Row:
    """A row whose columns have the names of inputs, in place of those that other programs have for them."""
    from .inputs import SECOND_NAMES

    found: Row = {}
    for name, value in row.items():
        if (meant := SECOND_NAMES.get(name, name)) in found:
            raise InputError(f"{name!r} is another name of {meant!r}; a row has one of them.")
        found[meant] = value
    return found


def row_inputs(pipe: Any, row: Row) -> dict[str, Any]:
    """A row's inputs as the pipeline takes them: texts of a table by the types that blocks declare, files opened."""
    from .inputs import read_value

    known = typed_inputs(pipe)
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name == "seed":
            found["seed"] = value
            continue
        param = known.get(name)
        if param is None:
            raise UnknownNameError("input", name, [*known, "seed"])
        found[param.name] = read_value(value, param) if isinstance(value, str) else value
    return found


@functools.lru_cache(maxsize=1)
def typed_inputs(pipe: Any) -> dict[str, Any]:
    """The inputs that a cell can stand for, by name; looked up once for all rows."""
    from .inputs import can_be_typed

    return {param.name: param for param in pipe.inputs if can_be_typed(param)}


def check_row(pipe: Any, number: int, row: Row) -> None:
    """Refuse a row that no run could take; the error says which one it is."""
    try:
        for name, value in row.items():
            if isinstance(value, str) and len(value) > MOST_TEXT:
                raise InputError(f"{name!r} has {len(value)} characters; {MOST_TEXT} are the most that a row may have.")
        known = typed_inputs(pipe)
        for name, value in row_inputs(pipe, row).items():
            if name != "seed" and known[name].media is None:
                known[name].check(value, "the pipeline")
    except InputError as problem:
        problem.add_note(f"in row {number + 1}")
        raise


def require_different(hashed: list[Row]) -> None:
    """Refuse two rows that would be one file."""
    first: dict[str, int] = {}
    for number, row in enumerate(hashed):
        before = first.setdefault(json.dumps(row, sort_keys=True, default=str), number)
        if before != number:
            raise InputError(
                f"Rows {before + 1} and {number + 1} are the same, the seed included: they would be one file. Leave "
                "one of them out, give them different seeds, or make one file of equal rows with --merge-equal."
            )


def one_of_each(rows: list[Row]) -> dict[int, Row]:
    """The first row of each set of columns: what one of them lacks, all of them lack."""
    found: dict[frozenset[str], int] = {}
    for number, row in enumerate(rows):
        found.setdefault(frozenset(row), number)
    return {number: rows[number] for number in found.values()}


def hashed_row(pipe: Any, row: Row) -> Row:
    """A row with files named by what is in them: it is the pixels that decide, not where they lie."""
    from ..fleet.making import hash_file

    media = {param.name for param in typed_inputs(pipe).values() if param.media is not None}
    return {
        name: {"sha256": hash_file(Path(value))} if name in media and Path(str(value)).is_file() else value
        for name, value in row.items()
    }
