"""The other side's parameters by the paths of this one, also where names, fusions or the weights themselves differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations

import torch

from ..comparison.results import Comparison
from ..comparison.weights import owner

NEAR = 0.7  # of a weight's norm: still the same weight, changed; two others are 1.4 apart
MOST_PARTS = 4

Weights = dict[str, torch.Tensor]


def weights_by_partner(comparison: Comparison, own: Weights, other: Weights, turned: bool) -> Weights:
    """What the other side holds in the place of each own parameter, as far as that is known."""
    found = dict(other) | _of_partners(comparison, other, turned)
    if turned:
        return found
    for name in [n for n, tensor in own.items() if n in found and found[n].shape != tensor.shape]:
        del found[name]  # a part of it, or nothing to do with it
    found |= _of_fused(own, other, {name for name in own if name not in found})
    left = {name: tensor for name, tensor in own.items() if name not in found}
    return found | _nearest(left, other)


def _of_partners(comparison: Comparison, other: Weights, turned: bool) -> Weights:
    """By modules whose values were put side by side."""
    inside: dict[str, Weights] = defaultdict(dict)
    for path, tensor in other.items():
        inside[owner(path)][path.rpartition(".")[2]] = tensor
    found: Weights = {}
    for node in comparison.nodes:
        if node.other is not None and not node.key.is_operation and node.key.path != node.other.path:
            mine, theirs = (node.other.path, node.key.path) if turned else (node.key.path, node.other.path)
            found |= {f"{mine}.{name}": tensor for name, tensor in inside[theirs].items()}
    return found


def _of_fused(own: Weights, other: Weights, wanted: set[str]) -> Weights:
    """Several own parameters in one of the other side's: rows that are equal say which stands where."""
    families: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in own:
        families[owner(owner(name)), name.rpartition(".")[2]].append(name)
    found: Weights = {}
    orders: dict[tuple[str, str], tuple[str, ...]] = {}  # owner of the whole and of the family -> owners in order
    wholes = sorted(other.items(), key=lambda item: item[1].ndim)
    for whole, tensor in [*wholes, *wholes]:  # biases say where weights stand; where they are other values, the reverse
        for (above, _), members in families.items():
            if not (wanted - set(found)) & set(members):
                continue
            last = members[0].rpartition(".")[2]
            known = orders.get((owner(whole), above)) if whole.rpartition(".")[2] == last else None
            combinations = [tuple(f"{o}.{last}" for o in known)] if known else _fitting(own, members, tensor)
            best = max(combinations, key=lambda parts: _agreement(own, parts, tensor), default=())
            if not best or any(part not in own for part in best) or not (known or _agreement(own, best, tensor) > 0):
                continue
            rows = tensor.split([own[part].shape[0] for part in best]) if _fits(own, best, tensor) else ()
            found |= dict(zip(best, rows, strict=False))
            orders[owner(whole), above] = tuple(owner(part) for part in best)
    return found


def _fits(own: Weights, parts: tuple[str, ...], whole: torch.Tensor) -> bool:
    same = all(own[part].shape[1:] == whole.shape[1:] and own[part].ndim for part in parts)
    return same and sum(own[part].shape[0] for part in parts) == whole.shape[0]


def _fitting(own: Weights, members: list[str], whole: torch.Tensor) -> Iterator[tuple[str, ...]]:
    alike = [m for m in members if own[m].ndim == whole.ndim and own[m].shape[1:] == whole.shape[1:]]
    for count in range(2, MOST_PARTS + 1):
        if len(alike) <= 2 * MOST_PARTS:
            yield from (parts for parts in permutations(alike, count) if _fits(own, parts, whole))


def _agreement(own: Weights, parts: tuple[str, ...], whole: torch.Tensor) -> int:
    """How many of the parts stand in the whole as they are."""
    if not _fits(own, parts, whole):
        return 0
    rows = whole.split([own[part].shape[0] for part in parts])
    return sum(torch.equal(own[part], there.to(own[part].dtype)) for part, there in zip(parts, rows, strict=True))


def _nearest(left: Weights, other: Weights) -> Weights:
    """Parameters that have no partner by name, beside what is nearest to them and equal to nothing else."""
    found: Weights = {}
    known = {_sum(tensor) for tensor in left.values()} & {_sum(tensor) for tensor in other.values()}
    other = {path: tensor for path, tensor in other.items() if _sum(tensor) not in known}
    for name, tensor in left.items():
        if _sum(tensor) in known:
            continue  # it is there as it is, under another name
        near = [(_apart(tensor, there), path) for path, there in other.items() if there.shape == tensor.shape]
        if near and min(near)[0] <= NEAR:
            found[name] = other[min(near)[1]]
    return found


def _sum(tensor: torch.Tensor) -> tuple[tuple[int, ...], float]:
    return tuple(tensor.shape), float(tensor.double().sum())


def _apart(a: torch.Tensor, b: torch.Tensor) -> float:
    norm = float(a.double().norm())
    return float((a.double() - b.double()).norm()) / norm if norm else 0.0 if torch.equal(a, b) else float("inf")
