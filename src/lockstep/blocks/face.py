"""How a pipeline is called under a name: which argument means which input, what may come by position, its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import InputError
from .params import ComponentSpec, InputParam


@dataclass(frozen=True)
class Face:
    """The names of arguments over the names of inputs. Without one, arguments are the inputs themselves."""

    positional: tuple[str, ...] = ()  # arguments in the order in which they may be given without a name
    renamed: Mapping[str, str] = field(default_factory=dict)  # argument -> the input that it means
    defaults: Mapping[str, Any] = field(default_factory=dict)  # input -> what it is where the caller gives nothing

    def shown(self, inputs: list[InputParam]) -> list[InputParam]:
        """The inputs as the caller sees them: by the arguments' names, in their order, with this face's defaults."""
        seen = [
            replace(
                param,
                name=self.argument(str(param.name)),
                default=self.defaults.get(str(param.name), param.default),
            )
            for param in inputs
        ]
        order = {name: place for place, name in enumerate(self.positional)}
        return sorted(seen, key=lambda param: order.get(str(param.name), len(order)))

    def by_name(self, owner: str, inputs: list[InputParam], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """A call's arguments as `{input: value}`."""
        names = self.positional or tuple(str(param.name) for param in inputs[:1])
        if len(args) > len(names):
            told = ", ".join(names) or "nothing"
            count = {1: "one positional argument"}.get(len(names), f"{len(names)} positional arguments")
            raise InputError(f"{owner} takes {count} ({told}), got {len(args)}. Give the others by name.")
        values = dict(zip(names, args, strict=False))
        twice = next((name for name in values if name in kwargs), None)
        if twice is not None:
            raise InputError(f"{twice!r} was given twice, by position and by name.")
        found: dict[str, Any] = {}
        for argument, value in {**values, **kwargs}.items():
            name = self.renamed.get(argument, argument)
            if found.get(name) is not None and value is not None:
                raise InputError(f"{argument!r} is another name of {name!r} here; both were given. Give one of them.")
            found[name] = found.get(name) if value is None else value
        return found

    def argument(self, name: str) -> str:
        """What the caller calls an input."""
        return next((argument for argument, renamed in self.renamed.items() if renamed == name), name)

    def settings(self, spec: ComponentSpec) -> dict[str, Any]:
        """The defaults that are a setting of a component which the pipeline makes itself (a guider's scale)."""
        return {name: value for name, value in self.defaults.items() if name in (spec.config or {})}


PLAIN = Face()
