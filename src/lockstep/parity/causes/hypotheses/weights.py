"""Weights that are the other side's, a sibling's, or the own ones moved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from ..edits import Edit, ParameterChange
from ..probe import Probe
from ..relations import relation

MOST_RANKED = 1 << 22  # numbers of a matrix whose rank is looked at
LEAST_WIDTH = 8
NO_STRENGTH = 1e-4  # of the strongest direction: rounding


def parameter_edits(probe: Probe, other: dict[str, torch.Tensor] | None, differ: bool = True) -> Iterator[Edit]:
    """Weights: the other side's own; a sibling's if not all are known to be the same."""
    for path, module in probe.modules.items():
        for name, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is None:
                continue
            full = f"{path}.{name}"
            theirs = other.get(full) if other is not None else None
            if theirs is not None and theirs.shape == tensor.shape and not torch.equal(theirs.to(tensor.dtype), tensor):
                cause, words = weight_words(full, tensor, theirs, probe.everything)
                yield Edit(cause, words, (ParameterChange(path, name, lambda t, w=theirs: w.to(t.dtype)),), rank=1)
    if differ:
        yield from swapped_weights(probe, loaded=True)


def weight_words(
    full: str, ours: torch.Tensor, theirs: torch.Tensor, modules: Mapping[str, nn.Module]
) -> tuple[str, str]:
    """What the other weight is: a rearrangement of ours, another parameter, a rounded one, or simply other numbers."""
    for cause, words, moved in _moved(ours):
        if torch.equal(moved, theirs.to(ours.dtype)):
            return cause, f"`{full}` holds {words}"
    for path, module in modules.items():
        for name, tensor in module._parameters.items():
            if (
                tensor is not None
                and f"{path}.{name}" != full
                and tensor.shape == theirs.shape
                and torch.equal(tensor, theirs.to(tensor.dtype))
            ):
                return "tied_weight", f"`{full}` holds the values of `{path}.{name}`"
    if (told := _near(ours.detach(), theirs.detach())) is not None:
        return told[0], f"`{full}` {told[1]}"
    if float(theirs.float().abs().max()) == 0:
        return ("missing_bias" if full.endswith("bias") else "weight_values"), f"`{full}` is all zeros (not loaded)"
    ours, theirs = ours.detach(), theirs.detach()
    error = float((theirs.float() - ours.float()).norm() / ours.float().norm().clamp_min(1e-30))
    return (
        "weight_values",
        f"`{full}` holds other values (relative difference {error:.2g}): stale, not loaded, or another checkpoint",
    )


def _near(ours: torch.Tensor, theirs: torch.Tensor) -> tuple[str, str] | None:
    """Most of it is ours: rows in another order or left out, a multiple, or a matrix of few directions added."""
    if float(theirs.abs().max()) == 0:
        return None
    told = relation(ours, theirs)
    if told:
        kind = "part_order" if "order" in told or ("along" in told and "in all others" not in told) else "weight_values"
        kind = "transposed_weight" if "exchanged" in told else kind
        return kind, f"holds its values {told}"
    if ours.ndim < 2 or ours.numel() > MOST_RANKED:
        return None
    added = (theirs.double() - ours.double()).flatten(1)
    strengths = torch.linalg.svdvals(added)
    rank = int((strengths > NO_STRENGTH * strengths[0]).sum())
    if len(strengths) >= LEAST_WIDTH and rank <= len(strengths) // 4:
        return "low_rank", f"holds its values plus a matrix of rank {rank}: a LoRA missing, or with another scale"
    return None


def _moved(w: torch.Tensor) -> Iterator[tuple[str, str, torch.Tensor]]:
    yield "precision", "its values rounded to bfloat16", w.bfloat16().to(w.dtype)
    yield "precision", "its values rounded to float16", w.half().to(w.dtype)
    yield "sign", "its values negated", -w
    if w.ndim > 1 and w.shape[0] == w.shape[1]:
        yield "transposed_weight", "its transpose", w.transpose(0, 1)
    if w.ndim == 4 and w.shape[2] == w.shape[3] > 1:
        yield "transposed_weight", "its kernels with height and width swapped", w.transpose(2, 3)
        yield "flipped_kernel", "its kernels mirrored", w.flip(2, 3)
    for parts in (2, 3, 4):
        if w.shape and w.shape[0] % parts == 0:
            single = w.shape[0] == parts  # one row each: colours, or channels of a latent
            kind, blocks = (
                ("channel_order", f"its {parts} rows") if single else ("part_order", f"its {parts} row blocks")
            )
            yield kind, f"{blocks} in reversed order", torch.cat(w.chunk(parts)[::-1])
            yield (
                "part_order",
                f"its {parts} row blocks rolled by one",
                torch.cat([*w.chunk(parts)[1:], w.chunk(parts)[0]]),
            )
            yield (
                "interleave",
                f"its rows dealt into {parts}",
                w.unflatten(0, (-1, parts)).transpose(0, 1).flatten(0, 1),
            )


def swapped_weights(probe: Probe, loaded: bool = False) -> Iterator[Edit]:
    """Two children with the same shapes, exchanged or used twice: query and key, first and second norm, two blocks.

    Without a difference in what was `loaded`, the one is called for the other.
    """
    alike: dict[Any, list[str]] = defaultdict(list)
    for path, module in probe.children.items():
        shapes = tuple((name, tuple(t.shape)) for name, t in module.named_parameters())
        if shapes:
            alike[shapes].append(path)
    for members in alike.values():
        for i, first in enumerate(members):
            for second in members[i + 1 :]:
                left, right = first[len(probe.owner) + 1 :], second[len(probe.owner) + 1 :]
                to_first, to_second = _weights_of(probe, second, first), _weights_of(probe, first, second)
                leaves = not any(True for _ in probe.modules[first].children())
                name, words = ("swapped_weights", "the weights of ") if leaves else ("module_order", "")
                words = words if loaded else ""
                yield Edit(name, f"{words}`{left}` and `{right}` exchanged", (*to_first, *to_second), rank=3)
                for one, other, changes in ((right, left, to_second), (left, right, to_first)):
                    told = f"`{one}` uses the weights of `{other}`" if loaded else f"`{other}` in the place of `{one}`"
                    yield Edit("tied_weight", told, changes, rank=3)


def _weights_of(probe: Probe, source: str, target: str) -> tuple[ParameterChange, ...]:
    changes = []
    for name, tensor in probe.modules[source].named_parameters():
        below, _, last = name.rpartition(".")
        path = f"{target}.{below}" if below else target
        changes.append(ParameterChange(path, last, lambda old, new=tensor: new.detach()))
    return tuple(changes)
