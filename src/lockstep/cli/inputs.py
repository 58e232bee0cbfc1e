"""Pipeline inputs from a command line: `--guidance-scale 4 --image start.png` by the types that the blocks declare."""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from ..configuration import describe_type
from ..errors import InputError, UnknownNameError

OWN_FORM = ("output_type",)  # the command writes files
PLAIN = (int, float, str, bool)
SECOND_NAMES = {"steps": "num_inference_steps", "cfg": "guidance_scale"}  # what other programs call them
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def can_be_typed(param: Any) -> bool:
    """Whether a word can stand for an input: a picture's or video's file, a number, a text, a list of them, or JSON."""
    if param.name in OWN_FORM:
        return False
    return param.media is not None or any(_is_plain(kind) for kind in _kinds(param.type_hint))


def is_taken(pipe: Any, name: str) -> bool:
    """Whether the model's own scheduler takes a grid of this kind; other inputs are taken by blocks."""
    if name not in ("timesteps", "sigmas"):
        return True
    scheduler = getattr(pipe, "scheduler", None)
    return scheduler is None or name in inspect.signature(type(scheduler).set_timesteps).parameters


def _is_plain(kind: Any) -> bool:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (list, tuple):
        return bool(inner) and inner[0] in PLAIN
    return kind in PLAIN or origin in (Literal, dict)


def read_options(words: list[str], params: Iterable[Any], own: Iterable[str] = ()) -> dict[str, Any]:
    """`["--guidance-scale", "4"]` -> `{"guidance_scale": 4.0}`; an unknown name says which one is meant."""
    known = {param.name: param for param in params if can_be_typed(param)}
    values: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--"):
            raise InputError(
                f"Unexpected {word!r}. Put a prompt of several words in quotes; inputs are given as --name value."
            )
        name, equals, value = word[2:].partition("=")
        name = name.replace("-", "_")
        name = name if name in known else SECOND_NAMES.get(name, name)
        param = known.get(name) or known.get(name.removeprefix("no_"))
        if param is None:
            second = [name for name, meant in SECOND_NAMES.items() if meant in known]
            options = [*own, *(f"--{n.replace('_', '-')}" for n in (*known, *second))]
            raise UnknownNameError("option", f"--{name.replace('_', '-')}", options)
        if not equals and _is_bool(param.type_hint) and (not rest or rest[0].startswith("--")):
            values[param.name] = name == param.name
            continue
        if not equals:
            if not rest:
                raise InputError(
                    f"--{name.replace('_', '-')} wants {describe_type(param.type_hint)}, and nothing follows it."
                )
            value = rest.pop(0)
        given = read_value(value, param)
        if param.name not in values:
            values[param.name] = given
        elif param.media is not None:
            before = values[param.name]
            values[param.name] = [*(before if isinstance(before, list) else [before]), given]
        else:
            raise InputError(f"--{name.replace('_', '-')} was given twice.")
    return values


def read_value(text: str, param: Any, called: str | None = None) -> Any:
    """A word of the command line, or of a table, as the input's type; an error says what the input is `called`."""
    if param.media is not None:
        from ..media import kind_named

        return kind_named(param.media).load(Path(text))
    for kind in _kinds(param.type_hint):
        value = _as(text, kind)
        if value is not None:
            return value
    called = called or f"--{param.name.replace('_', '-')}"
    raise InputError(f"{called} wants {describe_type(param.type_hint)}, got {text!r}.")


def _kinds(hint: Any) -> list[Any]:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return [kind for kind in typing.get_args(hint) if kind is not type(None)] if union else [hint]


def _is_bool(hint: Any) -> bool:
    return bool in _kinds(hint)


def _as(text: str, kind: Any) -> Any:
    """The text as one type, or None where it is none."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    try:
        if kind is bool:
            return True if text.lower() in TRUE else False if text.lower() in FALSE else None
        if kind in (int, float, str):
            return kind(text)
        if origin is Literal:
            return text if text in inner else None
        if origin is dict:
            value = json.loads(text)
            return value if isinstance(value, dict) else None
        if origin in (list, tuple):
            wanted = inner[0] if inner else str
            parts = [part.strip() for part in text.strip("[]()").split(",") if part.strip()]
            values = [_as(part, wanted) for part in parts]
            return None if None in values or not values else origin(values)
    except ValueError:
        return None
    return None


def numbers(text: str, option: str) -> list[int]:
    """`1,2,4` as numbers."""
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise InputError(f"{option} wants whole numbers above 0 with commas between them, as 1,2,4; got {text!r}.")
    return found
