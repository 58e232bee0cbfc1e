"""Means, sums and spreads taken over other axes (rows of a batch mixed, heads apart), or of another kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..edits import Call, Edit, Site
from ..examples import Example, edit

Sites = frozenset[Site]
Axes = tuple[int, ...]
REDUCTIONS = {"mean", "amax", "amin", "sum", "var", "std", "norm"}
_POOLED = {"mean", "amax", "sum"}
_SPREADS = {"std", "var"}


def reduction_edits(example: Example, sites: Sites) -> Iterator[Edit]:
    if example.op not in REDUCTIONS or not example.operands or not isinstance(example.operands[0], tuple):
        return
    rank = len(example.operands[0])
    now = _axes_now(example, rank)
    if now is None or not rank:
        return
    keep = bool(example.settings.get("keepdim")) or (len(example.shape) == rank > 0 and len(now) < rank)
    if example.op in _POOLED and len(now) == 1:
        yield from _other_kinds(example, now[0], keep, sites)
    if example.op in _SPREADS:
        yield from _other_spreads(example, now, keep, sites)
    for axes in _other_axes(example.operands[0], now, keep):
        words = f"`{example.op}` over {_words(axes, rank)} instead of {_words(now, rank)}"
        # one number for each row has to be spread over the row again; one for all goes everywhere by itself
        kept = (keep or len(now) == rank) and len(axes) < rank
        yield edit("reduced_axes", words, sites, lambda c, a=axes, k=kept: _reduced(c, a, k), rank=3)
        if keep and not kept:
            words += ", its axes kept"
            yield edit("reduced_axes", words, sites, lambda c, a=axes: _reduced(c, a, True), rank=3)


def _axes_now(example: Example, rank: int) -> Axes | None:
    """The axes that are reduced; all of them where none is named."""
    given = example.settings.get("dim", example.operands[1] if len(example.operands) > 1 else None)
    if example.op == "norm":
        given = example.settings.get("dim", example.operands[2] if len(example.operands) > 2 else None)
    if given is None or given == () or given == []:
        return tuple(range(rank))
    if isinstance(given, int) and not isinstance(given, bool):
        return (given % rank,) if rank else None
    if isinstance(given, (list, tuple)) and all(isinstance(a, int) for a in given):
        return tuple(sorted(a % rank for a in given))
    return None


def _other_axes(shape: tuple[int, ...], now: Axes, keep: bool) -> list[Axes]:
    """Single axes, one more or one less than now, each row by itself, everything at once; without `keepdim` those whose
    result has the same shape, and one number for all."""
    every, rows = tuple(range(len(shape))), tuple(range(1, len(shape)))
    found = [every, rows, (len(shape) - 1,), *[(a,) for a in rows], *[tuple(a for a in rows if a != b) for b in rows]]
    found += [tuple(sorted({*now, a})) for a in every] + [tuple(a for a in now if a != b) for b in now]
    others = [axes for axes in dict.fromkeys(found) if axes and axes != now]
    if keep or len(now) == len(shape):
        return others
    left = [size for axis, size in enumerate(shape) if axis not in now]
    return [a for a in others if a == every or [s for i, s in enumerate(shape) if i not in a] == left]


def _words(axes: Axes, rank: int) -> str:
    if axes == tuple(range(rank)):
        return "all axes, the batch included" if rank > 1 else "all axes"
    return f"axes {', '.join(map(str, axes))}" if len(axes) > 1 else f"axis {axes[0]}"


def _reduced(call: Call, axes: Axes, keep: bool) -> torch.Tensor:
    kept = {k: v for k, v in call.kwargs.items() if k in ("correction", "unbiased", "p", "dtype")}
    result: torch.Tensor = getattr(call.args[0], call.op)(dim=axes, keepdim=keep, **kept)
    return result


def _other_kinds(example: Example, dim: int, keep: bool, sites: Sites) -> Iterator[Edit]:
    others: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "the first element": lambda x: x.narrow(dim, 0, 1),
        "the last element": lambda x: x.narrow(dim, x.shape[dim] - 1, 1),
        "the maximum": lambda x: x.amax(dim, keepdim=True),
        "the mean": lambda x: x.mean(dim, keepdim=True),
        "the sum": lambda x: x.sum(dim, keepdim=True),
    }
    for words, function in others.items():
        if words != f"the {example.op}":
            words = f"{words} instead of the {example.op}"
            yield edit("pooling_kind", words, sites, lambda c, f=function: _squeezed(f(c.args[0]), dim, keep), rank=2)


def _squeezed(x: torch.Tensor, dim: int, keep: bool) -> torch.Tensor:
    return x if keep else x.squeeze(dim)


def _other_spreads(example: Example, now: Axes, keep: bool, sites: Sites) -> Iterator[Edit]:
    """n or n - 1 as divisor; the square or the root; the root of the mean square."""
    given = {**example.settings}
    biased = given.get("unbiased") is False or given.get("correction") == 0
    shown = ("n", "n - 1") if not biased else ("n - 1", "n")
    changes: dict[str, Any] = {
        f"divided by {shown[0]} instead of {shown[1]}": lambda x, op: getattr(x, op)(
            dim=now, keepdim=keep, correction=int(biased)
        ),
        "the mean not subtracted": lambda x, op: _of_squares(x.pow(2).mean(now, keepdim=keep), op),
    }
    for words, change in changes.items():
        words = f"`{example.op}` with {words}" if "mean" in words else f"`{example.op}` {words}"
        yield edit("norm_estimator", words, sites, lambda c, f=change: f(c.args[0], c.op), rank=3)
    other = "var" if example.op == "std" else "std"
    words = f"`{other}` instead of `{example.op}`"
    yield edit("reduction_kind", words, sites, lambda c: c.run() ** 2 if c.op == "std" else c.run() ** 0.5, rank=2)


def _of_squares(squares: torch.Tensor, op: str) -> torch.Tensor:
    return squares.sqrt() if op == "std" else squares
