"""A norm that is the reference's but for one thing, whether it is one call or written out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from .arrangement import arrangement_of
from .graph import SHAPES, FrameStep, FrameValue
from .matching import Matching
from .sameness import alike
from .settings import plain

NORMS = ("layer_norm", "group_norm", "rms_norm")
_LARGEST = 0.1  # an eps
_USUAL = 1e-5


def norm_words(matching: Matching, ours: FrameValue, theirs: FrameValue) -> tuple[str, str]:
    """The name of what is otherwise and the words for it; empty where nothing that is known makes the candidate's."""
    step = ours.step
    while step is not None and step.name in SHAPES and len(step.operands()) == 1:
        ours = step.operands()[0]
        step = ours.step
    if step is None or step.name not in NORMS or not step.operands():
        return "", ""
    form = _Norm(step)
    for name, words, made in form.others(_numbers(matching, theirs)):
        if _is(made, theirs.content, matching.tolerance):
            return name, words
    return "", ""


def _numbers(matching: Matching, value: FrameValue) -> list[float]:
    """Numbers in the candidate's steps that may be an eps."""
    steps = [] if matching.is_leaf(value) else list(matching.until_shared(value))
    given = [item for step in steps for item in [*step.args, *step.kwargs.values(), *plain(step).values()]]
    values = [float(item) for item in given if isinstance(item, float)]
    values += [float(v.content) for v in given if isinstance(v, FrameValue) and v.content.numel() == 1]
    return list(dict.fromkeys(number for number in values if 0 <= number <= _LARGEST))


def _is(made: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    with torch._C.DisableTorchFunction():
        return alike(made, wanted, tolerance) or arrangement_of(made, wanted, tolerance) is not None


class _Norm:
    """The reference's norm, taken apart."""

    def __init__(self, step: FrameStep) -> None:
        settings, tensors = plain(step), step.operands()
        self.name, self.x = step.name, tensors[0].content.detach().double()
        named = {k: v for k, v in step.kwargs.items() if isinstance(v, FrameValue)}
        affine = list(tensors[1:])
        self.weight = _content(named.get("weight") or (affine[0] if affine else None))
        self.bias = _content(named.get("bias") or (affine[1] if len(affine) > 1 else None))
        eps: Any = settings.get("eps", _USUAL if self.name != "rms_norm" else None)
        self.eps = float(eps) if eps is not None else float(torch.finfo(torch.float32).eps)
        groups = settings.get("num_groups", settings.get("1", 1))
        self.groups = int(groups) if isinstance(groups, int) else 1

    def others(self, numbers: list[float]) -> Iterator[tuple[str, str, torch.Tensor]]:
        """What it would be with one thing otherwise."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for eps in [n for n in numbers if n != self.eps]:
                yield "norm_eps", f"eps {eps:g} instead of eps {self.eps:g} in `{self.name}`", self.made(eps=eps)
            words = f"`{self.name}` with the variance over n - 1 instead of over n"
            yield "norm_variance", words, self.made(unbiased=True)
            words = f"`{self.name}` with eps added to the deviation instead of to the variance"
            yield "norm_eps", words, self.made(outside=True)
            if self.name == "group_norm":
                yield from self._other_groups()
            else:
                yield from self._other_extents()
            if self.weight is not None:
                yield "norm_affine", f"`{self.name}` without its weight", self.made(weight=False)
                yield "norm_affine", f"`{self.name}` times (1 + weight) instead of weight", self.made(one_more=True)
            if self.weight is not None and self.bias is not None:
                words = f"`{self.name}` without its weight and bias"
                yield "norm_affine", words, self.made(weight=False, bias=False)
            if self.bias is not None:
                yield "norm_affine", f"`{self.name}` without its bias", self.made(bias=False)
            if self.name != "rms_norm":
                yield "norm_kind", f"rms norm (no mean taken off) instead of `{self.name}`", self.made(centred=False)
            else:
                yield "norm_kind", "layer norm (the mean taken off) instead of `rms_norm`", self.made(centred=True)

    def _other_groups(self) -> Iterator[tuple[str, str, torch.Tensor]]:
        channels, groups = self.x.shape[1], self.groups
        for count in [n for n in range(1, channels + 1) if channels % n == 0 and n != groups]:
            yield "norm_groups", f"{count} groups instead of {groups} in `{self.name}`", self.made(groups=count)
        if 1 < groups < channels:
            words = f"every {groups}th channel makes a group instead of {channels // groups} neighbouring ones"
            yield "norm_groups", words, self.made(apart=True)

    def _other_extents(self) -> Iterator[tuple[str, str, torch.Tensor]]:
        """Over all heads together instead of over each one, and the reverse."""
        for axis in range(1, self.x.ndim - self._depth()):
            words = f"`{self.name}` over axis {axis} as well (all {self.x.shape[axis]} together instead of each one)"
            yield "reduced_axes", words, self.made(beside=axis)
        width = self.x.shape[-1]
        for parts in [n for n in range(2, width) if width % n == 0 and self._depth() == 1]:
            words = f"`{self.name}` over each of {parts} parts (of {width // parts}) instead of over all {width}"
            yield "reduced_axes", words, self.made(parts=parts)

    def made(
        self, eps: float | None = None, unbiased: bool = False, outside: bool = False, weight: bool = True,
        one_more: bool = False, bias: bool = True, centred: bool | None = None,
        groups: int | None = None, apart: bool = False, beside: int | None = None, parts: int = 1,
    ) -> torch.Tensor:  # fmt: skip
        eps = self.eps if eps is None else eps
        whole = _apart(self.x, self.groups) if apart else self.x
        x = whole.reshape(whole.shape[0], groups or self.groups, -1) if self.name == "group_norm" else whole
        x = x.unflatten(-1, (parts, -1)) if parts > 1 else x
        axes = list(range(-self._depth(), 0)) + ([beside - x.ndim] if beside is not None else [])
        mean = x.mean(axes, keepdim=True) if (self.name != "rms_norm" if centred is None else centred) else 0.0
        count = math.prod(x.shape[axis] for axis in axes)
        variance = ((x - mean) ** 2).sum(axes, keepdim=True) / max(1, count - unbiased)
        spread = variance.sqrt() + eps if outside else (variance + eps).sqrt()
        y = ((x - mean) / spread).reshape(self.x.shape)
        y = _apart(y, self.x.shape[1] // self.groups) if apart else y
        if self.weight is not None and weight:
            y = y * (self._spread(self.weight) + one_more)
        return (y + self._spread(self.bias) if self.bias is not None and bias else y).float()

    def _depth(self) -> int:
        if self.name == "group_norm":
            return 1
        return self.weight.ndim if self.weight is not None else 1

    def _spread(self, vector: torch.Tensor) -> torch.Tensor:
        return vector.reshape(1, -1, *[1] * (self.x.ndim - 2)) if self.name == "group_norm" else vector


def _apart(x: torch.Tensor, groups: int) -> torch.Tensor:
    """Channels in another order: those that are `groups` apart stand beside each other."""
    return x.unflatten(1, (-1, groups)).transpose(1, 2).flatten(1, 2)


def _content(value: FrameValue | None) -> torch.Tensor | None:
    return value.content.detach().double() if value is not None else None
