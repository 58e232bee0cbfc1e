"""Numbers that stand in a scheduler's own code or attributes, where no torch operation shows them (Karras rho, a
power in numpy)."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..edits import Edit, NotApplicable

MOST = 60  # numbers looked at
_SMALL = 2  # integers up to here are mostly indices


@dataclass(frozen=True)
class NumberChange:
    """Another number in one method's code, or as one attribute."""

    part: str
    method: str  # empty: an attribute
    name: str  # of the attribute, or the number as it stands in the code
    before: float
    value: float


def number_edits(schedulers: Mapping[str, Any]) -> Iterator[Edit]:
    """Every number, a few others in its place each; the best of them is fitted."""
    found = [(part, *where) for part, scheduler in schedulers.items() for where in _numbers(scheduler)]
    for part, method, name, number in found[:MOST]:
        tried = (number + 1, number - 1, 2 * number, number / 2, 10 * number, number / 10, number**2, 1.0)
        for value in dict.fromkeys(tried):
            if value != number:
                yield _edit(part, method, name, number, value)


def numbers_in_code(scheduler: Any) -> Iterator[float]:
    """Numbers in attributes, settings and code, in the functions that this calls and in the names that it reads."""
    settings = dict(getattr(scheduler, "config", None) or {})
    yield from (v for v in [*vars(scheduler).values(), *settings.values()] if isinstance(v, (int, float)))
    functions = [*_methods(type(scheduler)).values(), *_called(_methods(type(scheduler)).values())]
    for function in functions:
        read = [function.__globals__.get(name) for name in function.__code__.co_names]
        given = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        for value in [*function.__code__.co_consts, *read, *given]:
            if isinstance(value, (int, float)):
                yield value


def _called(functions: Iterable[types.FunctionType]) -> list[types.FunctionType]:
    found = [f.__globals__.get(name) for f in functions for name in f.__code__.co_names]
    return [function for function in found if isinstance(function, types.FunctionType)]


def _numbers(scheduler: Any) -> Iterator[tuple[str, str, float]]:
    for name, value in vars(scheduler).items():
        if isinstance(value, float) and value:
            yield "", name, value
    for method, function in _methods(type(scheduler)).items():
        for number in dict.fromkeys(function.__code__.co_consts):
            if (isinstance(number, float) and number) or (isinstance(number, int) and abs(number) > _SMALL):
                yield method, f"{number:g}", number


def _methods(cls: type) -> dict[str, types.FunctionType]:
    """Methods of a class and its parents as they were written."""
    found: dict[str, types.FunctionType] = {}
    for owner in cls.__mro__[:-1]:
        for name, function in vars(owner).items():
            function = getattr(function, "__wrapped__", function)
            if isinstance(function, types.FunctionType) and name != "__init__":
                found.setdefault(name, function)
    return found


def _edit(part: str, method: str, name: str, before: float, value: float) -> Edit:
    of_it = " (its square: done twice)" if value == before**2 else ""
    where = f"in the code of `{part}.{method}`" if method else f"as `{part}.{name}`"
    words = f"{value:.6g}{of_it} instead of {before:.6g} {where}"
    return Edit(
        "constant", words, (NumberChange(part, method, name, before, value),), rank=4,  # type: ignore[arg-type]
        parameter=value, refit=lambda v: _edit(part, method, name, before, v),
    )  # fmt: skip


def set_number(stack: ExitStack, scheduler: Any, change: NumberChange) -> None:
    """For one run, given back by the stack."""
    if not change.method:
        stack.callback(setattr, scheduler, change.name, getattr(scheduler, change.name))
        setattr(scheduler, change.name, change.value)
        return
    function = _methods(type(scheduler)).get(change.method)
    if function is None:
        raise NotApplicable(f"no method {change.method!r}")
    code = function.__code__
    constants = tuple(change.value if _is(c, change.before) else c for c in code.co_consts)
    # in the function itself, so that whoever watches the method still does
    stack.callback(setattr, function, "__code__", code)
    function.__code__ = code.replace(co_consts=constants)


def _is(constant: Any, number: float) -> bool:
    return type(constant) is type(number) and constant == number
