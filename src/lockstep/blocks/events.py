"""What a run tells while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["block_start", "block_end", "step", "preview", "frames", "retry", "output"]


@dataclass(frozen=True)
class Event:
    """One thing that happened at `path`; steps have `index`, `total` and `item`, previews and the output `value`.

    `frames` are those of a video that are ready now, in the form that was asked for.
    """

    kind: Kind
    path: str = ""
    block: str = ""  # class of the block
    index: int | None = None
    total: int | None = None
    item: Any = None
    seconds: float | None = None
    value: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The event without its values, for logs and JSON."""
        item = float(self.item) if hasattr(self.item, "item") and getattr(self.item, "ndim", 1) == 0 else self.item
        known: dict[str, Any] = {
            "kind": self.kind,
            "path": self.path,
            "block": self.block,
            "index": self.index,
            "total": self.total,
        }
        known |= {"item": item if isinstance(item, (int, float, str)) else None, "seconds": self.seconds}
        return {name: value for name, value in known.items() if value not in (None, "")}
