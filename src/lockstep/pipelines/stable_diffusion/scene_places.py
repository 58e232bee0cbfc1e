"""Where the things of a scene stand, in shares of a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

MOST = 9  # things that a picture has room for
ROWS = {1: (1,), 2: (2,), 3: (1, 2), 4: (2, 2), 5: (3, 2), 6: (3, 3), 7: (2, 3, 2), 8: (3, 2, 3), 9: (3, 3, 3)}
MARGIN = 0.02  # of a place that stays free on each side
SMALLER = 0.55


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


def above(upper: int, lower: int) -> list[Place]:
    """What is above stands on what is below, which is the larger."""
    edge = 0.44
    return [
        *one_row(upper, 0.0, edge, min(edge, 1 / upper), "bottom"),
        *one_row(lower, edge, 1 - edge, min(0.8 if lower == 1 else 1 - edge, 1 / lower), "top"),
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
