"""The orders in which the axes of one shape may be those of another, and values read so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import permutations

import numpy as np

from ..trace.container import Array

MOST_AXES = 5  # of a value whose axes are permuted: 120 orders
Axes = tuple[int, ...]


def axis_orders(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[tuple[Axes, bool]]:
    """Orders of axes that make the one shape the other; True: of B's axes, False: of A's."""
    if math.prod(a) != math.prod(b) or max(len(a), len(b)) > MOST_AXES:
        return
    for shape, other, of_b in ((b, a, True), (a, b, False)):
        if len(shape) < len(other):
            continue
        for axes in permutations(range(len(shape))):
            turned = tuple(shape[i] for i in axes)
            if list(axes) != sorted(axes) and joins(turned, other) and _in_order(axes, turned, other):
                yield axes, of_b
        if len(shape) == len(other):
            return


def joins(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """True if `other` is `shape` with neighbouring axes joined."""
    fine, coarse = ({math.prod(s[:end]) for end in range(len(s) + 1)} for s in (shape, other))
    return coarse <= fine


def _in_order(axes: Axes, turned: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """True if axes that are joined keep their order: columns before rows is another value, not another arrangement."""
    borders = {math.prod(other[:end]) for end in range(len(other) + 1)}
    inside = (math.prod(turned[: place + 1]) not in borders for place in range(len(axes) - 1))
    return all(axes[place] < axes[place + 1] for place, joined in enumerate(inside) if joined)


def to_a(values: Array, shape: tuple[int, ...], order: tuple[Axes, bool]) -> Array:
    """B's numbers in A's shape."""
    axes, of_b = order
    if of_b:
        return np.ascontiguousarray(values.transpose(axes)).reshape(shape)
    return np.ascontiguousarray(values.reshape([shape[i] for i in axes]).transpose(np.argsort(axes)))


def to_b(values: Array, shape: tuple[int, ...], order: tuple[Axes, bool]) -> Array:
    """A's numbers in B's shape: the way back."""
    axes, of_b = order
    if of_b:
        return np.ascontiguousarray(values.reshape([shape[i] for i in axes]).transpose(np.argsort(axes)))
    return np.ascontiguousarray(values.transpose(axes)).reshape(shape)


def axis_of_parts(whole: tuple[int, ...], parts: list[tuple[int, ...]]) -> int | None:
    """The axis along which the parts make up the whole."""
    if any(len(part) != len(whole) for part in parts):
        return None
    for axis in range(len(whole)):
        rest = whole[:axis] + whole[axis + 1 :]
        if all(p[:axis] + p[axis + 1 :] == rest for p in parts) and sum(p[axis] for p in parts) == whole[axis]:
            return axis
    return None


def is_spread(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    """True if the larger shape may hold the smaller one again and again, along axes before its own."""
    own = _without_leading_ones(small)
    return bool(own) and math.prod(large) > math.prod(own) and large[-len(own) :] == own


def as_shape(values: Array, shape: tuple[int, ...]) -> Array:
    """The first of values that are the same again and again, or as many of them as the shape has room for."""
    if values.size > math.prod(shape):
        return values.reshape(-1, *shape)[0]
    return np.broadcast_to(values.reshape(_without_leading_ones(values.shape)), shape)


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    first = next((i for i, extent in enumerate(shape) if extent > 1), len(shape))
    return shape[first:]
