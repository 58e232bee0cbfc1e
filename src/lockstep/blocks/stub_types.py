"""Types as source text, with the imports that they need."""

from __future__ import annotations

import functools
import operator
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any

BARE: dict[type, str] = {
    list: "list[{}]",
    tuple: "tuple[{}, ...]",
    dict: "dict[str, {}]",
}  # where nothing is said of what is inside


class Types:
    """Writes types; remembers what has to be imported for them."""

    def __init__(self) -> None:
        self.names: set[tuple[str, str]] = set()
        self.modules: set[str] = {"torch"}

    def text(self, hint: Any) -> str:
        origin, members = typing.get_origin(hint), typing.get_args(hint)
        if hint is None or hint is type(None):
            return "None"
        if hint is Ellipsis:
            return "..."
        if origin in (typing.Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.text(member) for member in members))
        if origin is typing.Literal:
            return f"{self.named('typing', 'Literal')}[{', '.join(repr(member) for member in members)}]"
        if isinstance(hint, list):  # the arguments of a Callable
            return f"[{', '.join(self.text(member) for member in hint)}]"
        if origin is not None and members:
            outer = origin.__name__ if origin in BARE else self.text(origin)
            return f"{outer}[{', '.join(self.text(member) for member in members)}]"
        return self._plain(hint)

    def _plain(self, kind: Any) -> str:
        if kind is typing.Self:
            return self.named("typing", "Self")
        if kind is Callable:
            return self.named("collections.abc", "Callable")
        if not isinstance(kind, type) or kind is Any:
            return self.named("typing", "Any")
        if kind in BARE:
            return BARE[kind].format(self.named("typing", "Any"))
        if kind.__module__ == "builtins":
            return kind.__name__
        if kind.__module__.partition(".")[0] == "torch":
            return f"torch.{kind.__name__}"
        return self.named(kind.__module__, kind.__name__)

    def named(self, module: str, name: str) -> str:
        """A name that is imported from a module."""
        self.names.add((module, name))
        return name

    def imports(self) -> list[str]:
        lines = [f"import {module}" for module in sorted(self.modules)]
        return lines + [f"from {module} import {name}" for module, name in sorted(self.names)]


def as_argument(hint: Any) -> Any:
    """A type as that of an argument: what takes a list takes a list of some of its types, and a tuple."""
    origin, members = typing.get_origin(hint), tuple(as_argument(member) for member in typing.get_args(hint))
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, members)
    return Sequence[members[0]] if origin is list else hint  # type: ignore[valid-type]
