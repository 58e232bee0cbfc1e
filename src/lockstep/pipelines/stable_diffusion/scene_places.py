"""Where the things of a scene stand, in shares of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

MOST = 9  # things that a picture has room for
ROWS = {1: (1,), 2: (2,), 3: (1, 2), 4: (2, 2), 5: (3, 2), 6: (3, 3), 7: (2, 3, 2), 8: (3, 2, 3), 9: (3, 3, 3)}
MARGIN = 0.02  # of a place that stays free on each side
SMALLER = 0.55
TALLER = 1.2  # a tall thing may be than its place is wide


@dataclass(frozen=True)
class Place:
    """A box, and the side of it that a thing touches."""

    left: float
    top: float
    width: float
    height: float
    touches: Literal["middle", "bottom", "top"] = "middle"


WHOLE = Place(0.0, 0.0, 1.0, 1.0)


def in_rows(count: int) -> list[Place]:
    """Places of equal size, in rows from the top."""
    rows = ROWS[count]
    side = 1 / max(len(rows), *rows)
    top = (1 - side * len(rows)) / 2
    return [place for k, row in enumerate(rows) for place in one_row(row, top + side * k, side, side)]


def one_row(count: int, top: float, height: float, width: float, touches: str = "middle") -> list[Place]:
    """Places beside each other, centred."""
    left = (1 - width * count) / 2
    return [Place(left + width * k, top, width, height, touches) for k in range(count)]  # type: ignore[arg-type]


def above(upper: int, lower: int, edge: float = 0.44) -> list[Place]:
    """What is above stands on what is below; the edge between them says which is the larger."""
    return [
        *one_row(upper, 0.0, edge, min(edge, 1 / upper), "bottom"),
        *one_row(lower, edge, 1 - edge, min(0.8 if lower == 1 and edge < 0.5 else 1 - edge, 1 / lower), "top"),
    ]


def on_one_ground(shares: Sequence[float]) -> list[Place]:
    """Places beside each other, the largest as large as fits, the others as their shares of it."""
    largest = 1 / sum(shares)
    ground = 0.5 + largest * TALLER / 2
    lefts = accumulate((largest * share for share in shares), initial=0.0)
    sides = [(largest * share, largest * share * (TALLER if share == 1 else 1)) for share in shares]
    return [
        Place(left, ground - height, width, height, "bottom")
        for left, (width, height) in zip(lefts, sides, strict=False)
    ]


def in_front() -> list[Place]:
    """A thing before the middle of another, which fills the picture; what is behind is drawn first."""
    return [Place(0.28, 0.5, 0.44, 0.46, "bottom"), WHOLE]


def placed(across: str | None, down: str | None, *, small: bool = False) -> Place:
    """One thing at a side, in a corner, or small in the middle."""
    side = SMALLER if small else 0.5
    free = 1 - side
    left = {"left": 0.0, "right": free}.get(across or "", free / 2)
    return Place(left, {"top": 0.0, "bottom": free}.get(down or "", free / 2), side, side)


def shrunk(place: Place) -> Place:
    """The same place for something small: on the same ground."""
    width, height = place.width * SMALLER, place.height * SMALLER
    top = place.top if place.touches == "top" else place.top + place.height - height
    left = place.left + (place.width - width) / 2
    return replace(place, left=left, top=top, width=width, height=height)
