"""Tensors of two layouts put together by their values, with the operation of a weight map between them."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import WeightsError
from ...loaders import operations
from ...loaders.difference import relation

Tensors = Mapping[str, Tensor]
MOST_HEADS = 128
BY_VALUES, BY_SHAPE = "values", "shape and order"


@dataclass(frozen=True)
class Match:
    """Tensors of theirs that are tensors of ours, by an operation of a weight map."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    operation: str = "keep"
    by: str = BY_VALUES
    note: str = ""  # what no operation can say: a factor, an order of rows, several of one shape
    equal: bool = False  # constants that have the same values, whichever is meant


def match_tensors(theirs: Tensors, ours: Tensors) -> list[Match]:
    """Every match that the values prove; then, of what is left, what shape and order suggest."""
    left = dict(theirs), dict(ours)
    found: list[Match] = []
    for search in (_singles, _splits, _joins, _scaled, _constants, _by_shape):
        for match in search(*left):
            if all(name in left[0] for name in match.theirs) and all(name in left[1] for name in match.ours):
                found.append(match)
                for side, names in zip(left, (match.theirs, match.ours), strict=True):
                    for name in names:
                        del side[name]
    return found


def _singles(theirs: Tensors, ours: Tensors) -> Iterator[Match]:
    """One tensor of each side with the same numbers, in the same or in another order."""
    told = {name: tensor for name, tensor in theirs.items() if not _says_nothing(tensor)}
    dtypes = {tensor.dtype for tensor in told.values()}
    by_content: dict[tuple[torch.dtype, tuple[int, ...]], list[str]] = defaultdict(list)
    for name, tensor in told.items():
        for dtype in {coarser(tensor.dtype, one.dtype) for one in ours.values() if one.is_floating_point()}:
            by_content[dtype, _content(tensor.to(dtype))].append(name)
    for name, tensor in list(ours.items()):
        if _says_nothing(tensor):
            continue
        read_as = sorted({coarser(tensor.dtype, dtype) for dtype in dtypes}, key=str)
        keys = [(dtype, _content(tensor.to(dtype))) for dtype in read_as]
        candidates = [one for one in dict.fromkeys(one for key in keys for one in by_content[key]) if one in theirs]
        for other in sorted(candidates, key=lambda one: -_likeness(one, name)):
            operation = operation_between(theirs[other], tensor)
            if operation is not None:
                yield Match((other,), (name,), operation)
                break
        else:
            if candidates:
                state, detail = relation(theirs[candidates[0]], tensor)
                yield Match((candidates[0],), (name,), note=f"{state}: {detail}")


def operation_between(one: Tensor, other: Tensor) -> str | None:
    """The operation of a weight map that makes one tensor the other; None where there is none."""
    for text in _operations(one, other):
        try:
            (made,) = operations.run(operations.parse(text), [one], 1, backwards=False)
        except WeightsError:
            continue
        if same_values(made, other):
            return text
    return None


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, as far as the coarser of their dtypes can tell them apart."""
    if one.shape != other.shape:
        return False
    dtype = coarser(one.dtype, other.dtype)
    return torch.equal(one.to(dtype), other.to(dtype))


def coarser(one: torch.dtype, other: torch.dtype) -> torch.dtype:
    """The dtype that rounds more; a checkpoint in half precision is the same model."""
    if not (one.is_floating_point and other.is_floating_point):
        return one
    return max(one, other, key=lambda dtype: torch.finfo(dtype).eps)


def _operations(one: Tensor, other: Tensor) -> Iterator[str]:
    yield "keep"
    if one.ndim > 2 and other.ndim == 2:
        yield "squeeze" if one.ndim == 4 else f"squeeze {one.ndim - 2}"
    if one.ndim == 2:
        yield "transpose"
    if 2 < one.ndim <= 5:
        yield from (f"permute {' '.join(map(str, order))}" for order in itertools.permutations(range(one.ndim)))
    if one.shape != other.shape or not one.ndim:
        return
    yield "swap_scale_shift"
    heads = [count for count in range(1, min(len(one), MOST_HEADS) + 1) if len(one) % count == 0]
    yield from (f"interleave {count}" for count in heads if len(one) % (2 * count) == 0)
    for count in heads:
        yield from (f"regroup {count} {parts}" for parts in (2, 3, 4, 6) if len(one) % (count * parts) == 0)


def _splits(theirs: Tensors, ours: Tensors) -> Iterator[Match]:
    """One of theirs that is several of ours, one behind the other."""
    for name, whole in list(theirs.items()):
        for before, changed in _regrouped(whole):
            parts = _parts_of(changed, ours)
            if parts:
                yield Match((name,), tuple(parts), _chained(before, "split", [len(ours[one]) for one in parts]))
                break


def _joins(theirs: Tensors, ours: Tensors) -> Iterator[Match]:
    """Several of theirs that are one of ours."""
    for name, whole in list(ours.items()):
        parts = _parts_of(whole, theirs)
        if parts:
            yield Match(tuple(parts), (name,), _chained("", "join", [len(theirs[one]) for one in parts]))


def _regrouped(whole: Tensor) -> Iterator[tuple[str, Tensor]]:
    """A fused tensor as it is, and read head by head."""
    yield "", whole
    for count in range(2, min(len(whole) if whole.ndim else 0, MOST_HEADS) + 1):
        for parts in (3, 2):
            if whole.ndim and len(whole) % (count * parts) == 0:
                text = f"regroup {count} {parts}"
                yield text, operations.run(operations.parse(text), [whole], 1, backwards=False)[0]


def _parts_of(whole: Tensor, pool: Tensors) -> list[str]:
    """Tensors that lie one behind the other in a larger one, if they cover all of it."""
    if not whole.ndim or _says_nothing(whole):
        return []
    place = 0
    found: list[str] = []
    while place < len(whole):
        fitting = [
            name
            for name, part in pool.items()
            if part.ndim == whole.ndim
            and part.shape[1:] == whole.shape[1:]
            and len(part) <= len(whole) - place
            and len(part) < len(whole)
            and name not in found
            and not _says_nothing(part)
            and same_values(whole[place : place + len(part)], part)
        ]
        if not fitting:
            return []
        found.append(max(fitting, key=lambda name: _likeness(name, found[-1] if found else "")))
        place += len(pool[found[-1]])
    return found


def _chained(before: str, operation: str, rows: Sequence[int]) -> str:
    """`split`, or with unequal parts `split 1 1 4`, behind what comes first."""
    unit = math.gcd(*rows)
    numbers = "" if len(set(rows)) == 1 else " " + " ".join(str(count // unit) for count in rows)
    return " | ".join(part for part in (before, f"{operation}{numbers}") if part)


def _scaled(theirs: Tensors, ours: Tensors) -> Iterator[Match]:
    """Tensors of one shape that differ by a factor, which no operation of a map says."""
    for name, tensor in list(ours.items()):
        if _says_nothing(tensor):
            continue
        for other, candidate in list(theirs.items()):
            if candidate.shape == tensor.shape and not _says_nothing(candidate):
                state, detail = relation(candidate, tensor)
                if state == "scaled":
                    yield Match((other,), (name,), note=f"scaled {detail}")
                    break


def _constants(theirs: Tensors, ours: Tensors) -> Iterator[Match]:
    """Equal constants (norms that begin with ones): whichever of them is taken, the values are right."""
    for name, tensor in list(ours.items()):
        equal = [other for other, one in theirs.items() if same_values(one, tensor)]
        if equal:
            yield Match((max(equal, key=lambda other: _likeness(other, name)),), (name,), by=BY_SHAPE, equal=True)


def _by_shape(theirs: Tensors, ours: Tensors) -> Iterator[Match]:
    """What is left, by its shape: a guess where one of each side has it, and told as ambiguous where more have."""
    shapes = [defaultdict(list), defaultdict(list)]  # type: list[dict[tuple[int, ...], list[str]]]
    for by_shape, side in zip(shapes, (theirs, ours), strict=True):
        for name, tensor in side.items():
            by_shape[tuple(tensor.shape)].append(name)
    for shape, names in shapes[0].items():
        others = shapes[1].get(shape, [])
        if len(names) == len(others) == 1:
            yield Match((names[0],), (others[0],), by=BY_SHAPE)
        elif others:
            note = f"ambiguous: {len(names)} of theirs and {len(others)} of ours have the shape {list(shape)}"
            yield Match(tuple(names), tuple(others), by=BY_SHAPE, note=note)


def _content(tensor: Tensor) -> tuple[int, ...]:
    """What stays when numbers change their places: how many, and the bits of the sorted ones."""
    values = tensor.detach().flatten().float().sort().values
    picked = values[torch.linspace(0, len(values) - 1, min(len(values), 64)).long()]
    return len(values), *picked.view(torch.int32).tolist()


def _says_nothing(tensor: Tensor) -> bool:
    """Constants and single numbers have partners everywhere."""
    return tensor.numel() < 2 or not tensor.is_floating_point() or bool((tensor == tensor.flatten()[0]).all())


def _likeness(one: str, other: str) -> int:
    """How many parts two names share, from their ends, and how many numbers."""
    a, b = one.split("."), other.split(".")
    ends = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(reversed(a), reversed(b), strict=False))
    )
    return 2 * ends + len({x for x in a if x.isdigit()} & {x for x in b if x.isdigit()})
