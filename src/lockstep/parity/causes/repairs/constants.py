"""Numbers and rows of numbers that the reference's code and settings hold."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..hypotheses.own_code import code_numbers
from ..live import Live

MOST_NUMBERS, MOST_ROWS = 48, 24
LEAST, MOST = 2, 8  # numbers of a row
SMALL = 2  # integers up to here are mostly indices


@dataclass(frozen=True)
class Constants:
    """Each once, what the code that runs has before what modules only have in their classes."""

    numbers: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]


def constants_of(live: Live) -> Constants:
    found: list[Any] = [place.number for place in code_numbers(live)]
    for module in live.parts.modules.values():
        settings = getattr(module, "config", None)
        held: dict[str, Any] = settings if isinstance(settings, dict) else getattr(settings, "__dict__", {})
        found += held.values()
    found += [constant for code in _codes(live) for constant in _constants(code)]
    numbers = [n for n in found if _is_number(n) and (isinstance(n, float) or abs(n) > SMALL) and n]
    rows = [tuple(row) for row in found if isinstance(row, tuple | list) and LEAST <= len(row) <= MOST]
    rows = [row for row in rows if all(map(_is_number, row))]
    floats = [n for n in numbers if isinstance(n, float)]
    return Constants(tuple(dict.fromkeys([*floats, *numbers]))[:MOST_NUMBERS], tuple(dict.fromkeys(rows))[:MOST_ROWS])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _codes(live: Live) -> Iterator[types.CodeType]:
    """Of the classes of every part, each once."""
    parts = [*live.parts.named_modules().values(), *live.parts.schedulers.values()]
    for cls in dict.fromkeys(type(part) for part in parts):
        if not cls.__module__.startswith("torch."):
            for method in vars(cls).values():
                code = getattr(inspect.unwrap(method) if callable(method) else method, "__code__", None)
                if isinstance(code, types.CodeType):
                    yield code


def _constants(code: types.CodeType) -> Iterator[Any]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _constants(constant)
        else:
            yield constant
