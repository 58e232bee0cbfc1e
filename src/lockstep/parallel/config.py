"""`ParallelConfig`: over how many ranks one model is spread, and in which ways."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ..errors import ConfigError, InputError, UnknownNameError

DEGREES = ("cfg", "ulysses", "ring", "fsdp")
SECONDS = {"unit": "s"}


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """The ways in which ranks share one model; `cfg` times `ulysses` times `ring` is the number of ranks.

    `cfg`: the branches of the guidance; `ulysses` and `ring`: the tokens of a transformer; `fsdp`: the weights, over
    all ranks (1, or their number; alone it makes ranks repeat each other's work). A rank that stops living is noticed
    after `lost_after_s` seconds, one that lives and does not come to an exchange after `timeout_s`. `check_weights` off
    leaves the comparison of the weights out, which hashes all of them.
    """

    cfg: int = 1
    ulysses: int = 1
    ring: int = 1
    fsdp: int = 1
    timeout_s: float = field(default=600.0, metadata=SECONDS)
    lost_after_s: float = field(default=15.0, metadata=SECONDS)
    check_weights: bool = True

    def __new__(cls, **values: float) -> typing.Self:
        check_names(cls, values)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name in DEGREES:
            degree = getattr(self, name)
            if isinstance(degree, bool) or not isinstance(degree, int) or degree < 1:
                raise ConfigError(f"ParallelConfig: {name!r} is a number of ranks, at least 1, got {degree!r}.")
        for name in times(type(self)):
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
                raise ConfigError(f"ParallelConfig: {name!r} is in seconds, above 0, got {seconds!r}.")

    @classmethod
    def from_text(cls, text: str) -> typing.Self:
        """`cfg=2,ulysses=2` as a config."""
        values: dict[str, Any] = {}
        for word in filter(None, (part.strip() for part in text.split(","))):
            name, sign, number = (part.strip() for part in word.partition("="))
            check_names(cls, {name: number})
            try:
                values[name] = float(number) if name in times(cls) else int(number)
            except ValueError:
                raise InputError(f"{word!r} is no degree: wanted {name}=2 or the like, got {sign}{number!r}.") from None
        return cls(**values)

    @property
    def tokens(self) -> int:
        """Over how many ranks a sequence is shared out."""
        return self.ulysses * self.ring

    @property
    def ranks(self) -> int:
        """How many ranks the degrees ask for."""
        return max(self.cfg * self.tokens, self.fsdp)

    def copies(self, world: int) -> int:
        """How often the same work is done among so many ranks; refuses a number of ranks that does not fit."""
        product = self.cfg * self.tokens
        shown = f"cfg={self.cfg} × ulysses={self.ulysses} × ring={self.ring}"
        if self.fsdp not in (1, world):
            raise ConfigError(
                f"ParallelConfig: fsdp shares the weights among all ranks: 1 or {world} here, got {self.fsdp}."
            )
        if product == world or (self.fsdp == world and world % product == 0):
            return world // product
        start = f"torchrun --nproc-per-node {self.ranks} …"
        raise ConfigError(
            f"ParallelConfig: {shown} makes {product} ranks, and {world} {'is' if world == 1 else 'are'} running. "
            f"Start {start}, or change the degrees."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def degrees(self) -> dict[str, int]:
        """The degrees that are not 1."""
        return {name: getattr(self, name) for name in DEGREES if getattr(self, name) > 1}


def times(cls: type[ParallelConfig]) -> list[str]:
    """The values that are in seconds."""
    return [one.name for one in fields(cls) if one.metadata == SECONDS]


def check_names(cls: type[ParallelConfig], values: Mapping[str, Any]) -> None:
    known = [one.name for one in fields(cls)]
    for name in values:
        if name not in known:
            raise UnknownNameError("argument of ParallelConfig", name, known)
