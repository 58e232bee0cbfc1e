"""What models, schedulers and pipelines return: a dataclass that also reads as a tuple and as a dict."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, overload

from .errors import UnsupportedError

Arguments = ParamSpec("Arguments")
Given = TypeVar("Given", bound="Output", covariant=True)


class Output(dict[str, Any]):
    """Base of output dataclasses: `out.sample`, `out["sample"]` and `out[0]` are the same; `None` fields are left out.

    A dictionary in everything that asks by name; `out.to_tuple()` is the tuple of the values.
    """

    def to_tuple(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.keys())

    def keys(self) -> list[str]:  # type: ignore[override]
        names = [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        return [name for name in names if getattr(self, name) is not None]

    def values(self) -> tuple[Any, ...]:  # type: ignore[override]
        return self.to_tuple()

    def items(self) -> list[tuple[str, Any]]:  # type: ignore[override]
        return list(zip(self.keys(), self.to_tuple(), strict=True))

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key) if key in self else default

    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str) and key not in self:
            raise KeyError(key)
        return getattr(self, key) if isinstance(key, str) else self.to_tuple()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self:
            raise KeyError(key)
        setattr(self, key, value)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(
            f"{type(self).__name__} keeps the values that it was made with; replace one by its name."
        )

    __delitem__ = pop = popitem = clear = setdefault = update = _refuse

    def __contains__(self, key: object) -> bool:
        """Whether it has a value of that name."""
        return key in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __reduce__(self) -> tuple[Callable[..., Output], tuple[type[Output], dict[str, Any]]]:
        return _restored, (type(self), self.__dict__)


def _restored(kind: type[Output], values: dict[str, Any]) -> Output:
    made = kind.__new__(kind)
    made.__dict__.update(values)
    return made


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
