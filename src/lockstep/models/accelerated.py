"""`accelerate` on a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from torch import nn

from ..errors import UnknownNameError

if TYPE_CHECKING:
    from .acceleration import Acceleration

LEVELS = ("exact", "off")


def why_not() -> str | None:
    """Why there are no kernels of our own here; None where there are."""
    from .. import kernels

    return kernels.why_not()


class Accelerated(nn.Module):
    """What `ModelMixin` can do about its speed."""

    acceleration: Acceleration | None = None  # what was accelerated, and how exact it was found to be

    def accelerate(self, level: str = "exact") -> Self:
        """Compute the layers by Lockstep's own kernels, with the same numbers up to fp32's rounding; "off" goes back.

        Names, files, hooks and training stay as they are: where a gradient is recorded, and for other dtypes and
        devices than fp32 on the processor, torch computes as before. Each kind of layer is tried on its own weights
        against fp64 first; `model.acceleration` says what was found.
        """
        from . import acceleration

        if level not in LEVELS:
            raise UnknownNameError("level of acceleration", level, LEVELS)
        if level == "off":
            acceleration.make_plain(self)
            self.acceleration = None
        else:
            self.acceleration = acceleration.make_fast(self, level)
        return self
