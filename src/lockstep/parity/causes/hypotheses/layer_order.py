"""Layers of a list that hold each other's weights: loaded in another order, or run in another one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from torch import nn

from ...comparison.results import Comparison
from ..edits import Edit, ParameterChange

SHOWN = 8


def layer_order_edits(search: Any, comparison: Comparison) -> Iterator[Edit]:
    """Which layer's weights stand where on the other side, read from modules that were put together by their
    weights."""
    for above, partners in _numbered(comparison, search.turned).items():
        layers = [path for path in search.modules if path.rpartition(".")[0] == above]
        if not isinstance(search.modules.get(above), nn.ModuleList) or len(partners) != len(layers) < 2:
            continue
        order = sorted(partners, key=lambda number: partners[number])  # own numbers as the other side runs them
        if len(set(partners.values())) != len(partners) or order == sorted(order):
            continue
        moved = [(place, source) for place, source in enumerate(order) if place != source]
        changes = [change for place, source in moved for change in _loaded(search, above, place, source)]
        if changes is None or any(change is None for change in changes):
            continue
        shown = ", ".join(map(str, order[:SHOWN])) + ("…" if len(order) > SHOWN else "")
        first = f"`{above}.{moved[0][0]}` holds the weights of `{above}.{moved[0][1]}`"
        words = f"{first} (or is run in its place): {len(moved)} of {len(order)} layers stand in the order {shown}"
        yield Edit("module_order", words, tuple(c for c in changes if c is not None), rank=0)


def _numbered(comparison: Comparison, turned: bool) -> dict[str, dict[int, int]]:
    """Per list of layers the other side's number of each of them."""
    votes: dict[tuple[str, str], dict[int, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for node in comparison.nodes:
        if node.other is None or node.key.is_operation or node.how not in ("weights", "order"):
            continue
        own, other = (node.other.path, node.key.path) if turned else (node.key.path, node.other.path)
        for (above, mine), (beside, theirs) in ((a, b) for a in _numbers(own) for b in _numbers(other)):
            votes[above, beside][mine][theirs] += 1
    found: dict[str, dict[int, int]] = {}
    for (above, _), numbers in votes.items():
        clear = {mine: counts.most_common(1)[0][0] for mine, counts in numbers.items() if len(counts) == 1}
        if len(clear) == len(numbers) and len(clear) > len(found.get(above, {})):
            found[above] = clear
    return found


def _numbers(path: str) -> list[tuple[str, int]]:
    """Every list that a module is in, with its number there."""
    parts = path.split(".")
    return [(".".join(parts[:i]), int(part)) for i, part in enumerate(parts) if i and part.isdigit()]


def _loaded(search: Any, above: str, place: int, source: int) -> list[ParameterChange | None]:
    """All weights of one layer in another."""
    target, origin = search.modules.get(f"{above}.{place}"), search.modules.get(f"{above}.{source}")
    if target is None or origin is None:
        return [None]
    given, wanted = dict(origin.named_parameters()), dict(target.named_parameters())
    if {name: p.shape for name, p in given.items()} != {name: p.shape for name, p in wanted.items()}:
        return [None]
    found: list[ParameterChange | None] = []
    for name, tensor in given.items():
        below, _, last = name.rpartition(".")
        path = f"{above}.{place}.{below}" if below else f"{above}.{place}"
        found.append(ParameterChange(path, last, lambda old, new=tensor: new.detach()))
    return found
