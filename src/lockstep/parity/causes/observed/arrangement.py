"""The same numbers with other axes: tokens for a feature map, channels last, two neighbouring axes as one; or with the
two branches of a guidance in the other order."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...comparison.axes import axis_orders, joins

LEAST = 16  # fewer numbers may be alike by chance
LEAST_ROWS = 4  # of two branches: a time for each is no such batch
MOST = 1 << 22


@dataclass(frozen=True)
class Arrangement:
    """How a value of one shape is read as one of another."""

    shape: tuple[int, ...]
    other: tuple[int, ...]
    axes: tuple[int, ...]
    of_other: bool  # the axes are the other shape's

    def there(self, tensor: torch.Tensor) -> torch.Tensor:
        return _split(tensor, self.other, self.axes) if self.of_other else _joined(tensor, self.other, self.axes)

    def back(self, tensor: torch.Tensor) -> torch.Tensor:
        return _joined(tensor, self.shape, self.axes) if self.of_other else _split(tensor, self.shape, self.axes)


@dataclass(frozen=True)
class ExchangedHalves:
    """A batch of two branches, of which the other side has the second one first."""

    shape: tuple[int, ...]

    @property
    def other(self) -> tuple[int, ...]:
        return self.shape

    def there(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.roll(tensor.shape[0] // 2, 0)

    back = there


def exchanged_halves(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> ExchangedHalves | None:
    """None where the halves of the one are not those of the other in the other order."""
    if a.shape != b.shape or a.ndim < 1 or a.shape[0] == 0 or a.shape[0] % 2 or not LEAST_ROWS <= a.numel() <= MOST:
        return None
    if not (a.is_floating_point() and b.is_floating_point()):
        return None
    with torch._C.DisableTorchFunction():
        found, x, y = ExchangedHalves(tuple(a.shape)), a.double(), b.double()
        near = float((found.there(x) - y).norm()) <= tolerance * float(y.norm())  # False where one is not finite
    return found if near else None


def _joined(tensor: torch.Tensor, shape: tuple[int, ...], axes: tuple[int, ...]) -> torch.Tensor:
    return tensor.permute(axes).reshape(shape)


def _split(tensor: torch.Tensor, shape: tuple[int, ...], axes: tuple[int, ...]) -> torch.Tensor:
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return tensor.reshape([shape[i] for i in axes]).permute(back)


def arrangement_of(a: torch.Tensor, b: torch.Tensor, tolerance: float) -> Arrangement | None:
    """How `a` is read as `b`; None for equal shapes, and where no order of the axes makes them the same numbers.

    Axes that are joined or as long as each other keep their order: columns before rows is another value.
    """
    if a.shape == b.shape or a.numel() != b.numel() or not LEAST <= a.numel() <= MOST:
        return None
    if not (a.is_floating_point() and b.is_floating_point()):
        return None
    with torch._C.DisableTorchFunction():
        x, y = a.double(), b.double()
        if not torch.equal(x[~x.isfinite()].nan_to_num().sort().values, y[~y.isfinite()].nan_to_num().sort().values):
            return None
        endless = ~x.isfinite(), ~y.isfinite()  # what is hidden by a mask: it has no length
        x, y = x.masked_fill(endless[0], 0), y.masked_fill(endless[1], 0)
        norm = float(y.norm())
        if not abs(float(x.norm()) - norm) <= tolerance * norm:
            return None
        shapes = tuple(a.shape), tuple(b.shape)
        orders = [(axes, of_other) for axes, of_other in axis_orders(*shapes) if _keeps(axes, shapes[of_other])]
        if joins(*shapes):
            orders.insert(0, (tuple(range(a.ndim)), False))
        elif joins(*reversed(shapes)):
            orders.insert(0, (tuple(range(b.ndim)), True))
        for axes, of_other in orders:
            found = Arrangement(*shapes, axes, of_other)
            near = float((found.there(x) - y).norm()) <= tolerance * norm
            if near and torch.equal(found.there(endless[0]), endless[1]):
                return found
    return None


def only_arrangement(shape: tuple[int, ...], other: tuple[int, ...]) -> Arrangement | None:
    """How a value of the one shape is read as the other, where the extents leave no choice."""
    shapes = shape, other
    orders = [(axes, of_other) for axes, of_other in axis_orders(*shapes) if _keeps(axes, shapes[of_other])]
    apart = {tuple(i for i in axes if shapes[of_other][i] > 1) for axes, of_other in orders}
    return Arrangement(*shapes, *orders[0]) if len(apart) == 1 else None


def moved_channels(ours: torch.Tensor, theirs: torch.Tensor) -> list[tuple[int, ...]]:
    """The orders of axes in which the channels of a feature map stand last on the one side and behind the batch on the
    other."""
    rest = range(1, ours.ndim - 1)
    orders = [(0, *(i + 1 for i in rest), 1), (0, ours.ndim - 1, *rest)] if ours.ndim > 2 else []
    return [axes for axes in orders if tuple(ours.shape[i] for i in axes) == tuple(theirs.shape)]


def _keeps(axes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    alike = [(i, j) for place, i in enumerate(axes) for j in axes[place + 1 :] if shape[i] == shape[j] > 1]
    return all(i < j for i, j in alike)
