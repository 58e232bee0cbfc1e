"""`SequencePlan`: what a model says, beside its attention, about sharing its tokens out among ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Cut:
    """A value that is cut along an axis: an argument of a module by name, or an output by number.

    `module` is a path below the model ("" is the model itself, `blocks.*` each of a list, `blocks.-1` its last one);
    `stream` names the tokens, or those of several kinds that lie behind each other, of which one may be new. A list or
    pair of tensors is cut one by one; a tensor that is one long there serves all tokens, and stays; a number is how
    many tokens the stream has, and becomes that of this rank's.
    """

    module: str
    value: str | int
    stream: str | tuple[str, ...]
    axis: int = 1

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.stream,) if isinstance(self.stream, str) else self.stream


@dataclass(frozen=True)
class SequencePlan:
    """Where streams of tokens are cut into the ranks' shares, where they are put together, and who attends to which.

    The first cut in a call says how many tokens a stream has. `attends` gives the streams in the order in which they
    lie in an attention's sequence, by the pattern of its path; cross-attention reads keys that are never cut.
    """

    split: tuple[Cut, ...]
    gather: tuple[Cut, ...]
    attends: Mapping[str, tuple[str, ...]]

    def streams_of(self, path: str) -> tuple[str, ...] | None:
        """The streams that the attention at a path reads, or None where the plan does not say."""
        return next((streams for pattern, streams in self.attends.items() if fnmatchcase(path, pattern)), None)
