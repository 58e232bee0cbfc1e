"""Several models in the place of one (ControlNets, T2I-Adapters): each has its own picture and its own numbers."""

from __future__ import annotations

from typing import Any

from ...errors import InputError


def nets_of(component: Any, pictures: Any = None) -> list[Any]:
    """The models of a component that is one, or several; one that sees several kinds of pictures, for each of them."""
    nets = list(getattr(component, "nets", [component]))
    if len(nets) > 1 or not getattr(component, "sees_several", False) or not isinstance(pictures, (list, tuple)):
        return nets
    of_one_prompt = pictures[0] if pictures and isinstance(pictures[0], (list, tuple)) else pictures
    return nets * max(len(of_one_prompt), 1)


def for_each(given: Any, count: int, name: str, what: str) -> list[Any]:
    """A value for each of several models: one that was given for all of them, or a list with one for each."""
    values = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(values) != count:
        raise InputError(f"{name!r} wants a number for each {what}, {count}, or one for all; got {given}.")
    return values


def pictures_for_each(given: Any, count: int, name: str, what: str) -> list[Any]:
    """A picture for each of several models; one model takes what is given as it is."""
    pictures = [given] if count == 1 else given
    if not isinstance(pictures, (list, tuple)) or len(pictures) != count:
        got = f"{len(pictures)}" if isinstance(pictures, (list, tuple)) else "one picture"
        raise InputError(f"{name!r} wants a list with a picture for each of {count} {what}s, got {got}.")
    return list(pictures)
