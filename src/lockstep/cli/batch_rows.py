"""The rows of a batch before anything is computed: read as the pipeline takes them, refused where they are wrong."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, LoadError, LockstepError, MachineError, UnknownNameError

if TYPE_CHECKING:
    from ..fleet.rows import Row

MOST_TEXT = 20_000  # characters of one cell; what is longer is no prompt, and would be computed for hours
TOLD, NAMED = 20, 500  # bad rows that are told in words, and further ones by their numbers


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


def row_inputs(pipe: Any, row: Row, base: Path = Path()) -> dict[str, Any]:
    """A row's inputs as the pipeline takes them: texts of a table by the types that blocks declare, files opened."""
    return {name: read_cell(pipe, name, value, base) for name, value in row.items()}


def read_cell(pipe: Any, name: str, value: Any, base: Path = Path()) -> Any:
    """One input of a row; a file's name is understood from the folder `base` on."""
    from .inputs import read_value

    if name == "seed":
        return value
    known = typed_inputs(pipe)
    if name not in known:
        raise UnknownNameError("input", name, [*known, "seed"])
    param = known[name]
    if param.media is not None:
        files = value if isinstance(value, list) else [value]
        found = [read_value(str(base / one), param) if isinstance(one, str) else one for one in files]
        return found if isinstance(value, list) else found[0]
    return read_value(value, param, repr(name)) if isinstance(value, str) else value


def is_text(param: Any) -> bool:
    """Whether an input is words of any kind."""
    from .inputs import _kinds

    return str in _kinds(param.type_hint)


@functools.lru_cache(maxsize=1)
def typed_inputs(pipe: Any) -> dict[str, Any]:
    """The inputs that a cell can stand for, by name; looked up once for all rows."""
    from .inputs import can_be_typed

    return {param.name: param for param in pipe.inputs if can_be_typed(param)}


def checked_rows(pipe: Any, rows: Sequence[Row], common: Row, count: int) -> list[Row]:
    """The rows with the options that they do not overrule; all that no run could take are refused together."""
    found, bad = [], {}
    check = RowCheck(pipe, count)
    for number, row in enumerate(rows, 1):
        try:
            found.append({**common, **by_their_names(row)})
            check(found[-1])
        except LockstepError as problem:
            bad[number] = problem
    if bad:
        raise refusal(bad, len(rows))
    return found


class RowCheck:
    """Refuses rows that no run could take: cell by cell with the column's name, then each kind of row as a run would.

    Rows of a kind are alike in all but their seeds and the words of their texts, which a pipeline takes as they are.
    """

    def __init__(self, pipe: Any, count: int) -> None:
        self.pipe, self.count = pipe, count
        self._kinds: dict[str, LockstepError | None] = {}

    def __call__(self, row: Row) -> None:
        inputs: dict[str, Any] = {}
        for name, value in row.items():
            try:
                inputs[name] = checked_cell(self.pipe, name, value, self.count)
            except LockstepError as problem:
                told = str(problem) if repr(name) in str(problem) else f"{name!r}: {problem}"
                raise (LoadError if isinstance(problem, LoadError) else InputError)(told) from None
        kind = self._kind(row)
        if kind not in self._kinds:
            self._kinds[kind] = self._problem(inputs)
        if (found := self._kinds[kind]) is not None:
            raise found

    def _kind(self, row: Row) -> str:
        known = typed_inputs(self.pipe)
        texts = {name for name in row if name in known and known[name].media is None and is_text(known[name])}
        told = {name: "" if name in texts and isinstance(row[name], str) else row[name] for name in row}
        return json.dumps({**told, "seed": 0}, sort_keys=True, default=str)

    def _problem(self, inputs: dict[str, Any]) -> LockstepError | None:
        from ..blocks.foreseeing import refuse_early

        told = {name: value for name, value in inputs.items() if not name.endswith("attention_kwargs")}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what is only said, the worker says
                samples = refuse_early(self.pipe, {"seed": 0, **told})  # what processors take, LoRA layers may change
        except MachineError:
            return None  # too large for this machine: a row that fails alone, where its worker has no more memory
        except LockstepError as problem:
            return problem
        if samples == 1:
            return None
        return InputError(
            f"It asks for {samples} results, and a row is one file. Give each a row, or --count {samples}."
        )


def checked_cell(pipe: Any, name: str, value: Any, count: int) -> Any:
    """One input of a row, if a run can take it."""
    from ..fleet.plan import checked_seed
    from ..fleet.rows import is_unicode

    if isinstance(value, str) and not is_unicode(value):
        raise InputError(f"{name!r} has half of a surrogate pair, which is no character.")
    if isinstance(value, str) and len(value) > MOST_TEXT:
        raise InputError(f"{name!r} has {len(value)} characters; {MOST_TEXT} are the most that a row may have.")
    if name == "seed":
        return checked_seed(value, count)
    found = read_cell(pipe, name, value)
    param = typed_inputs(pipe)[name]
    if param.media is None:
        param.check(found, "the pipeline")
    return found


def refusal(bad: Mapping[int, LockstepError], total: int) -> LockstepError:
    """All rows that are wrong, the first few in words."""
    told = [f"row {number}: {problem}" for number, problem in list(bad.items())[:TOLD]]
    told += [f"… and {len(bad) - TOLD} more: {named(list(bad)[TOLD:])}"] if len(bad) > TOLD else []
    kind = LoadError if all(isinstance(problem, LoadError) for problem in bad.values()) else InputError
    return kind("\n".join([f"{len(bad)} of {total} rows cannot be made; nothing was started.", *told]))


def named(numbers: Sequence[int]) -> str:
    """Numbers of rows, the first of many."""
    return f"rows {', '.join(map(str, numbers[:NAMED]))}{' …' if len(numbers) > NAMED else ''}"


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

    def contents(value: Any) -> Any:
        if isinstance(value, list):
            return [contents(one) for one in value]
        return {"sha256": hash_file(Path(value))} if isinstance(value, str) else value

    return {name: contents(value) if name in media else value for name, value in row.items()}
