"""Numbers in the code of a run that no torch operation shows, as those of a schedule that numpy makes.

Each number of the reference's code is tried as each that the candidate's has; first what only one side has."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..edits import Edit, NotApplicable

MOST = 96  # pairs that are tried, the nearest numbers first
MOST_FUNCTIONS = 200
FARTHEST = 20.0  # times: what is farther apart stands for something else
_SMALL = 2  # integers up to here are mostly indices
_LIBRARY = ("site-packages", "dist-packages", "<frozen")


@dataclass(frozen=True, eq=False)
class CodeNumber:
    """A number where it stands, and how another is put there for a while."""

    number: float
    where: str
    put: Callable[[ExitStack, float], None]


@dataclass(frozen=True, eq=False)
class OwnNumberChange:
    """Another number at one place of the code."""

    place: CodeNumber
    value: float


def own_number_edits(mine: Any, theirs: Any) -> Iterator[Edit]:
    """`mine` and `theirs` are both live sides; a number that stands in several places of one function is one.

    Two numbers that both sides have are none of these: such a pair would fit wherever a few steps are all that counts.
    """
    places, others = list(code_numbers(mine)), {place.number for place in code_numbers(theirs)}
    known = {place.number for place in places}
    pairs = [(place, number) for place in places for number in others if _near(place.number, number)]
    pairs = [(place, number) for place, number in pairs if place.number not in others or number not in known]

    def order(pair: tuple[CodeNumber, float]) -> tuple[int, float]:
        """First what is one side's alone."""
        return (pair[0].number in others) + (pair[1] in known), abs(math.log(pair[1] / pair[0].number))

    for place, number in sorted(pairs, key=order)[:MOST]:
        words = f"{number:.6g} instead of {place.number:.6g} {place.where}"
        yield Edit("constant", words, (OwnNumberChange(place, number),), rank=2)  # type: ignore[arg-type]


def _near(one: float, other: float) -> bool:
    return one != other and one * other > 0 and 1 / FARTHEST <= other / one <= FARTHEST


def code_numbers(live: Any) -> Iterator[CodeNumber]:
    """Those of the call that repeats the run, of a sampler's methods and of its schedulers' methods, attributes and
    settings, and of the functions of its own that they call."""
    owners = {"": live.parts.pipeline, **live.parts.schedulers}
    for name, owner in owners.items():
        for attribute, value in (vars(owner) if hasattr(owner, "__dict__") else {}).items():
            if _is_number(value):
                yield CodeNumber(value, f"as `{name or 'self'}.{attribute}`", _attribute(owner, attribute))
        for key, value in dict(getattr(owner, "config", None) or {} if name else {}).items():
            if _is_number(value):  # settings are changed as such
                yield CodeNumber(value, f"as `{name}.{key}`", _setting(owner, key))
    seen: set[int] = set()
    for function in _functions(live):
        yield from _numbers_of(function, seen)


def _functions(live: Any) -> list[types.FunctionType]:
    """Library code is entered only where it is the scheduler's or the sampler's own."""
    owners = [live.parts.pipeline, *live.parts.schedulers.values()]
    waiting = [live.call, *(f for owner in owners if owner is not None for f in _methods(type(owner)))]
    found: dict[int, types.FunctionType] = {}
    while waiting and len(found) < MOST_FUNCTIONS:
        function = _plain(waiting.pop(0))
        if function is None or id(function) in found:
            continue
        found[id(function)] = function
        named = [function.__globals__.get(name) for name in _names(function.__code__)]
        cells = [_content(cell) for cell in function.__closure__ or ()]
        called = [f for f in map(_plain, [*named, *cells]) if f is not None]
        waiting += [f for f in called if not any(part in f.__code__.co_filename for part in _LIBRARY)]
    return list(found.values())


def _methods(cls: type) -> list[Any]:
    found: dict[str, Any] = {}
    for owner in cls.__mro__[:-1]:
        for name, function in vars(owner).items():
            if name != "__init__":
                found.setdefault(name, getattr(function, "__func__", function))
    return list(found.values())


def _plain(function: Any) -> types.FunctionType | None:
    """A function as it was written, without what was put around it."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__") or hasattr(function, "__wrapped__"):
            function = getattr(function, "__func__", None) or function.__wrapped__
        else:
            return function if isinstance(function, types.FunctionType) else None


def _numbers_of(function: types.FunctionType, seen: set[int]) -> Iterator[CodeNumber]:
    where = f"in the code of `{function.__qualname__.replace('<locals>.', '')}`"
    for number in _constants(function.__code__):
        yield CodeNumber(number, where, functools.partial(_put_constant, function, number))
    for i, value in enumerate(function.__defaults__ or ()):
        if _is_number(value):
            name = function.__code__.co_varnames[function.__code__.co_argcount - len(function.__defaults__ or ()) + i]
            yield CodeNumber(value, f"as the default of `{name}` {where}", functools.partial(_put_default, function, i))
    for name, value in (function.__kwdefaults__ or {}).items():
        if _is_number(value):
            held = function.__kwdefaults__ or {}
            yield CodeNumber(value, f"as the default of `{name}` {where}", functools.partial(_put_item, held, name))
    for name in _names(function.__code__):
        if _is_number(function.__globals__.get(name)):
            put = functools.partial(_put_item, function.__globals__, name)
            yield CodeNumber(function.__globals__[name], f"as `{name}`", put)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if id(cell) not in seen and _is_number(_content(cell)):
            seen.add(id(cell))
            yield CodeNumber(_content(cell), f"as `{name}`", functools.partial(_put_cell, cell))


def _constants(code: types.CodeType) -> list[float]:
    found = [c for c in code.co_consts if _is_number(c)]
    inner = [n for c in code.co_consts if isinstance(c, types.CodeType) for n in _constants(c)]
    return list(dict.fromkeys([*found, *inner]))


def _names(code: types.CodeType) -> list[str]:
    inner = [name for c in code.co_consts if isinstance(c, types.CodeType) for name in _names(c)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return False
    return bool(value) if isinstance(value, float) else abs(value) > _SMALL


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


# Putting


def _put_constant(function: types.FunctionType, before: float, stack: ExitStack, value: float) -> None:
    stack.callback(setattr, function, "__code__", function.__code__)
    function.__code__ = _with_constant(function.__code__, before, value)


def _with_constant(code: types.CodeType, before: float, value: float) -> types.CodeType:
    def other(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _with_constant(constant, before, value)
        return value if type(constant) is type(before) and constant == before else constant

    return code.replace(co_consts=tuple(map(other, code.co_consts)))


def _put_default(function: types.FunctionType, place: int, stack: ExitStack, value: float) -> None:
    defaults = function.__defaults__ or ()
    stack.callback(setattr, function, "__defaults__", defaults)
    function.__defaults__ = (*defaults[:place], value, *defaults[place + 1 :])


def _put_item(held: dict[str, Any], name: str, stack: ExitStack, value: float) -> None:
    stack.callback(held.__setitem__, name, held[name])
    held[name] = value


def _put_cell(cell: types.CellType, stack: ExitStack, value: float) -> None:
    stack.callback(setattr, cell, "cell_contents", cell.cell_contents)
    cell.cell_contents = value


def _attribute(owner: Any, name: str) -> Callable[[ExitStack, float], None]:
    return functools.partial(_put_item, vars(owner), name)


def _setting(owner: Any, key: str) -> Callable[[ExitStack, float], None]:
    """A scheduler of other settings in the place of this one, with what it has made of them."""

    def put(stack: ExitStack, value: float) -> None:
        if not hasattr(type(owner), "from_config"):
            raise NotApplicable(f"nothing makes another of its kind with {key!r}")
        before, held = dict(vars(owner)), vars(owner)
        settings = {name: kept for name, kept in dict(owner.config).items() if not name.startswith("_")}
        made = type(owner).from_config({**settings, key: value})

        def restore() -> None:
            held.clear()
            held.update(before)

        stack.callback(restore)
        held.clear()
        held.update(vars(made))

    return put
