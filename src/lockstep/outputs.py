"""What models, schedulers and pipelines return: a dataclass that also reads as a tuple and as a dict."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any


class Output:
    """Base of output dataclasses: `out.sample`, `out["sample"]` and `out[0]` are the same; `None` fields are left out of the tuple."""

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
