"""A convolution whose stride is its kernel and a linear layer over patches: one step in two forms. What differs is the
order in which the values of a patch, or those of the weight, are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import torch

from .graph import SHAPES, FrameStep, FrameValue
from .matching import Matching
from .sameness import alike
from .settings import plain

OTHER_KERNELS = 10.0  # times the tolerance
_NAMES = ("channels", "frames", "rows", "columns")
_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_TURNING = ("permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims", "T", "mT", "t")
_PLAIN = ("padding", "dilation", "groups")
MOST_ELEMENTS = 1 << 22


_Given = tuple[FrameValue, FrameValue]


@dataclass(frozen=True)
class PatchOrder:
    """How the values of a patch lie, and those of the weight that they are multiplied with."""

    given: str
    weight: str

    def words(self) -> str:
        """`wrong instead of right`."""
        of = "patches whose values lie in the order"
        return f"{of} {self.given} instead of {of} {self.weight}, as the weight has them"


def patch_order(matching: Matching, ours: FrameValue, theirs: FrameValue) -> PatchOrder | None:
    """None where the two are not such a pair, or where the orders agree."""
    if (pair := _two_forms(ours, theirs)) is None:
        return None
    (picture, kernel), (rows, weight) = pair
    if kernel.content.numel() != weight.content.numel() or picture.content.numel() > MOST_ELEMENTS:
        return None
    with torch._C.DisableTorchFunction():
        given = _orders(_patches(picture.content, kernel.content), rows.content, matching.tolerance)
        held = _orders(kernel.content, weight.content, matching.tolerance)
    if not given or not held or set(given) & set(held):
        return None
    return PatchOrder(*(_said(order, kernel.content) for order in (given[0], held[0])))


def is_one_step(ours: FrameValue, theirs: FrameValue, tolerance: float) -> bool:
    """True for a convolution over patches and a linear layer with the same weight, in whatever order that lies."""
    if (pair := _two_forms(ours, theirs)) is None:
        return False
    kernel, weight = (given[1].content for given in pair)
    with torch._C.DisableTorchFunction():
        return kernel.numel() == weight.numel() and bool(_orders(kernel, weight, tolerance))


def lacks_bias(ours: FrameValue, theirs: FrameValue, tolerance: float) -> bool:
    """True if the candidate's is what the reference's convolution makes without its bias, in rows or as a map."""
    given = ours.step.operands() if ours.step is not None else []
    if len(given) < 3 or ours.content.ndim < 3 or theirs.content.numel() != ours.content.numel():
        return False
    with torch._C.DisableTorchFunction():
        bare = ours.content - given[2].content.view(-1, *[1] * (ours.content.ndim - 2))
        forms, shape = (bare, bare.flatten(2).transpose(1, 2)), theirs.content.shape
        return any(alike(form.reshape(shape), theirs.content, OTHER_KERNELS * tolerance) for form in forms)


def _two_forms(ours: FrameValue, theirs: FrameValue) -> tuple[_Given, _Given] | None:
    """What the convolution over patches and the linear layer are given, whichever side has which."""
    for one, other in ((ours, theirs), (theirs, ours)):
        linear = given_to_linear(other)
        if one.step is not None and linear is not None and _cuts_patches(one.step):
            return (one.step.operands()[0], one.step.operands()[1]), linear
    return None


def given_to_linear(value: FrameValue) -> _Given | None:
    """Rows and weight of a linear layer, also where it is a product and a sum; None for anything else."""
    step = value.step
    if step is not None and step.name == "add":
        made = [v.step for v in step.operands() if v.content.ndim > 1]
        step = made[0] if len(made) == 1 else None
    if step is None or step.name not in ("linear", "matmul") or len(step.operands()) < 2:
        return None
    rows, weight = step.operands()[:2]
    if step.name == "linear" or weight.content.ndim != 2:
        return (rows, weight) if step.name == "linear" else None
    with torch._C.DisableTorchFunction():
        return rows, replace(weight, content=weight.content.T)


def laid_by(value: FrameValue) -> FrameStep | None:
    """The step that put the axes of a value in their order, if the code that is looked at has it."""
    while value.step is not None and value.step.name in SHAPES and value.step.operands():
        if value.step.name in _TURNING:
            return value.step
        value = value.step.operands()[0]
    return None


def _cuts_patches(step: FrameStep) -> bool:
    """True for a convolution that sees every value once."""
    if step.name not in _CONVOLUTIONS or len(step.operands()) < 2:
        return False
    settings, kernel = plain(step), step.operands()[1].content.shape[2:]
    stride = settings.get("stride", 1)
    strides = tuple(stride) if isinstance(stride, (tuple, list)) else (stride,) * len(kernel)
    return strides == tuple(kernel) and not any(name in settings for name in _PLAIN)


def _patches(picture: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """Every patch with the axes of the kernel: channels first."""
    sizes = kernel.shape[2:]
    for axis, size in reversed(list(enumerate(sizes, 2))):
        count = picture.shape[axis] // size
        picture = picture.narrow(axis, 0, count * size).unflatten(axis, (count, size))
    places, inside = ([at + 2 * i for i in range(len(sizes))] for at in (2, 3))
    return picture.permute(0, *places, 1, *inside).flatten(0, len(sizes))


def _orders(whole: torch.Tensor, rows: torch.Tensor, tolerance: float) -> list[tuple[int, ...]]:
    """Orders of the axes behind the first with which one is the other."""
    rows = rows.reshape(-1, rows.shape[-1])
    if rows.numel() != whole.numel() or len(rows) != len(whole):
        return []
    return [order for order, moved in _moved(whole) if alike(moved, rows, tolerance)]


def _moved(whole: torch.Tensor) -> Iterator[tuple[tuple[int, ...], torch.Tensor]]:
    for order in permutations(range(whole.ndim - 1)):
        yield order, whole.permute(0, *(1 + axis for axis in order)).flatten(1)


def _said(order: tuple[int, ...], kernel: torch.Tensor) -> str:
    """The axes that are there by name, the outermost first."""
    names = (_NAMES[0], *_NAMES[len(_NAMES) - (kernel.ndim - 2) :])
    return ", ".join(names[axis] for axis in order if kernel.shape[1 + axis] > 1)
