"""What a weight map can do to tensors on their way, each operation readable in both directions.

An operation is written as its name and its numbers, `split 1 1 1 4`; several in a row are joined by `|`:
`transpose | split`. Forwards is from a file's layout to the model's; backwards undoes it, to the last bit
(`absorb_bias` alone gives back what computes the same). All of them work on `meta` tensors too, so that shapes are
known from a header. Each has its before and after in docs/weight-maps.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ConfigError, UnknownNameError, WeightsError

Tensors = list[Tensor]
Numbers = tuple[int, ...]
Change = Callable[[Tensors, Numbers, int], Tensors]  # (tensors, the operation's numbers, how many have to come out)


@dataclass(frozen=True)
class Operation:
    """A named change of tensors, with its numbers."""

    name: str
    numbers: Numbers = ()

    def forwards(self, tensors: Tensors, wanted: int) -> Tensors:
        return OPERATIONS[self.name][0](tensors, self.numbers, wanted)

    def backwards(self, tensors: Tensors, wanted: int) -> Tensors:
        return OPERATIONS[self.name][1](tensors, self.numbers, wanted)

    def __str__(self) -> str:
        return " ".join([self.name, *map(str, self.numbers)])


def parse(text: str) -> tuple[Operation, ...]:
    """`"transpose | split 1 1 2"` as operations; nothing, or `keep`, is none."""
    operations = []
    for part in text.split("|"):
        name, *numbers = part.split() or ["keep"]
        if name not in OPERATIONS:
            raise UnknownNameError("operation of a weight map", name, OPERATIONS)
        if not all(number.isdigit() for number in numbers):
            raise ConfigError(f"The numbers of an operation are whole, got {part.strip()!r}.")
        operations.append(Operation(name, tuple(int(number) for number in numbers)))
    return tuple(operation for operation in operations if operation.name != "keep")


def _each(change: Callable[[Tensor, Numbers], Tensor]) -> Change:
    return lambda tensors, numbers, wanted: [change(tensor, numbers) for tensor in tensors]


def _split(tensors: Tensors, ratio: Numbers, wanted: int) -> Tensors:
    (tensor,) = tensors
    parts = ratio or (1,) * wanted
    unit, rest = divmod(_rows(tensor), sum(parts) or 1)
    if rest or len(parts) != wanted:
        raise WeightsError(
            f"A split into {wanted} parts as {':'.join(map(str, parts))} cannot be made of {_rows(tensor)} rows."
        )
    return list(tensor.split([unit * part for part in parts]))


def _join(tensors: Tensors, ratio: Numbers, wanted: int) -> Tensors:
    if len({tensor.shape[1:] for tensor in tensors}) != 1 or len({tensor.dtype for tensor in tensors}) != 1:
        found = ", ".join(f"{list(tensor.shape)} {tensor.dtype}" for tensor in tensors)
        raise WeightsError(f"Tensors that are joined agree in dtype and in all axes but the first, got {found}.")
    joined = torch.cat(tensors)
    again = [part.shape for part in _split([joined], ratio, len(tensors))]
    if again != [tensor.shape for tensor in tensors]:
        raise WeightsError(
            f"Tensors that are joined have rows as {':'.join(map(str, ratio or [1] * len(tensors)))}, "
            f"got {', '.join(str(_rows(tensor)) for tensor in tensors)}."
        )
    return [joined]


def _transpose(tensor: Tensor, _: Numbers) -> Tensor:
    if tensor.ndim == 1:
        return tensor  # a bias beside its weight
    if tensor.ndim != 2:
        raise WeightsError(f"A transposition wants two axes, got the shape {list(tensor.shape)}.")
    return tensor.T


def _permute(tensor: Tensor, order: Numbers) -> Tensor:
    if sorted(order) != list(range(tensor.ndim)):
        raise WeightsError(
            f"A permutation {' '.join(map(str, order))} wants {len(order)} axes, got {list(tensor.shape)}."
        )
    return tensor.permute(order)


def _permute_back(tensor: Tensor, order: Numbers) -> Tensor:
    return _permute(tensor, tuple(order.index(axis) for axis in range(len(order))))


def _regroup(tensor: Tensor, numbers: Numbers, swapped: bool = False) -> Tensor:
    """Rows seen as (outer, inner, rest), with the two groups exchanged, or back."""
    outer, inner = _count(numbers, 2)
    if not outer * inner or _rows(tensor) % (outer * inner):
        raise WeightsError(f"{_rows(tensor)} rows cannot be seen as {outer} groups of {inner}.")
    sizes = (inner, outer) if swapped else (outer, inner)
    return tensor.unflatten(0, (*sizes, -1)).transpose(0, 1).flatten(0, 2)


def _interleave(tensor: Tensor, numbers: Numbers, back: bool = False) -> Tensor:
    """In each head: pairs (a0 b0 a1 b1 …) become halves (a0 a1 … b0 b1 …), or back."""
    (heads,) = _count(numbers, 1)
    if not heads or _rows(tensor) % (2 * heads):
        raise WeightsError(f"{_rows(tensor)} rows cannot be seen as {heads} heads of pairs.")
    seen = tensor.unflatten(0, (heads, 2, -1) if back else (heads, -1, 2))
    return seen.transpose(1, 2).flatten(0, 2)


def _swap_halves(tensor: Tensor, _: Numbers) -> Tensor:
    if _rows(tensor) % 2:
        raise WeightsError(f"Scale and shift are two halves of the rows, got {_rows(tensor)} rows.")
    first, second = tensor.chunk(2)
    return torch.cat([second, first])


def _absorb_bias(tensors: Tensors, _: Numbers, wanted: int) -> Tensors:
    """(weight, bias, shift that is added before the layer) -> (weight, bias that has taken the shift in)."""
    weight, bias, shift = tensors
    product = (weight.double().flatten(1) @ shift.double()).to(bias.device)
    return [weight, (bias.double() + product).to(bias.dtype)]


def _release_bias(tensors: Tensors, _: Numbers, wanted: int) -> Tensors:
    weight, bias = tensors
    return [weight, bias, torch.zeros(weight.shape[1], dtype=bias.dtype, device=bias.device)]


def _squeeze(tensor: Tensor, axes: Numbers) -> Tensor:
    """A convolution with a kernel of one as a matrix; what is one already, and a bias, stays."""
    count = axes[0] if axes else 2
    if tensor.ndim <= 2:
        return tensor
    if any(size != 1 for size in tensor.shape[2:]) or tensor.ndim != 2 + count:
        raise WeightsError(f"A kernel of one in {count} axes was wanted, got the shape {list(tensor.shape)}.")
    return tensor.flatten(1)


def _unsqueeze(tensor: Tensor, axes: Numbers) -> Tensor:
    return tensor if tensor.ndim != 2 else tensor.reshape(*tensor.shape, *(1,) * (axes[0] if axes else 2))


def _nothing(tensors: Tensors, _: Numbers, wanted: int) -> Tensors:
    return []


def _rows(tensor: Tensor) -> int:
    return tensor.shape[0] if tensor.ndim else 0


def _same(tensors: Tensors, _: Numbers, wanted: int) -> Tensors:
    return tensors


# name -> (forwards, backwards)
OPERATIONS: dict[str, tuple[Change, Change]] = {
    "keep": (_same, _same),
    "split": (_split, _join),
    "join": (_join, _split),
    "transpose": (_each(_transpose), _each(_transpose)),
    "permute": (_each(_permute), _each(_permute_back)),
    "interleave": (_each(_interleave), _each(functools.partial(_interleave, back=True))),
    "regroup": (_each(_regroup), _each(functools.partial(_regroup, swapped=True))),
    "swap_scale_shift": (_each(_swap_halves), _each(_swap_halves)),
    "absorb_bias": (_absorb_bias, _release_bias),
    "squeeze": (_each(_squeeze), _each(_unsqueeze)),
    "drop": (_nothing, _nothing),
    "accept": (_same, _same),
}


def _count(numbers: Numbers, wanted: int) -> Numbers:
    if len(numbers) != wanted:
        raise ConfigError(f"The operation wants {wanted} numbers, got {len(numbers)}.")
    return numbers


def run(operations: Sequence[Operation], tensors: Tensors, wanted: int, backwards: bool) -> Tensors:
    """The tensors after all operations, of which `wanted` have to come out."""
    for place, operation in enumerate(reversed(operations) if backwards else operations):
        last = place == len(operations) - 1
        count = wanted if last or operation.name in ("split", "join") else len(tensors)
        tensors = (operation.backwards if backwards else operation.forwards)(tensors, count)
    if len(tensors) != wanted:
        raise WeightsError(f"{wanted} tensors were wanted from {', '.join(map(str, operations))}, got {len(tensors)}.")
    return tensors
