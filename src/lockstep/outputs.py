"""What models, schedulers and pipelines return: a dataclass that also reads as a tuple and as a dict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

Arguments = ParamSpec("Arguments")
Given = TypeVar("Given", bound="Output", covariant=True)


class Output:
    """Base of output dataclasses: `out.sample`, `out["sample"]` and `out[0]` are the same.

    Fields that are None are left out of the tuple.
    """

    def to_tuple(self) -> tuple[Any, ...]:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return tuple(value for value in values if value is not None)

    def keys(self) -> list[str]:
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return [name for name in names if getattr(self, name) is not None]

    def values(self) -> tuple[Any, ...]:
        return self.to_tuple()

    def items(self) -> list[tuple[str, Any]]:
        return list(zip(self.keys(), self.to_tuple(), strict=True))

    def __getitem__(self, key: str | int | slice) -> Any:
        return getattr(self, key) if isinstance(key, str) else self.to_tuple()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_tuple())

    def __len__(self) -> int:
        return len(self.to_tuple())


class OutputOrTuple(Protocol[Arguments, Given]):
    """A function that gives an output, or with `return_dict=False` its values as a tuple."""

    @overload
    def __call__(  # type: ignore[overload-overlap]  # which of the two it is hangs on `return_dict` alone
        self, *args: Any, return_dict: Literal[False], **kwargs: Any
    ) -> tuple[Any, ...]: ...
    @overload
    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Given: ...


def output_or_tuple(
    method: Callable[Concatenate[Any, Arguments], Given | tuple[Any, ...]],
) -> OutputOrTuple[Arguments, Given]:
    """The same method; a type checker learns from it that only `return_dict=False` gives the tuple."""
    return method  # type: ignore[return-value]
